package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

func TestPauses(t *testing.T) {
	now := time.Date(2026, time.February, 28, 12, 0, 0, 0, time.UTC)
	const restoring = "A restoration has begun and has not ended: run garden-operator restore again."
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        string
		result      ctrl.Result
	}{
		"none":  {},
		"ended": {annotations: map[string]string{"espalier.dev/paused-until": "2026-02-28T12:00:00Z"}},
		"until a time": {
			annotations: map[string]string{"espalier.dev/paused-until": "2026-02-28T13:00:00Z"},
			want:        "The annotation espalier.dev/paused-until stops reconciliation and deletion until 2026-02-28T13:00:00Z.",
			result:      ctrl.Result{RequeueAfter: time.Hour},
		},
		"a restoration": {
			annotations: map[string]string{"espalier.dev/paused-until": "true", "espalier.dev/restoring": "0123456789abcdef"}, want: restoring,
		},
		"a restoration whose pause was removed": {
			annotations: map[string]string{"espalier.dev/restoring": "0123456789abcdef true"}, want: restoring,
		},
		"a restoration whose pause has ended": {
			annotations: map[string]string{"espalier.dev/paused-until": "2026-02-28T11:00:00Z", "espalier.dev/restoring": "0123456789abcdef"},
			want:        restoring,
		},
		"a restoration without a digest": {annotations: map[string]string{"espalier.dev/restoring": ""}, want: restoring},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := pauseOf(&operatorv1alpha1.Garden{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}}, now)
			g.Expect(p != nil).To(Equal(tc.want != ""))
			if p != nil {
				g.Expect(p.message).To(Equal(tc.want))
				g.Expect(p.result(now)).To(Equal(tc.result))
			}
		})
	}
}

package criticalcomponents

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/config"
)

func TestBackoff(t *testing.T) {
	for name, tc := range map[string]struct {
		configured *metav1.Duration
		want       time.Duration
	}{
		"as configured":             {configured: &metav1.Duration{Duration: time.Minute}, want: time.Minute},
		"none":                      {want: 10 * time.Second},
		"one that would never look": {configured: ptr.To(metav1.Duration{}), want: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(backoff(config.NodeController{Backoff: tc.configured})).To(Equal(tc.want))
		})
	}
}

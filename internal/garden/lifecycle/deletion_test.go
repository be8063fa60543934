package lifecycle

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// A broken component must not prevent the deletion.
func TestGardenInDeletionIsNotComparedWithWhatIsDeployed(t *testing.T) {
	g := NewWithT(t)
	broken := errors.New("broken")
	r := &Reconciler{Client: interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{Get: func(
		context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption,
	) error {
		return broken
	}})}
	garden := &operatorv1alpha1.Garden{ObjectMeta: metav1.ObjectMeta{Name: "garden", Generation: 2}}
	garden.Spec.VirtualCluster = operatorv1alpha1.VirtualCluster{
		DNS:         operatorv1alpha1.DNS{Domains: []operatorv1alpha1.Domain{{Name: "example.com"}}},
		Kubernetes:  operatorv1alpha1.Kubernetes{Version: "1.33.1"},
		Maintenance: operatorv1alpha1.Maintenance{TimeWindow: operatorv1alpha1.MaintenanceTimeWindow{Begin: "220000+0100", End: "230000+0100"}},
	}
	_, err := r.before(t.Context(), garden)
	g.Expect(err).To(MatchError(broken))
	garden.DeletionTimestamp = ptr.To(metav1.Now())
	g.Expect(r.before(t.Context(), garden)).To(Equal(garden))
}

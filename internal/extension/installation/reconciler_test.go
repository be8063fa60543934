package installation

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/extension/conditions"
)

// The breach of a policy ends the attempts, and another controller may write its own condition at the same time.
func TestAVerdictThatIsNotWrittenIsTriedAgain(t *testing.T) {
	g, scheme := NewWithT(t), runtime.NewScheme()
	g.Expect(corev1beta1.AddToScheme(scheme)).To(Succeed())
	ci := &corev1beta1.ControllerInstallation{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	failing := func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "controllerinstallations"}, "shop", errors.New("changed"))
	}
	garden := fake.NewClientBuilder().WithScheme(scheme).WithObjects(ci).WithStatusSubresource(ci).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: failing}).Build()
	r := &Reconciler{Garden: garden, Clock: clock.RealClock{}}
	breach := invalid(reasonPolicy, errors.New("the chart breaks the chart policy"))
	verdict := valid(corev1beta1.ConditionFalse, reasonPolicy, breach.Error())
	_, err := r.conclude(t.Context(), ci, []conditions.Verdict{verdict}, reconcile.TerminalError(breach))
	g.Expect(errors.Is(err, reconcile.TerminalError(nil))).To(BeFalse())
	g.Expect(conflict.Only(err)).To(BeTrue())
}

package invalidator

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// empty is a cache that contains no objects.
type empty struct{ cache.Cache }

func (empty) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
}

func TestPausesOfADeletedSecretAreForgotten(t *testing.T) {
	g := NewWithT(t)
	key := types.NamespacedName{Namespace: "ns", Name: "s"}
	r := &Reconciler{Secrets: empty{}, Pauses: NewPauses()}
	r.Pauses.When(key)
	g.Expect(r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})).To(BeZero())
	g.Expect(r.Pauses.NumRequeues(key)).To(BeZero())
}

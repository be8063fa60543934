package virtual

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/rollout"
)

func TestDeletionWaitsForExtensions(t *testing.T) {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(operatorv1alpha1.AddToScheme(scheme)).To(Succeed())
	extension := func(name, reason string, finalizers ...string) *operatorv1alpha1.Extension {
		e := &operatorv1alpha1.Extension{}
		e.Name, e.Finalizers = name, finalizers
		e.Status.Conditions = []corev1beta1.Condition{{Type: "Installed", Reason: reason}}
		return e
	}
	check := func(all ...*operatorv1alpha1.Extension) error {
		builder := fake.NewClientBuilder().WithScheme(scheme)
		for _, each := range all {
			builder = builder.WithObjects(each)
		}
		return namespace{Cluster: rollout.Cluster{Client: builder.Build()}}.checkExtensions(t.Context())
	}
	g.Expect(check()).To(Succeed())
	g.Expect(check(
		extension("gone", "DeleteSuccessful"), extension("kept", "InstalledInRuntime", "gardener.cloud/operator"),
		extension("referring", "DeleteSuccessful", "gardener.cloud/reference-protection"),
	)).To(Succeed())
	g.Expect(check(extension("shop", "DeletePending", "gardener.cloud/operator"))).To(
		MatchError(`parts of Extension "shop" are still in the clusters (see kubectl describe extop shop)`))
}

func TestDeletionDoesNotWaitForExtensionsOfAnAbandonedCluster(t *testing.T) {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(operatorv1alpha1.AddToScheme(scheme)).To(Succeed())
	e := &operatorv1alpha1.Extension{}
	e.Name, e.Finalizers = "shop", []string{"gardener.cloud/operator"}
	check := checks{
		namespace: namespace{Cluster: rollout.Cluster{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(e).Build()}},
		skipped:   []string{CheckUnused},
	}
	g.Expect(check.ensureDestroyable(t.Context(), true)).To(Succeed())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.Expect(check.ensureDestroyable(ctx, false)).NotTo(Succeed())
}

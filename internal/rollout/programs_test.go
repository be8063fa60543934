package rollout

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func role(kind string) object {
	return object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": object{"name": "a"}}
}

// recording returns a client, and the list in which it records each write as "verb field-manager".
func recording() (recorder client.WithWatch, writes *[]string) {
	writes = &[]string{}
	return interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			*writes = append(*writes, "create "+(&client.CreateOptions{}).ApplyOptions(options).FieldManager)
			return c.Create(ctx, o, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			asked := &client.UpdateOptions{}
			asked.ApplyOptions(options)
			*writes = append(*writes, "update "+asked.FieldManager)
			return c.Update(ctx, o, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			asked := &client.PatchOptions{}
			asked.ApplyOptions(options)
			*writes = append(*writes, "patch "+asked.FieldManager)
			return c.Patch(ctx, o, patch, options...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			asked := &client.ApplyOptions{}
			asked.ApplyOptions(options)
			*writes = append(*writes, "apply "+asked.FieldManager)
			return c.Apply(ctx, o, options...)
		},
	}), writes
}

func TestEachProgramWritesWithItsSettings(t *testing.T) {
	g := NewWithT(t)
	writes, written := recording()
	c := Cluster{
		Client: writes, FieldManager: "other", CreatedBy: Label{Key: "creator", Value: "x"}, LimitedKinds: []string{"ClusterRoleBinding"},
	}
	clusterRole, binding := of(role("ClusterRole")), of(role("ClusterRoleBinding"))
	g.Expect(c.Deploy(t.Context(), clusterRole, binding)).To(Succeed())
	changed := clusterRole.DeepCopy()
	changed.SetAnnotations(map[string]string{"note": "x"})
	g.Expect(c.Deploy(t.Context(), changed)).To(Succeed())
	g.Expect(c.Annotate(t.Context(), clusterRole, map[string]any{"note": nil})).To(Succeed())
	g.Expect(*written).To(Equal([]string{"create other", "apply other", "update other", "patch other"}))
	live := &rbacv1.ClusterRole{}
	g.Expect(writes.Get(t.Context(), client.ObjectKey{Name: "a"}, live)).To(Succeed())
	g.Expect(live.Labels).To(Equal(map[string]string{"creator": "x"}))
	g.Expect(live.Annotations).To(BeEmpty())
}

func TestAProgramDestroysOnlyObjectsThatItCreated(t *testing.T) {
	g := NewWithT(t)
	live := fake.NewClientBuilder().Build()
	clusterRole := of(role("ClusterRole"))
	g.Expect(operator(live).Deploy(t.Context(), clusterRole)).To(Succeed())
	other := operator(live)
	other.CreatedBy.Value = "other"
	for _, each := range []Cluster{other, {Client: live}} {
		g.Expect(each.HasOwn(t.Context(), clusterRole)).To(BeFalse())
		g.Expect(each.Delete(t.Context(), clusterRole, each.IsOurs)).To(BeFalse())
	}
	g.Expect(Cluster{}.IsOurs(clusterRole)).To(BeFalse(), "a program without a label has no objects")
	g.Expect(operator(live).Delete(t.Context(), clusterRole, operator(live).IsOurs)).To(BeTrue())
	err := live.Get(t.Context(), client.ObjectKey{Name: "a"}, &rbacv1.ClusterRole{})
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
}

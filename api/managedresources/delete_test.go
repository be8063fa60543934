package managedresources_test

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/api/managedresources"
)

func TestDeleteDeletesManagedResourceAndSecrets(t *testing.T) {
	without := func(ctx context.Context, c client.Client) error {
		return managedresources.Delete(ctx, c, "ns", "mr", false)
	}
	withPrefix := func(ctx context.Context, c client.Client) error {
		return managedresources.Delete(ctx, c, "ns", "mr", true)
	}
	forSeed := func(ctx context.Context, c client.Client) error {
		return managedresources.DeleteForSeed(ctx, c, "ns", "mr")
	}
	forShoot := func(ctx context.Context, c client.Client) error {
		return managedresources.DeleteForShoot(ctx, c, "ns", "mr")
	}

	for name, tc := range map[string]struct {
		delete func(context.Context, client.Client) error
		objs   []client.Object
		want   []string
		left   []string
	}{
		"the legacy Secret, all referenced Secrets, and the ManagedResource last": {
			delete: without,
			objs: []client.Object{
				secretNamed("mr", nil), secretNamed("s1", nil), secretNamed("s2", nil), secretNamed("other", nil),
				managedResourceNamed("mr", "s1", "s2", ""),
			},
			want: []string{"delete Secret ns/mr", "delete Secret ns/s1", "delete Secret ns/s2", "delete ManagedResource ns/mr"},
			left: []string{"ns/other"},
		},
		"the legacy Secret with prefix": {
			delete: withPrefix,
			objs:   []client.Object{secretNamed("mr", nil), secretNamed("managedresource-mr", nil), managedResourceNamed("mr")},
			want:   []string{"delete Secret ns/managedresource-mr", "delete ManagedResource ns/mr"},
			left:   []string{"ns/mr"},
		},
		"in a seed": {
			delete: forSeed,
			objs:   []client.Object{secretNamed("managedresource-mr", nil), managedResourceNamed("mr")},
			want:   []string{"delete Secret ns/managedresource-mr", "delete ManagedResource ns/mr"},
		},
		"in a shoot": {
			delete: forShoot,
			objs:   []client.Object{secretNamed("managedresource-mr", nil), managedResourceNamed("mr")},
			want:   []string{"delete Secret ns/managedresource-mr", "delete ManagedResource ns/mr"},
		},
		"Secrets that are gone already": {
			delete: without,
			objs:   []client.Object{managedResourceNamed("mr", "s1")},
			want:   []string{"delete Secret ns/mr", "delete Secret ns/s1", "delete ManagedResource ns/mr"},
		},
		"a ManagedResource that is gone already": {
			delete: without,
			objs:   []client.Object{secretNamed("mr", nil), secretNamed("s1", nil)},
			want:   []string{"delete Secret ns/mr"},
			left:   []string{"ns/s1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := newCluster(t, tc.objs...)
			g.Expect(tc.delete(t.Context(), c)).To(Succeed())
			g.Expect(c.newWrites()).To(Equal(tc.want))
			g.Expect(c.managedResources(t)).To(BeEmpty())
			var left []string
			for name := range c.secrets(t) {
				left = append(left, name)
			}
			g.Expect(left).To(Equal(tc.left))
		})
	}
}

func TestDeleteFails(t *testing.T) {
	broken := errors.New("broken")
	for write, want := range map[string]string{
		"delete Secret ns/s1":          "delete secret ns/s1: broken",
		"delete ManagedResource ns/mr": "delete managed resource ns/mr: broken",
	} {
		t.Run(write, func(t *testing.T) {
			g := NewWithT(t)
			c := newCluster(t, secretNamed("s1", nil), managedResourceNamed("mr", "s1"))
			c.fail[write] = broken
			g.Expect(managedresources.Delete(t.Context(), c, "ns", "mr", false)).To(MatchError(want))
			g.Expect(c.managedResources(t)).To(HaveKey("ns/mr"))
		})
	}
}

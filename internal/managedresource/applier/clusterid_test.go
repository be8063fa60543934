package applier_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

const clusterIDs = "espalier.dev/cluster-ids"

// startWithClusterID starts a controller with a cluster ID and one set, "mr", of two ConfigMaps.
func startWithClusterID(t *testing.T, id string) *Env {
	t.Helper()
	e := New(t, Options{TwoClusters: true, Configure: func(c *config.ResourceManagerConfiguration) {
		longSyncPeriod(c)
		c.Controllers.ClusterID = &id
	}})
	e.Set("mr", e.ConfigMap("c", "1"), e.ConfigMap("d", "1"))
	e.AwaitApplied("mr", succeeded)
	return e
}

// restartAs restarts the controller with another cluster ID.
func restartAs(e *Env, id string, meanwhile func()) {
	e.T.Helper()
	e.Restart(func() {
		e.Config.Controllers.ClusterID = ptr.To(id)
		meanwhile()
	})
}

func TestObjectsAreDeletedAfterAChangeOfTheClusterID(t *testing.T) {
	t.Parallel()
	for name, ids := range map[string][2]string{"from none": {"", "new"}, "to another": {"old", "new"}, "to none": {"old", ""}} {
		t.Run("deletion of the set, "+name, func(t *testing.T) {
			t.Parallel()
			e := startWithClusterID(t, ids[0])
			restartAs(e, ids[1], func() { e.Delete("mr") })
			e.AwaitGone("mr")
			e.Expect(e.LiveConfigMap("c")).To(BeNil())
			e.Expect(e.LiveConfigMap("d")).To(BeNil())
		})
	}
	t.Run("removal from the set", func(t *testing.T) {
		t.Parallel()
		e := startWithClusterID(t, "old")
		restartAs(e, "new", func() { e.Secret("mr", e.ConfigMap("c", "1")) })
		e.Eventually(func() any { return e.LiveConfigMap("d") }).WithTimeout(Patience).Should(BeNil())
		e.AwaitApplied("mr", succeeded)
		e.Eventually(func() string { return e.Get("mr").Annotations[clusterIDs] }).WithTimeout(Patience).Should(Equal("new"))
		e.Expect(e.LiveConfigMap("c").Annotations).To(HaveKeyWithValue("resources.gardener.cloud/origin", "new:"+e.Namespace+"/mr"))
	})
}

// The controller to which the set is handed over may have another cluster ID.
func TestTheClusterIDIsForgottenWhenTheSetIsHandedOver(t *testing.T) {
	t.Parallel()
	e := startWithClusterID(t, "own")
	e.Eventually(func() string { return e.Get("mr").Annotations[clusterIDs] }).WithTimeout(Patience).Should(Equal("own"))
	e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = ptr.To("seed") })
	e.Eventually(func() []string { return e.Get("mr").Finalizers }).WithTimeout(Patience).Should(BeEmpty())
	e.Expect(e.Get("mr").Annotations).NotTo(HaveKey(clusterIDs))
}

func TestAnObjectIsReleasedAfterAChangeOfTheClusterID(t *testing.T) {
	t.Parallel()
	for name, ids := range map[string][2]string{"from none": {"", "new"}, "to another": {"old", "new"}, "to none": {"old", ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := startWithClusterID(t, ids[0])
			restartAs(e, ids[1], func() { e.Secret("mr", e.ConfigMap("c", "1"), e.ConfigMap("d", "1", ignoreMode)) })
			e.Eventually(func() map[string]string { return e.LiveConfigMap("d").Annotations }).WithTimeout(Patience).
				ShouldNot(Or(HaveKey("resources.gardener.cloud/origin"), HaveKey("resources.gardener.cloud/description")))
			e.AwaitApplied("mr", succeeded)
			e.Expect(e.LiveConfigMap("d").Data).To(Equal(map[string]string{"key": "1"}))
		})
	}
	t.Run("a set of the same name in another cluster", func(t *testing.T) {
		t.Parallel()
		e := startWithClusterID(t, "own")
		e.Restart(func() {
			e.Edit("d", fmt.Sprintf(`{"metadata":{"annotations":{"resources.gardener.cloud/origin":"other:%s/mr"}}}`, e.Namespace))
			e.Secret("mr", e.ConfigMap("c", "1"), e.ConfigMap("d", "1", ignoreMode))
		})
		e.Eventually(func() int { return len(e.Get("mr").Status.Resources) }).WithTimeout(Patience).Should(Equal(1))
		e.AwaitApplied("mr", succeeded)
		e.Expect(e.LiveConfigMap("d").Annotations).To(HaveKeyWithValue("resources.gardener.cloud/origin", "other:"+e.Namespace+"/mr"))
	})
}

// Without the annotation that records former cluster IDs, the origin may name a set of the same name in another cluster.
func TestASetWithAnObjectOfDoubtfulOriginReportsItAndStays(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		decide func(e *Env)
		stays  bool
	}{
		"until the set records the former ID": {decide: func(e *Env) {
			e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) {
				mr.Annotations = map[string]string{clusterIDs: "old"}
			})
		}},
		"until the object is to be kept": {stays: true, decide: func(e *Env) {
			for _, each := range []string{"c", "d"} {
				e.Edit(each, `{"metadata":{"annotations":{"resources.gardener.cloud/keep-object":"true"}}}`)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := startWithClusterID(t, "old")
			restartAs(e, "new", func() {
				e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { delete(mr.Annotations, clusterIDs) })
				e.Delete("mr")
			})
			e.Eventually(func() string { return Message(e.Get("mr"), applied) }).WithTimeout(Patience).
				Should(ContainSubstring(`its origin "old:%s/mr" has another cluster ID than this controller`, e.Namespace))
			e.Eventually(func() []string { return e.Events("mr") }).WithTimeout(Patience).Should(ContainElement(HavePrefix("DeletionPending: ")))
			e.Expect(e.LiveConfigMap("c")).NotTo(BeNil())
			e.Expect(e.Get("mr").Finalizers).NotTo(BeEmpty())
			tc.decide(e)
			e.AwaitGone("mr")
			e.Expect(e.LiveConfigMap("c") != nil).To(Equal(tc.stays))
		})
	}
}

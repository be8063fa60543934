package applier_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/config"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// underOwnManagers are changes of a ConfigMap that look like writes of the controller in managedFields.
func underOwnManagers() map[string]func(e *Env) {
	changes := map[string]func(e *Env){
		// The object is as a later version of the set wrote it, before the source was restored from an older backup.
		"the content of a later version of the set": func(e *Env) {
			live := e.LiveConfigMap("one")
			live.Data = map[string]string{"key": "2", "more": "x"}
			e.Expect(e.Target.Update(e.Ctx, live, client.FieldOwner("espalier"))).To(Succeed())
		},
	}
	for _, manager := range []string{"espalier", "gardener-resource-manager"} {
		for what, patch := range map[string]string{"a value changed": `{"data":{"key":"x"}}`, "a field added": `{"data":{"more":"x"}}`} {
			changes[what+" as "+manager] = func(e *Env) {
				object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "one"}}
				e.Expect(e.Target.Patch(e.Ctx, object, client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner(manager))).
					To(Succeed())
			}
		}
	}
	return changes
}

func TestChangesUnderTheOwnFieldManagerAreRepairedAtOnce(t *testing.T) {
	t.Parallel()
	for name, change := range underOwnManagers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := New(t, Options{Configure: longSyncPeriod})
			e.Set("mr", e.ConfigMap("one", "1"), e.ConfigMap("two", "2"))
			e.AwaitApplied("mr", succeeded)
			e.AwaitRest()
			change(e)
			awaitUnchanged(e)
			e.Eventually(func() []string { return e.Events("mr") }).WithTimeout(Patience).
				Should(ContainElement(HavePrefix("DriftRepaired: Restored v1 ConfigMap " + e.Namespace + "/one")))
			e.AwaitRest()
		})
	}
}

func TestChangesUnderTheOwnFieldManagerWhileTheProcessIsDownAreRepaired(t *testing.T) {
	t.Parallel()
	for name, change := range underOwnManagers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := New(t, Options{Configure: longSyncPeriod})
			e.Set("mr", e.ConfigMap("one", "1"), e.ConfigMap("two", "2"))
			e.AwaitApplied("mr", succeeded)
			untouched := e.LiveConfigMap("two").ResourceVersion
			e.Restart(func() {
				awaitSecondAfterStatus(e, "mr")
				change(e)
			})
			awaitUnchanged(e)
			e.AwaitRest()
			e.Expect(e.LiveConfigMap("two").ResourceVersion).To(Equal(untouched))
		})
	}
}

// While repairs pause, the status may be written later than the object. Then managedFields no longer show the drift.
func TestDriftUnderTheOwnFieldManagerIsNotAcceptedDuringAPauseOfRepairs(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(e *Env, now *clocktesting.FakeClock){
		"the pause ends":       func(_ *Env, now *clocktesting.FakeClock) { now.Step(10 * time.Second) },
		"the process restarts": func(e *Env, _ *clocktesting.FakeClock) { e.Restart(func() {}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := clocktesting.NewFakeClock(time.Now())
			e := New(t, Options{TwoClusters: true, Clock: now, Configure: func(c *config.ResourceManagerConfiguration) {
				c.Controllers.ManagedResource.SyncPeriod = &metav1.Duration{Duration: time.Hour}
			}})
			change := func() {
				awaitLaterSecond(e)
				object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "one"}}
				patch := client.RawPatch("application/merge-patch+json", []byte(`{"data":{"key":"x"}}`))
				e.Expect(e.Target.Patch(e.Ctx, object, patch, client.FieldOwner("espalier"))).To(Succeed())
			}
			e.Set("mr", e.ConfigMap("one", "1"), webService(e, "", "type: LoadBalancer, ports: [{port: 80}], "))
			e.AwaitApplied("mr", succeeded)
			for range 3 {
				change()
				awaitUnchanged(e)
			}
			e.Eventually(func() []string { return e.Events("mr") }).WithTimeout(Patience).Should(ContainElement(HavePrefix("DriftRepairPaused: ")))
			change()
			e.Eventually(func() []corev1beta1.ErrorCode { return codesOfApplied(e) }).WithTimeout(Patience).
				Should(ConsistOf(BeEquivalentTo("ESPALIER_REPAIR_POSTPONED")))
			e.Expect(e.LiveConfigMap("one").Data).To(Equal(map[string]string{"key": "x"}))

			awaitLaterSecond(e)
			now.Step(2 * time.Second) // the health controller writes once in a second
			e.PatchStatus(serviceKind, "web", `{"status":{"loadBalancer":{"ingress":[{"ip":"10.1.1.1"}]}}}`)
			e.AwaitCondition("mr", "ResourcesHealthy", "True/ResourcesHealthy")
			end(e, now)
			awaitUnchanged(e)
			e.Eventually(func() []corev1beta1.ErrorCode { return codesOfApplied(e) }).WithTimeout(Patience).Should(BeEmpty())
			e.AwaitApplied("mr", succeeded)
		})
	}
}

func codesOfApplied(e *Env) []corev1beta1.ErrorCode {
	e.T.Helper()
	return corev1beta1.GetCondition(e.Get("mr").Status.Conditions, "ResourcesApplied").Codes
}

// awaitLaterSecond waits until the next write gets a later time in managedFields than the last write of the ConfigMap.
func awaitLaterSecond(e *Env) {
	e.T.Helper()
	awaitSecondAfter(e, e.LiveConfigMap("one").ManagedFields)
}

// awaitUnchanged waits until the ConfigMap is in its desired state.
func awaitUnchanged(e *Env) {
	e.T.Helper()
	e.Eventually(func() map[string]string { return e.LiveConfigMap("one").Data }).WithTimeout(Patience).
		Should(Equal(map[string]string{"key": "1"}))
}

// awaitSecondAfterStatus waits until the next write gets a later time in managedFields than the last write of the status.
func awaitSecondAfterStatus(e *Env, name string) {
	e.T.Helper()
	awaitSecondAfter(e, slices.DeleteFunc(e.Get(name).ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Subresource != "status"
	}))
}

// awaitSecondAfter waits until the next write gets a later time than all these entries of managedFields, whose times have a resolution of
// one second.
func awaitSecondAfter(e *Env, entries []metav1.ManagedFieldsEntry) {
	e.T.Helper()
	var last time.Time
	for _, entry := range entries {
		if entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	e.Expect(last).NotTo(BeZero())
	e.Eventually(func() time.Time { return time.Now().Truncate(time.Second) }).
		WithTimeout(Patience).Should(BeTemporally(">", last))
}

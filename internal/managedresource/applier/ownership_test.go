package applier_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// underOurNames are changes of a ConfigMap that look, as far as managedFields show the fields, like writes of the controller.
func underOurNames() map[string]func(e *Env) {
	changes := map[string]func(e *Env){
		// What the controller leaves behind that applied a later version of a set, if the source is put back to an earlier one.
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
				e.Expect(e.Target.Patch(e.Ctx, object, client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner(manager))).To(Succeed())
			}
		}
	}
	return changes
}

func TestChangesUnderOurOwnNameAreRepairedAtOnce(t *testing.T) {
	t.Parallel()
	for name, change := range underOurNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := New(t, Options{Configure: steady})
			e.Set("mr", e.ConfigMap("one", "1"), e.ConfigMap("two", "2"))
			e.AwaitApplied("mr", succeeded)
			e.AwaitRest()
			change(e)
			awaitUnchanged(e)
			e.Eventually(func() []string { return e.Events("mr") }).WithTimeout(Patience).Should(ContainElement(HavePrefix("DriftRepaired: Restored v1 ConfigMap " + e.Namespace + "/one")))
			e.AwaitRest()
		})
	}
}

func TestChangesUnderOurOwnNameWhileTheProcessIsDownAreRepaired(t *testing.T) {
	t.Parallel()
	for name, change := range underOurNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := New(t, Options{Configure: steady})
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

// awaitUnchanged waits until the ConfigMap is as the set wants it.
func awaitUnchanged(e *Env) {
	e.T.Helper()
	e.Eventually(func() map[string]string { return e.LiveConfigMap("one").Data }).WithTimeout(Patience).WithPolling(10 * time.Millisecond).Should(Equal(map[string]string{"key": "1"}))
}

// awaitSecondAfterStatus waits until a write bears a later time than the last write of the status: times in managedFields have
// a resolution of one second.
func awaitSecondAfterStatus(e *Env, name string) {
	e.T.Helper()
	var last time.Time
	for _, entry := range e.Get(name).ManagedFields {
		if entry.Subresource == "status" && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	e.Expect(last).NotTo(BeZero())
	e.Eventually(func() time.Time { return time.Now().Truncate(time.Second) }).WithTimeout(Patience).WithPolling(10 * time.Millisecond).Should(BeTemporally(">", last))
}

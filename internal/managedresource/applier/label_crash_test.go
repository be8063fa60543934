package applier_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// The manifest changes a label, the process dies before it has written the change, and the next manifest has no such label.
func TestALabelThatWasChangingDuringACrashIsRemoved(t *testing.T) {
	e := managedresourcetest.New(t, managedresourcetest.Options{})
	e.Set("one", e.ConfigMap("c", "1", "labels: {phase: a}", "annotations: {note: a}"))
	e.AwaitApplied("one", "True/ApplySucceeded")
	e.Requests.SetHook(func(r *http.Request) error {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/configmaps/c") {
			return errors.New("the process dies here")
		}
		return nil
	})
	e.Secret("one", e.ConfigMap("c", "2", "labels: {phase: b}", "annotations: {note: b}"))
	e.AwaitApplied("one", "False/ApplyFailed")
	e.Restart(func() {
		e.Requests.SetHook(nil)
		e.Secret("one", e.ConfigMap("c", "3"))
	})
	e.AwaitData("c", "3")
	live := e.LiveConfigMap("c")
	e.Expect(live.Labels).NotTo(HaveKey("phase"))
	e.Expect(live.Annotations).NotTo(HaveKey("note"))
}

// The first write without the label and the annotation fails. The status must still list them, so that the next write removes them, even if
// it listed the object under a former API group.
func TestAFailedApplyKeepsTheFormerLabelsInTheStatus(t *testing.T) {
	t.Parallel()
	for name, former := range map[string]string{"same API group": "apps/v1", "former API group": "extensions/v1beta1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := managedresourcetest.New(t, managedresourcetest.Options{Configure: longSyncPeriod})
			e.Set("mr", webDeployment(e, "labels: {a: b}, annotations: {c: d}, ", "replicas: 0, ", ""))
			before := e.AwaitApplied("mr", "True/ApplySucceeded")
			var failing atomic.Bool
			failing.Store(true)
			e.Restart(func() {
				mr := e.Get("mr")
				mr.Status.Resources[0].APIVersion = former
				e.Expect(e.Source.Status().Update(e.Ctx, mr)).To(Succeed())
				e.Secret("mr", webDeployment(e, "", "replicas: 0, ", ""))
				e.Requests.SetHook(func(r *http.Request) error {
					if failing.Load() && r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/deployments/web") {
						return errors.New("synthetic")
					}
					return nil
				})
			})
			e.AwaitApplied("mr", "False/ApplyFailed")
			failing.Store(false)
			e.AwaitChange(before)
			live := e.Live(deploymentKind, "web")
			e.Expect(live.GetLabels()).To(Equal(map[string]string{managedBy: "gardener"}))
			e.Expect(live.GetAnnotations()).NotTo(HaveKey("c"))
		})
	}
}

package applier_test

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// The Service is healthy at first, and unhealthy with its new content. Only the health controller reports that the Service is unhealthy,
// since only it reads the Events of the Service. Until then, the status must not say that the new content is healthy.
func TestHealthOfFormerContentDoesNotOutlastTheApply(t *testing.T) {
	t.Parallel()
	for name, interrupt := range map[string]func(e *Env, failing *atomic.Bool) (last func()){
		"nothing happened in between": func(e *Env, _ *atomic.Bool) func() { return func() { changeService(e) } },
		"the Secret was missing": func(e *Env, _ *atomic.Bool) func() {
			e.DeleteSecret("mr")
			e.AwaitApplied("mr", "False/CannotReadSecret")
			return func() { changeService(e) }
		},
		"a repair failed": func(e *Env, failing *atomic.Bool) func() {
			failing.Store(true)
			e.Patch(serviceKind, "web", `{"spec":{"selector":{"app":"other"}}}`)
			e.AwaitApplied("mr", "False/ApplyFailed")
			return func() {
				changeService(e)
				failing.Store(false)
			}
		},
		"the set was refused": func(e *Env, _ *atomic.Bool) func() {
			label(e, `{"metadata":{"labels":{"espalier.dev/managedresources":null}}}`)
			e.AwaitApplied("mr", "False/ApplyFailed")
			changeService(e)
			return func() { label(e, allowed) }
		},
		"the set was ignored": func(e *Env, _ *atomic.Bool) func() {
			ignore(e, true)
			e.AwaitApplied("mr", "True/ManagedResourceIgnored")
			changeService(e)
			return func() { ignore(e, false) }
		},
		"the set was ignored, and its content stays": func(e *Env, _ *atomic.Bool) func() {
			changeService(e)
			e.AwaitCondition("mr", "ResourcesHealthy", "False/ServiceUnhealthy")
			ignore(e, true)
			e.AwaitApplied("mr", "True/ManagedResourceIgnored")
			return func() { ignore(e, false) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := New(t, Options{TwoClusters: true, Configure: asShipped})
			label(e, allowed)
			e.Set("mr", webService(e, "", "ports: [{port: 80}], "))
			settledSet(e, "mr")

			events, reads := "/api/v1/namespaces/"+e.Namespace+"/events", "/api/v1/namespaces/"+e.Namespace+"/services/web"
			answer := make(chan struct{})
			release := sync.OnceFunc(func() { close(answer) })
			t.Cleanup(release)
			var failing, blocked atomic.Bool
			e.Requests.SetHook(func(request *http.Request) error {
				switch {
				case request.Method == http.MethodGet && request.URL.Path == events && blocked.Load():
					<-answer
				case request.URL.Path == reads && failing.Load():
					return errors.New("refused by the test")
				}
				return nil
			})
			last := interrupt(e, &failing)
			blocked.Store(true)
			last()
			e.Eventually(func(g Gomega) {
				mr := e.Get("mr")
				g.Expect(Condition(mr, "ResourcesApplied")).To(Equal(succeeded))
				g.Expect(Condition(mr, "ResourcesHealthy")).To(Equal("Unknown/ChecksPending"))
			}).WithTimeout(Patience).Should(Succeed())
			release()
			e.AwaitCondition("mr", "ResourcesHealthy", "False/ServiceUnhealthy")
		})
	}
}

func ignore(e *Env, yes bool) {
	e.T.Helper()
	e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Annotations = map[string]string{"resources.gardener.cloud/ignore": strconv.FormatBool(yes)}
	})
}

const allowed = `{"metadata":{"labels":{"espalier.dev/managedresources":"allowed"}}}`

// changeService changes the content of the set, but not its objects, labels and annotations.
func changeService(e *Env) {
	e.T.Helper()
	e.Secret("mr", webService(e, "", "type: LoadBalancer, ports: [{port: 80}], "))
}

package applier_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// awaitTracked waits until the versions of a number of Secrets are stored.
func awaitTracked(e *Env, want int) {
	e.T.Helper()
	e.Eventually(func() float64 { return plainGauge(e, "espalier_managedresource_tracked_secrets") }).WithTimeout(Patience).
		Should(Equal(float64(want)))
}

func plainGauge(e *Env, name string) float64 {
	e.T.Helper()
	families, err := e.Registry.Gather()
	e.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

func TestSecretsAreTrackedAsLongAsSetsAreReadFromThem(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Stopped: true})
	for i := range 10 {
		e.Secret(fmt.Sprintf("foreign-%d", i))
	}
	e.Set("one", e.ConfigMap("one", "1"))
	e.Start()
	e.AwaitApplied("one", succeeded)
	for round := range 3 {
		e.Secret("shared", e.ConfigMap("shared", "1"))
		e.Expect(e.Source.Create(e.Ctx, e.ManagedResource("two", "shared", "missing"))).To(Succeed())
		e.AwaitApplied("two", "False/CannotReadSecret")
		awaitTracked(e, 3)
		e.Change("two", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.SecretRefs = mr.Spec.SecretRefs[:1] })
		e.AwaitApplied("two", succeeded)
		awaitTracked(e, 2)
		e.Delete("two")
		e.AwaitGone("two")
		awaitTracked(e, 1)
		e.Secret(fmt.Sprintf("foreign-%d", round), "changed: too")
	}
	e.Delete("one")
	e.AwaitGone("one")
	awaitTracked(e, 0)
}

// A set in sync causes no request when Secrets change that it does not reference.
func TestUnusedSecretsCauseNoRequests(t *testing.T) {
	t.Parallel()
	e := New(t, Options{})
	e.Set("mr", e.ConfigMap("one", "1"))
	e.AwaitApplied("mr", succeeded)
	e.Fence()
	e.Requests.Reset()
	for i := range 5 {
		e.Secret(fmt.Sprintf("foreign-%d", i), "a: b")
		e.Secret(fmt.Sprintf("foreign-%d", i), "a: c")
		e.DeleteSecret(fmt.Sprintf("foreign-%d", i))
	}
	e.Fence()
	for _, each := range e.Requests.Seen() {
		e.Expect(each).NotTo(Or(ContainSubstring("foreign"), HaveSuffix("/mr"), HaveSuffix("/secrets")))
	}
}

// The Secret changes after it was read and before the end of the reconciliation. The watch reports the change.
func TestASecretThatChangesWhileItIsReadIsReadAgain(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Stopped: true})
	e.Set("mr", e.ConfigMap("one", "1"))
	changed := false
	e.Requests.SetHook(func(r *http.Request) error {
		// This request adds the finalizer, before the first read of the Secret.
		if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/managedresources/mr") && !changed {
			changed = true
			e.Secret("mr", e.ConfigMap("one", "2"))
		}
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/configmaps") { // after it
			e.Secret("mr", e.ConfigMap("one", "3"))
		}
		return nil
	})
	e.Start()
	e.AwaitData("one", "3")
	e.AwaitApplied("mr", succeeded)
}

// A change of a Secret causes reconciliations of all sets that reference it.
func TestAllSetsOfASecretAreReconciled(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Configure: longSyncPeriod}) // so that no read exceeds its deadline and is repeated
	sets := []string{"a", "b", "c"}
	e.Secret("shared", "# nothing")
	for _, each := range sets {
		e.Expect(e.Source.Create(e.Ctx, e.ManagedResource(each, "shared"))).To(Succeed())
		e.AwaitApplied(each, succeeded)
	}
	read := "GET /api/v1/namespaces/" + e.Namespace + "/secrets/shared"
	for round := range 5 {
		e.Requests.Reset()
		e.Secret("shared", fmt.Sprintf("# nothing, for the %dth time", round))
		e.Eventually(func() []string {
			return slices.DeleteFunc(e.Requests.Seen(), func(each string) bool { return each != read })
		}).WithTimeout(Patience).Should(Equal([]string{read, read, read}))
		for _, each := range sets { // a running read could return the next version
			e.Look(each)
		}
	}
}

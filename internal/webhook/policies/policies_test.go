package policies_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/handlers"
	"github.com/espalier-dev/espalier/internal/webhook/policies"
	"github.com/espalier-dev/espalier/internal/webhook/registrations"
	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
	"github.com/espalier-dev/espalier/test/binary"
)

// settings of the server, with the values that the examples expect.
const settings = `
crdDeletionProtection: {enabled: true}
endpointSliceHints: {enabled: true}
kubernetesServiceHost: {enabled: true, host: ` + host + `}
podSchedulerName: {enabled: true, schedulerName: ` + scheduler + `}
podTopologySpreadConstraints: {enabled: true}
projectedTokenMount: {enabled: true, expirationSeconds: 43200}
seccompProfile: {enabled: true}
tokenInvalidator: {enabled: true}`

// TestPoliciesDoWhatTheServerDoes sends each example with no webhook in between, changed as the handler is expected to change it;
// then through the policies; then through the server. The results must be equal. One handler is enabled at a time, so that no other
// handler affects its result.
func TestPoliciesDoWhatTheServerDoes(t *testing.T) {
	w := newWorld(t)
	trial := newTrial(w)
	all := policies.All()
	t.Run("policies", func(t *testing.T) {
		for _, policy := range all {
			trial.run(t, policy.Handler, w.configured(policy.Handler)...)
		}
		trial.awaitUntouched(t) // or effects of a policy could be taken for effects of the server
	})
	t.Run("server", func(t *testing.T) {
		e := webhooktest.New(t, webhooktest.Options{Webhooks: settings, Controllers: "tokenInvalidator: {enabled: true}", Unregistered: true})
		for _, policy := range all {
			trial.run(t, policy.Handler, configurations(e, policy.Handler)...)
		}
		trial.awaitUntouched(t) // or the tests that follow could meet a webhook whose server is gone
	})
}

// TestEveryPolicyHasExamples makes sure that every shipped policy is compared.
func TestEveryPolicyHasExamples(t *testing.T) {
	g := NewWithT(t)
	all := policies.All()
	var declared, shown []string
	for _, policy := range all {
		declared = append(declared, policy.Handler)
	}
	for _, e := range examples() {
		if len(shown) == 0 || shown[len(shown)-1] != e.handler {
			shown = append(shown, e.handler)
		}
	}
	g.Expect(declared).To(ConsistOf(shown))
}

// configurations register one handler of the server as it is shipped for any cluster.
func configurations(e *webhooktest.Env, handler string) []client.Object {
	own := registrations.Own{Name: "espalier-webhook-server", Namespace: "espalier-system", URL: e.URL}
	var declared []registration.Webhook
	for _, webhook := range registrations.Enabled(config.FlavorStandalone, e.Config.Webhooks, own) {
		if strings.HasPrefix(webhook.Name, handler+".") {
			declared = append(declared, webhook)
		}
	}
	e.Expect(declared).To(HaveLen(1), handler)
	built := registration.Configuration{
		Name: own.Name, Namespaces: handlers.StandardNamespaces(config.FlavorStandalone, own.Namespace),
		Client: registration.Server{URL: e.URL}.Client(e.CA),
	}
	return built.Both(declared...)
}

// trial has the expected result of each example.
type trial struct {
	*world
	all []example
	// stored is the result of an example that is not denied, untouched its result without handler, by index.
	stored, untouched []string
}

// newTrial finds out the results while no handler is enabled.
func newTrial(w *world) *trial {
	t := &trial{world: w, all: examples()}
	for _, e := range t.all {
		w.prepare(e)
		untouched, err := w.try(e, "")
		if err != nil { // the API server alone finds fault with it
			untouched = err.Error()
		}
		stored, err := w.try(e, e.change)
		w.Expect(err).NotTo(HaveOccurred(), e.name)
		if e.change != "" {
			w.Expect(stored).NotTo(Equal(untouched), e.name)
		} else {
			w.Expect(stored).To(Equal(untouched), e.name)
		}
		t.stored, t.untouched = append(t.stored, stored), append(t.untouched, untouched)
	}
	return t
}

// run installs the objects that enable a handler, compares its examples, and removes the objects.
func (r *trial) run(t *testing.T, handler string, objects ...client.Object) {
	t.Helper()
	g := NewWithT(t)
	for _, object := range objects {
		g.Expect(r.Create(r.ctx, object)).To(Succeed())
	}
	defer func() {
		for _, object := range objects {
			g.Expect(r.Delete(r.ctx, object)).To(Succeed())
		}
	}()
	own := func(compare func(g *WithT, i int)) {
		for i, e := range r.all {
			if e.handler == handler {
				t.Run(handler+": "+e.name, func(t *testing.T) { compare(NewWithT(t), i) })
			}
		}
	}
	// The API server reads the new objects one after another, and may still use the former handler's. When each example has
	// passed, it has read all objects. Then they are compared once more, without waiting.
	own(func(g *WithT, i int) {
		g.Eventually(func(g Gomega) { r.judge(g, i) }, binary.Patience).Should(Succeed())
	})
	own(func(g *WithT, i int) { r.judge(g, i) })
}

func (r *trial) judge(g Gomega, i int) {
	e := r.all[i]
	stored, err := r.try(e, "")
	if e.denied != "" {
		g.Expect(err).To(MatchError(ContainSubstring(e.denied)))
		return
	}
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stored).To(Equal(r.stored[i]))
}

// awaitUntouched waits until no handler is enabled any more.
func (r *trial) awaitUntouched(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	for i, e := range r.all {
		if i == 0 || r.all[i-1].handler != e.handler {
			g.Eventually(func() (string, error) { return r.try(e, "") }, binary.Patience).Should(Equal(r.untouched[i]), e.handler)
		}
	}
}

// TestPoliciesAskEachObjectOfACollection shows a difference between the policies and the server, which judges a collection as a
// whole.
func TestPoliciesAskEachObjectOfACollection(t *testing.T) {
	w := newWorld(t)
	network := func(name string, annotations map[string]string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "extensions.gardener.cloud/v1alpha1", "kind": "Network"}}
		object.SetNamespace(w.namespace)
		object.SetName(name)
		object.SetLabels(map[string]string{"collection": name})
		object.SetAnnotations(annotations)
		w.Expect(w.Create(w.ctx, object)).To(Succeed())
		return object
	}
	confirmed := network("confirmed", map[string]string{"confirmation.gardener.cloud/deletion": "true"})
	unconfirmed := network("unconfirmed", nil)
	w.install(t, w.shipped("cr-deletion-protection")...)
	all := func(name string) error {
		return w.DeleteAllOf(w.ctx, confirmed, client.InNamespace(w.namespace), client.MatchingLabels{"collection": name})
	}
	w.Eventually(func() error { return w.Delete(w.ctx, unconfirmed, client.DryRunAll) }, binary.Patience).ShouldNot(Succeed())
	w.Expect(all("unconfirmed")).To(MatchError(ContainSubstring(`must have a "confirmation.gardener.cloud/deletion" annotation to delete`)))
	w.Expect(all("confirmed")).To(Succeed())
	w.Expect(w.Get(w.ctx, client.ObjectKeyFromObject(unconfirmed), unconfirmed)).To(Succeed())
	w.Expect(apierrors.IsNotFound(w.Get(w.ctx, client.ObjectKeyFromObject(confirmed), confirmed))).To(BeTrue())
}

// TestPoliciesWithoutTheirValuesDoNothing installs, as they are shipped, the policies that need a value and then one that needs
// none, which shows that the API server has noticed all.
func TestPoliciesWithoutTheirValuesDoNothing(t *testing.T) {
	w := newWorld(t)
	e := seccompExamples()[0]
	e.id = "p"
	want, err := w.try(e, e.change)
	w.Expect(err).NotTo(HaveOccurred())
	for _, handler := range append(slices.Sorted(maps.Keys(neededValues())), "seccomp-profile") {
		w.install(t, w.shipped(handler)...)
	}
	w.Eventually(func() (string, error) { return w.try(e, "") }, binary.Patience).Should(ContainSubstring("RuntimeDefault"))
	w.Expect(w.try(e, "")).To(Equal(want))
}

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

// settings configures the server with the values that the examples expect.
const settings = `
crdDeletionProtection: {enabled: true}
endpointSliceHints: {enabled: true}
kubernetesServiceHost: {enabled: true, host: ` + host + `}
podSchedulerName: {enabled: true, schedulerName: ` + scheduler + `}
podTopologySpreadConstraints: {enabled: true}
projectedTokenMount: {enabled: true, expirationSeconds: 43200}
seccompProfile: {enabled: true}
tokenInvalidator: {enabled: true}`

// TestPoliciesDoWhatTheServerDoes sends each example three times: without a handler, changed as the handler is expected to change it; with
// the policies; with the server. The results must be equal. One handler is enabled at a time, so that no other handler affects the result.
func TestPoliciesDoWhatTheServerDoes(t *testing.T) {
	w := newWorld(t)
	trial := newTrial(w)
	all := policies.All()
	t.Run("policies", func(t *testing.T) {
		for _, policy := range all {
			trial.run(t, policy.Handler, w.configured(policy.Handler)...)
		}
		trial.awaitUntouched(t) // otherwise an effect of a policy could be mistaken for one of the server
	})
	t.Run("server", func(t *testing.T) {
		e := webhooktest.New(t, webhooktest.Options{Webhooks: settings, Controllers: "tokenInvalidator: {enabled: true}", Unregistered: true})
		for _, policy := range all {
			trial.run(t, policy.Handler, configurations(e, policy.Handler)...)
		}
		trial.awaitUntouched(t) // otherwise later tests could call a webhook whose server has ended
	})
}

// TestEveryPolicyHasExamples requires at least one example for each shipped policy.
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

// configurations returns the webhook configurations that register one handler of the server, as shipped for any cluster.
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

// trial contains the expected result of each example.
type trial struct {
	*world
	all []example
	// stored is the result of an example that is not denied, untouched its result without handler, by index.
	stored, untouched []string
}

// newTrial sends the examples while no handler is enabled, and records the results.
func newTrial(w *world) *trial {
	t := &trial{world: w, all: examples()}
	for _, e := range t.all {
		w.prepare(e)
		untouched, err := w.try(e, "")
		if err != nil { // the API server itself refuses the object
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
	// The API server takes up the new policies one after another, and may still use the policies of the previous handler. When each example
	// has succeeded, the API server uses all new policies. Then every example is sent once more, without retries.
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

// awaitUntouched waits until the API server uses no handler.
func (r *trial) awaitUntouched(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	for i, e := range r.all {
		if i == 0 || r.all[i-1].handler != e.handler {
			g.Eventually(func() (string, error) { return r.try(e, "") }, binary.Patience).Should(Equal(r.untouched[i]), e.handler)
		}
	}
}

// TestPoliciesAskEachObjectOfACollection covers a difference: policies judge each object of a collection, the server judges the collection
// as a whole.
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

// TestPoliciesWithoutTheirValuesDoNothing installs the policies that need a setting, as they are shipped, and then a policy that needs
// none. The effect of the last one shows that the API server has read all.
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

package webhook_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/project/webhook"
)

// handler returns the handler of that name.
func handler(name string, settings webhook.Settings) review.Handler {
	for _, each := range webhook.Handlers() {
		if each.Name == name {
			return each.Review(settings)
		}
	}
	panic("no handler has the name " + name)
}

func TestHandlersAreNamedAndServedOnce(t *testing.T) {
	g := NewWithT(t)
	seen := map[string]bool{}
	for _, each := range webhook.Handlers() {
		for _, value := range []string{each.Name, each.Webhook.Path} {
			g.Expect(seen).NotTo(HaveKey(value))
			seen[value] = true
		}
		g.Expect(each.Review(webhook.Settings{})).NotTo(BeNil())
		g.Expect(each.Does).NotTo(BeEmpty(), each.Name)
		g.Expect(each.Webhook.Rules).NotTo(BeEmpty(), each.Name)
		for _, rule := range each.Webhook.Rules {
			g.Expect(rule.Operations).NotTo(BeEmpty(), each.Name)
			g.Expect(rule.Operations).NotTo(ContainElement(admissionregistrationv1.OperationAll), "Review allows operations that are not listed")
		}
	}
}

// describeRegistration returns in one line for which requests a webhook is called, and how.
func describeRegistration(
	name string, client admissionregistrationv1.WebhookClientConfig, rules []admissionregistrationv1.RuleWithOperations,
	policy *admissionregistrationv1.FailurePolicyType, match *admissionregistrationv1.MatchPolicyType,
	effects *admissionregistrationv1.SideEffectClass,
) string {
	return fmt.Sprintf("%s: %v of %v in %v %v at %s/%s%s, %s, %s, %s", name, rules[0].Operations, rules[0].Resources, rules[0].APIGroups,
		rules[0].APIVersions,
		client.Service.Namespace, client.Service.Name, *client.Service.Path, *policy, *match, *effects)
}

func TestShippedConfigurations(t *testing.T) {
	g := NewWithT(t)
	shipped := webhook.Shipped()
	g.Expect(shipped).To(HaveLen(2))
	mutating, ok := shipped[0].(*admissionregistrationv1.MutatingWebhookConfiguration)
	g.Expect(ok).To(BeTrue())
	validating, ok := shipped[1].(*admissionregistrationv1.ValidatingWebhookConfiguration)
	g.Expect(ok).To(BeTrue())
	var all []string
	for _, w := range mutating.Webhooks {
		all = append(all, describeRegistration(w.Name, w.ClientConfig, w.Rules, w.FailurePolicy, w.MatchPolicy, w.SideEffects))
	}
	for _, w := range validating.Webhooks {
		all = append(all, describeRegistration(w.Name, w.ClientConfig, w.Rules, w.FailurePolicy, w.MatchPolicy, w.SideEffects))
	}
	const (
		written = ".project-controller.espalier.dev: [CREATE UPDATE] of [projects] in [core.gardener.cloud] [v1beta1] at " +
			"espalier-system/espalier-project-controller"
		fail = ", Fail, Equivalent, None"
	)
	g.Expect(all).To(Equal([]string{
		"normalization" + written + "/webhooks/normalize-project" + fail,
		"ownership" + written + "/webhooks/default-project-owner" + fail,
		"validation" + written + "/webhooks/validate-project" + fail,
		"namespace-use" + written + "/webhooks/validate-project-namespace" + fail,
		"permission" + written + "/webhooks/validate-project-permission" + fail,
		"creator-limit.project-controller.espalier.dev: [CREATE] of [projects] in [core.gardener.cloud] [v1beta1] at " +
			"espalier-system/espalier-project-controller/webhooks/validate-project-creator" + fail,
		"deletion-confirmation.project-controller.espalier.dev: [DELETE] of [projects] in [core.gardener.cloud] [v1beta1] at " +
			"espalier-system/espalier-project-controller/webhooks/validate-project-deletion" + fail,
		"validate-namespace-deletion.gardener.cloud: [DELETE] of [namespaces] in [] [v1] at " +
			"espalier-system/espalier-project-controller/webhooks/validate-namespace-deletion, Fail, Exact, None",
	}))
	last := validating.Webhooks[len(validating.Webhooks)-1]
	g.Expect(last.NamespaceSelector.MatchLabels).To(Equal(map[string]string{"gardener.cloud/role": "project"}))
	g.Expect(*last.TimeoutSeconds).To(Equal(int32(10)))
}

func TestAURLIsUsedInsteadOfTheService(t *testing.T) {
	g := NewWithT(t)
	built := webhook.Configurations(registration.Server{
		Name: "own", Namespace: "ns", ServiceName: "service", URL: "https://10.0.0.1:9443",
	})([]byte("authority"))
	mutating, ok := built[0].(*admissionregistrationv1.MutatingWebhookConfiguration)
	g.Expect(ok).To(BeTrue())
	g.Expect(mutating.Name).To(Equal("own"))
	g.Expect(*mutating.Webhooks[0].ClientConfig.URL).To(Equal("https://10.0.0.1:9443/webhooks/normalize-project"))
	g.Expect(string(mutating.Webhooks[0].ClientConfig.CABundle)).To(Equal("authority"))
}

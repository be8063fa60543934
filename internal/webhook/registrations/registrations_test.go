package registrations_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/extensionvalidation"
	"github.com/espalier-dev/espalier/internal/webhook/handlers"
	"github.com/espalier-dev/espalier/internal/webhook/registrations"
)

const (
	pods = " CREATE core/v1 pods"

	runtimeNamespaces    = "gardener.cloud/purpose notin (kube-system,kubernetes-dashboard)"
	shootNamespaces      = "gardener.cloud/purpose in (kube-system,kubernetes-dashboard)"
	standaloneNamespaces = "kubernetes.io/metadata.name notin (kube-system,espalier-system)"

	highAvailability = "high-availability-config.resources.gardener.cloud /webhooks/high-availability-config" +
		" CREATE,UPDATE apps/v1 deployments,statefulsets; CREATE,UPDATE autoscaling/v2beta1,v2 horizontalpodautoscalers; CREATE,UPDATE " +
		"autoscaling.k8s.io/v1alpha1 hvpas"
	secrets = "token-invalidator.resources.gardener.cloud /webhooks/invalidate-service-account-token-secret CREATE,UPDATE core/v1 secrets"
	mount   = "projected-token-mount.resources.gardener.cloud /webhooks/mount-projected-service-account-token" + pods
	naming  = "pod-scheduler-name.resources.gardener.cloud /webhooks/default-pod-scheduler-name" + pods
	seccomp = "seccomp-profile.resources.gardener.cloud /webhooks/seccomp-profile" + pods
	host    = "kubernetes-service-host.resources.gardener.cloud /webhooks/kubernetes-service-host" + pods
	system  = "system-components-config.resources.gardener.cloud /webhooks/system-components-config" + pods
	hints   = "endpoint-slice-hints.resources.gardener.cloud /webhooks/endpoint-slice-hints CREATE,UPDATE discovery.k8s.io/v1 endpointslices"
	spread  = "pod-topology-spread-constraints.resources.gardener.cloud /webhooks/pod-topology-spread-constraints" + pods
)

// TestMutating compares each mutating webhook with its description: namespaces | objects | failure policy and further settings.
func TestMutating(t *testing.T) {
	t.Parallel()
	gardener := func(namespaces, managed, objects string) []string {
		lines := []string{
			secrets + " | " + namespaces + " | resources.gardener.cloud/purpose=token-invalidator | Fail Exact 10",
			mount + " | " + namespaces + " | !projected-token-mount.resources.gardener.cloud/skip,app notin (gardener-resource-manager) | " +
				"Fail Exact 10",
			highAvailability + " | high-availability-config.resources.gardener.cloud/consider=true," + namespaces + " | " + managed +
				"!high-availability-config.resources.gardener.cloud/skip | Fail Equivalent 10",
			naming + " |  |  | Ignore Exact 10",
			seccomp + " | " + namespaces + " | !seccompprofile.resources.gardener.cloud/skip,app notin (gardener-resource-manager) | Fail Exact 10",
			host + " | apiserver-proxy.networking.gardener.cloud/inject notin (disable) | apiserver-proxy.networking.gardener.cloud/inject " +
				"notin (disable) | Ignore Exact 2 Never",
		}
		if objects != "" {
			lines = append(lines, system+" | "+namespaces+" | "+objects+" | Fail Exact 10")
		}
		return append(lines,
			hints+" | "+namespaces+" | endpoint-slice-hints.resources.gardener.cloud/consider=true | Fail Equivalent 10",
			spread+" | "+namespaces+" | "+managed+
				"app notin (gardener-resource-manager),!topology-spread-constraints.resources.gardener.cloud/skip | Fail Exact 10",
		)
	}
	const managed = "resources.gardener.cloud/managed-by=gardener,"
	const others = "app notin (gardener-resource-manager,espalier-webhook-server)"
	for flavor, want := range map[string][]string{
		"gardener-runtime": gardener(runtimeNamespaces, "", ""),
		"gardener-shoot":   gardener(shootNamespaces, managed, managed+"!system-components-config.resources.gardener.cloud/skip"),
		"standalone": {
			secrets + " | " + standaloneNamespaces + " | resources.gardener.cloud/purpose=token-invalidator | Fail Exact 10",
			mount + " | " + standaloneNamespaces + " | !projected-token-mount.resources.gardener.cloud/skip," + others +
				",static-pod notin (true) | Fail Exact 10",
			highAvailability + " | high-availability-config.resources.gardener.cloud/consider=true," + standaloneNamespaces +
				" | !high-availability-config.resources.gardener.cloud/skip | Fail Equivalent 10",
			naming + " | " + standaloneNamespaces + " | " + others + ",static-pod notin (true) | Ignore Exact 10",
			seccomp + " | " + standaloneNamespaces + " | !seccompprofile.resources.gardener.cloud/skip," + others +
				",static-pod notin (true) | Fail Exact 10",
			host + " | " + standaloneNamespaces +
				",apiserver-proxy.networking.gardener.cloud/inject notin (disable) | apiserver-proxy.networking.gardener.cloud/inject " +
				"notin (disable)," + others + ",static-pod notin (true) | Ignore Exact 2 Never",
			hints + " | " + standaloneNamespaces + " | endpoint-slice-hints.resources.gardener.cloud/consider=true | Fail Equivalent 10",
			spread + " | " + standaloneNamespaces + " | " + others +
				",!topology-spread-constraints.resources.gardener.cloud/skip,pod-template-hash,static-pod notin (true) | Fail Exact 10",
		},
	} {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			mutating, _ := configurationsOf(t, flavor, registrations.Everything())
			NewWithT(t).Expect(describe(mutating.Webhooks)).To(HaveExactElements(want))
		})
	}
}

func TestValidating(t *testing.T) {
	t.Parallel()
	plurals := []string{
		"backupbuckets", "backupentries", "bastions", "containerruntimes", "controlplanes", "dnsrecords", "extensions", "infrastructures",
		"networks", "operatingsystemconfigs", "workers",
	}
	lines := func(namespaces, deletion string) []string {
		end := " | " + namespaces + " |  | Fail Exact 10"
		want := []string{
			"crd-deletion-protection.resources.gardener.cloud /webhooks/validate-crd-deletion DELETE apiextensions.k8s.io/v1beta1,v1 " +
				"customresourcedefinitions" +
				" | " + namespaces + " | gardener.cloud/deletion-protected=true | Fail Exact 10",
			"cr-deletion-protection.resources.gardener.cloud /webhooks/validate-crd-deletion DELETE druid.gardener.cloud/v1alpha1 etcds; " +
				"DELETE extensions.gardener.cloud/v1alpha1 " + deletion + end,
		}
		for _, kind := range []string{
			"extensions backupbucket backupbuckets", "extensions backupentry backupentries", "extensions bastion bastions",
			"extensions containerruntime containerruntimes",
			"extensions controlplane controlplanes", "extensions dnsrecord dnsrecords", "druid etcd etcds", "extensions extension extensions",
			"extensions infrastructure infrastructures",
			"extensions network networks", "extensions operatingsystemconfig operatingsystemconfigs", "extensions worker workers",
		} {
			part := strings.Fields(kind)
			want = append(want,
				fmt.Sprintf("validation.extensions.%[3]s.resources.gardener.cloud /validate-%[1]s-gardener-cloud-v1alpha1-%[2]s CREATE,UPDATE "+
					"%[1]s.gardener.cloud/v1alpha1 %[3]s", part[0], part[1], part[2])+end)
		}
		return want
	}
	for flavor, want := range map[string][]string{
		"gardener-runtime": lines("", strings.Join(plurals, ",")),
		"gardener-shoot":   nil,
		"standalone":       lines(standaloneNamespaces, strings.Replace(strings.Join(plurals, ","), "bastions,", "", 1)),
	} {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			_, validating := configurationsOf(t, flavor, registrations.Everything())
			if want == nil {
				NewWithT(t).Expect(validating).To(BeNil())
				return
			}
			NewWithT(t).Expect(describe(validating.Webhooks)).To(HaveExactElements(want))
		})
	}
}

// TestOnlyEnabledHandlersAreRegistered enables one handler at a time.
func TestOnlyEnabledHandlersAreRegistered(t *testing.T) {
	t.Parallel()
	on := config.Switch{Enabled: true}
	for want, cfg := range map[string]config.Webhooks{
		"": {},
		"token-invalidator.resources.gardener.cloud": {TokenInvalidator: on},
		"projected-token-mount.resources.gardener.cloud": {
			ProjectedTokenMount: config.ProjectedTokenMountWebhook{Enabled: true},
		},
		"high-availability-config.resources.gardener.cloud": {
			HighAvailabilityConfig: config.HighAvailabilityConfigWebhook{Enabled: true},
		},
		"pod-scheduler-name.resources.gardener.cloud": {
			PodSchedulerName: config.PodSchedulerNameWebhook{Enabled: true},
		},
		"seccomp-profile.resources.gardener.cloud": {SeccompProfile: on},
		"kubernetes-service-host.resources.gardener.cloud": {
			KubernetesServiceHost: config.KubernetesServiceHostWebhook{Enabled: true},
		},
		"endpoint-slice-hints.resources.gardener.cloud":                                                    {EndpointSliceHints: on},
		"pod-topology-spread-constraints.resources.gardener.cloud":                                         {PodTopologySpread: on},
		"crd-deletion-protection.resources.gardener.cloud cr-deletion-protection.resources.gardener.cloud": {CRDDeletionProtection: on},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			var names []string
			for _, webhook := range registrations.Enabled("standalone", cfg, registrations.Own{}) {
				names = append(names, webhook.Name)
			}
			NewWithT(t).Expect(strings.Join(names, " ")).To(Equal(want))
		})
	}
}

// Only shoots have Nodes for system components. In other clusters, Pods that must run on such Nodes would stay Pending.
func TestSystemComponentsAreRegisteredInShootsOnly(t *testing.T) {
	t.Parallel()
	cfg := config.Webhooks{SystemComponentsConfig: config.SystemComponentsConfigWebhook{Enabled: true}}
	for flavor, want := range map[string]int{"standalone": 0, "gardener-runtime": 0, "gardener-shoot": 1} {
		NewWithT(t).Expect(registrations.Enabled(flavor, cfg, registrations.Own{})).To(HaveLen(want), flavor)
	}
}

func TestHowTheServerIsReachedAndNamed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cfg := config.Webhooks{SeccompProfile: config.Switch{Enabled: true}}
	own := registrations.Own{Name: "mine", Namespace: "system", ServiceName: "server"}
	for flavor, want := range map[string]metav1.ObjectMeta{
		"standalone":       {Name: "mine", Labels: map[string]string{"app": "mine"}},
		"gardener-runtime": {Name: "mine", Labels: map[string]string{"app": "mine", "remediation.webhook.shoot.gardener.cloud/exclude": "true"}},
		"gardener-shoot":   {Name: "mine", Labels: map[string]string{"app": "mine"}},
	} {
		built := registrations.Configurations(flavor, cfg, own)([]byte("ca"))
		mutating, ok := built[0].(*admissionregistrationv1.MutatingWebhookConfiguration)
		g.Expect(ok).To(BeTrue())
		g.Expect(mutating.ObjectMeta).To(BeComparableTo(want), flavor)
		g.Expect(mutating.Webhooks[0].ClientConfig).To(BeComparableTo(admissionregistrationv1.WebhookClientConfig{
			CABundle: []byte("ca"),
			Service:  &admissionregistrationv1.ServiceReference{Namespace: "system", Name: "server", Path: ptr.To("/webhooks/seccomp-profile")},
		}))
	}
	own = registrations.Own{
		Name: "virtual-garden-gardener-resource-manager-shoot", App: "virtual-garden-gardener-resource-manager", URL: "https://host:443",
	}
	mutating, ok := registrations.Configurations("gardener-shoot", cfg, own)(nil)[0].(*admissionregistrationv1.MutatingWebhookConfiguration)
	g.Expect(ok).To(BeTrue())
	g.Expect(mutating.ObjectMeta).To(BeComparableTo(metav1.ObjectMeta{
		Name: "virtual-garden-gardener-resource-manager-shoot", Labels: map[string]string{"app": "virtual-garden-gardener-resource-manager"},
	}))
	g.Expect(mutating.Webhooks[0].ClientConfig).
		To(BeComparableTo(admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://host:443/webhooks/seccomp-profile")}))
	g.Expect(metav1.FormatLabelSelector(mutating.Webhooks[0].ObjectSelector)).
		To(ContainSubstring("app notin (virtual-garden-gardener-resource-manager)"))
}

func TestOwnNamespaceIsLeftAlone(t *testing.T) {
	t.Parallel()
	for own, want := range map[string]string{
		"shop":        "kubernetes.io/metadata.name notin (kube-system,shop)",
		"kube-system": "kubernetes.io/metadata.name notin (kube-system)",
		"":            "kubernetes.io/metadata.name notin (kube-system)",
	} {
		t.Run(own, func(t *testing.T) {
			t.Parallel()
			NewWithT(t).Expect(metav1.FormatLabelSelector(handlers.StandardNamespaces("standalone", own))).To(Equal(want))
		})
	}
}

// TestKindsAreThoseThatAreValidated compares the registered kinds with the kinds that the handlers validate.
func TestKindsAreThoseThatAreValidated(t *testing.T) {
	t.Parallel()
	var declared, served []string
	for _, webhook := range registrations.Enabled("standalone", config.Webhooks{ExtensionValidation: config.Switch{Enabled: true}},
		registrations.Own{}) {
		rule := webhook.Rules[0]
		declared = append(declared, fmt.Sprint(rule.APIGroups[0], rule.APIVersions[0], rule.Resources[0], webhook.Path))
	}
	for _, kind := range extensionvalidation.Kinds() {
		path := "/validate-" + strings.ReplaceAll(kind.Group, ".", "-") + "-v1alpha1-" + strings.ToLower(kind.Kind)
		served = append(served, fmt.Sprint(kind.Group, "v1alpha1", kind.Plural, path))
	}
	NewWithT(t).Expect(declared).To(HaveExactElements(served))
}

// configurationsOf returns both configurations of a flavour; nil for one that the flavour does not have.
func configurationsOf(
	t *testing.T, flavor string, cfg config.Webhooks,
) (*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration) {
	t.Helper()
	own := registrations.Own{Name: "espalier-webhook-server", Namespace: "espalier-system", ServiceName: "espalier-webhook-server"}
	if flavor != "standalone" {
		own = registrations.Own{Name: "gardener-resource-manager", Namespace: "garden", ServiceName: "gardener-resource-manager"}
	}
	var mutating *admissionregistrationv1.MutatingWebhookConfiguration
	var validating *admissionregistrationv1.ValidatingWebhookConfiguration
	for _, object := range registrations.Configurations(flavor, cfg, own)(nil) {
		switch typed := object.(type) {
		case *admissionregistrationv1.MutatingWebhookConfiguration:
			mutating = typed
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			validating = typed
		default:
			t.Errorf("unexpected %T", typed)
		}
	}
	return mutating, validating
}

// describe returns one line for each webhook.
func describe[W admissionregistrationv1.MutatingWebhook | admissionregistrationv1.ValidatingWebhook](webhooks []W) []string {
	var lines []string
	for i := range webhooks {
		reinvocation := ""
		var like admissionregistrationv1.ValidatingWebhook
		switch typed := any(webhooks[i]).(type) {
		case admissionregistrationv1.ValidatingWebhook:
			like = typed
		case admissionregistrationv1.MutatingWebhook:
			if typed.ReinvocationPolicy != nil {
				reinvocation = " " + string(*typed.ReinvocationPolicy)
			}
			like = admissionregistrationv1.ValidatingWebhook{
				Name: typed.Name, ClientConfig: typed.ClientConfig, Rules: typed.Rules, NamespaceSelector: typed.NamespaceSelector,
				ObjectSelector: typed.ObjectSelector,
				FailurePolicy:  typed.FailurePolicy, MatchPolicy: typed.MatchPolicy, TimeoutSeconds: typed.TimeoutSeconds,
			}
		}
		lines = append(lines, fmt.Sprintf("%s %s %s | %s | %s | %s %s %d%s", like.Name, *like.ClientConfig.Service.Path, rules(like.Rules),
			selector(like.NamespaceSelector), selector(like.ObjectSelector), *like.FailurePolicy, *like.MatchPolicy, *like.TimeoutSeconds,
			reinvocation))
	}
	return lines
}

func rules(all []admissionregistrationv1.RuleWithOperations) string {
	var lines []string
	for _, rule := range all {
		var operations []string
		for _, operation := range rule.Operations {
			operations = append(operations, string(operation))
		}
		group := strings.Join(rule.APIGroups, ",")
		if group == "" {
			group = "core"
		}
		lines = append(lines,
			strings.Join(operations, ",")+" "+group+"/"+strings.Join(rule.APIVersions, ",")+" "+strings.Join(rule.Resources, ","))
	}
	return strings.Join(lines, "; ")
}

// selector returns the requirements as text, in their order.
func selector(s *metav1.LabelSelector) string {
	var parts []string
	for key, value := range s.MatchLabels { // there is at most one
		parts = append(parts, key+"="+value)
	}
	for _, requirement := range s.MatchExpressions {
		switch requirement.Operator {
		case metav1.LabelSelectorOpExists:
			parts = append(parts, requirement.Key)
		case metav1.LabelSelectorOpDoesNotExist:
			parts = append(parts, "!"+requirement.Key)
		default:
			parts = append(parts, requirement.Key+" "+strings.ToLower(string(requirement.Operator))+" ("+strings.Join(requirement.Values, ",")+")")
		}
	}
	return strings.Join(parts, ",")
}

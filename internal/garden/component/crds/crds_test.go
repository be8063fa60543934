package crds_test

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/internal/garden/component/crds"
)

func TestDefinitionsAreThoseThatComponentsNeed(t *testing.T) {
	for sentence, tc := range map[string]struct {
		read func() ([]*unstructured.Unstructured, error)
		want []string
	}{
		"etcd-druid": {read: crds.ETCD, want: []string{
			"etcdcopybackupstasks.druid.gardener.cloud", "etcdopstasks.druid.gardener.cloud", "etcds.druid.gardener.cloud",
		}},
		"the vertical pod autoscaler": {read: crds.VPA, want: []string{
			"verticalpodautoscalercheckpoints.autoscaling.k8s.io", "verticalpodautoscalers.autoscaling.k8s.io",
		}},
		"Istio": {read: crds.Istio, want: []string{
			"authorizationpolicies.security.istio.io", "destinationrules.networking.istio.io", "envoyfilters.networking.istio.io",
			"gateways.networking.istio.io", "peerauthentications.security.istio.io", "proxyconfigs.networking.istio.io",
			"requestauthentications.security.istio.io", "serviceentries.networking.istio.io", "sidecars.networking.istio.io",
			"telemetries.telemetry.istio.io", "virtualservices.networking.istio.io", "wasmplugins.extensions.istio.io",
			"workloadentries.networking.istio.io", "workloadgroups.networking.istio.io",
		}},
		"fluent-operator": {read: crds.Fluent, want: []string{
			"clusterfilters.fluentbit.fluent.io", "clusterfluentbitconfigs.fluentbit.fluent.io", "clusterinputs.fluentbit.fluent.io",
			"clustermultilineparsers.fluentbit.fluent.io", "clusteroutputs.fluentbit.fluent.io", "clusterparsers.fluentbit.fluent.io",
			"collectors.fluentbit.fluent.io", "filters.fluentbit.fluent.io", "fluentbitconfigs.fluentbit.fluent.io",
			"fluentbits.fluentbit.fluent.io", "multilineparsers.fluentbit.fluent.io", "outputs.fluentbit.fluent.io", "parsers.fluentbit.fluent.io",
		}},
		"prometheus-operator": {read: crds.Monitoring, want: []string{
			"alertmanagerconfigs.monitoring.coreos.com", "alertmanagers.monitoring.coreos.com", "podmonitors.monitoring.coreos.com",
			"probes.monitoring.coreos.com", "prometheusagents.monitoring.coreos.com", "prometheuses.monitoring.coreos.com",
			"prometheusrules.monitoring.coreos.com", "scrapeconfigs.monitoring.coreos.com", "servicemonitors.monitoring.coreos.com",
			"thanosrulers.monitoring.coreos.com",
		}},
		"extensions": {read: crds.Extensions, want: []string{
			"backupbuckets.extensions.gardener.cloud", "backupentries.extensions.gardener.cloud", "dnsrecords.extensions.gardener.cloud",
			"extensions.extensions.gardener.cloud",
		}},
		"ManagedResources": {read: crds.ManagedResources, want: []string{"managedresources.resources.gardener.cloud"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			definitions, err := tc.read()
			g.Expect(err).NotTo(HaveOccurred())
			var names []string
			for _, each := range definitions {
				g.Expect(each.GetKind()).To(Equal("CustomResourceDefinition"))
				names = append(names, each.GetName())
			}
			g.Expect(names).To(Equal(tc.want))
		})
	}
}

func TestMetadataOfDefinitions(t *testing.T) {
	g := NewWithT(t)
	for _, read := range []func() ([]*unstructured.Unstructured, error){crds.ETCD, crds.Extensions, crds.ManagedResources} {
		definitions, err := read()
		g.Expect(err).NotTo(HaveOccurred())
		for _, each := range definitions {
			g.Expect(each.GetLabels()).To(HaveKeyWithValue("gardener.cloud/deletion-protected", "true"), each.GetName())
		}
	}
	definitions, err := crds.VPA()
	g.Expect(err).NotTo(HaveOccurred())
	for _, each := range definitions {
		g.Expect(each.GetAnnotations()).To(And(
			HaveKeyWithValue("api-approved.kubernetes.io", "https://github.com/kubernetes/kubernetes/pull/63797"),
			HaveKeyWithValue("resources.gardener.cloud/keep-object", "true"),
		), each.GetName())
	}
}

// gardenlet and the controllers of extensions have fields that our types do not have.
func TestDefinitionsOfExtensionsKeepAllFields(t *testing.T) {
	g := NewWithT(t)
	definitions, err := crds.Extensions()
	g.Expect(err).NotTo(HaveOccurred())
	scopes := map[string]string{}
	for _, each := range definitions {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(each.Object, definition)).To(Succeed())
		scopes[definition.Spec.Names.Kind] = string(definition.Spec.Scope)
		g.Expect(definition.Spec.Versions).To(HaveLen(1))
		version := definition.Spec.Versions[0]
		g.Expect(version.Name).To(Equal("v1alpha1"))
		g.Expect(version.Subresources.Status).NotTo(BeNil(), each.GetName())
		for _, field := range []string{"spec", "status"} {
			g.Expect(version.Schema.OpenAPIV3Schema.Properties[field].XPreserveUnknownFields).To(HaveValue(BeTrue()), each.GetName())
		}
	}
	g.Expect(scopes).To(Equal(map[string]string{
		"BackupBucket": "Cluster", "BackupEntry": "Cluster", "DNSRecord": "Namespaced", "Extension": "Namespaced",
	}))
}

// make garden-crds drops the descriptions of fields, and keeps a property that is called description.
func TestDefinitionsOfMonitoringAreBrief(t *testing.T) {
	g := NewWithT(t)
	definitions, err := crds.Monitoring()
	g.Expect(err).NotTo(HaveOccurred())
	encoded, err := json.Marshal(definitions)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(encoded)).To(ContainSubstring(`"description":{"minLength":1,"type":"string"}`))
	g.Expect(len(encoded)).To(BeNumerically("<", 2_000_000))
}

func TestNewerDefinitionsAreFound(t *testing.T) {
	definition := func(release string, versions ...any) *unstructured.Unstructured {
		list := []any{}
		for _, each := range versions {
			list = append(list, map[string]any{"name": each})
		}
		d := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"versions": list}}}
		if release != "" {
			d.SetAnnotations(map[string]string{"operator.prometheus.io/version": release})
		}
		return d
	}
	ours := definition("0.93.1", "v1")
	for name, tc := range map[string]struct {
		live *unstructured.Unstructured
		want string
	}{
		"the same":                  {live: definition("0.93.1", "v1")},
		"an earlier release":        {live: definition("0.92.0", "v1")},
		"a later release":           {live: definition("0.100.0", "v1"), want: "it is of release 0.100.0"},
		"another version":           {live: definition("0.93.1", "v1", "v2"), want: "it has version v2"},
		"no release":                {live: definition("", "v1")},
		"no release, a new version": {live: definition("", "v1", "v1beta1"), want: "it has version v1beta1"},
		"a release that is none":    {live: definition("main", "v1")},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(crds.Newer(tc.live, ours)).To(Equal(tc.want)) })
	}
	g := NewWithT(t)
	monitoring, err := crds.Monitoring()
	g.Expect(err).NotTo(HaveOccurred())
	for _, each := range monitoring {
		g.Expect(crds.HasRelease(each)).To(BeTrue(), each.GetName())
	}
	g.Expect(crds.HasRelease(definition("", "v1"))).To(BeFalse())
}

package crds_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
	for _, read := range []func() ([]*unstructured.Unstructured, error){crds.ETCD, crds.ManagedResources} {
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

package installation

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/espalier-dev/espalier/internal/chart"
)

// taintProtected is the key of the taint of Seeds that are for system components only.
const taintProtected = "seed.gardener.cloud/protected"

// gardenFacts are the values that do not depend on the Seed.
type gardenFacts struct {
	version string
	gates   map[string]bool
	// identity is the identity of the garden.
	identity string
	// kubeconfig is the name of the Secret with the generic kubeconfig; "" if the extension gets no access to the garden.
	kubeconfig string
}

// chartValues returns the values of a chart: the values of the deployment, overridden by the values about garden and Seed.
func chartValues(own map[string]any, garden gardenFacts, seed *unstructured.Unstructured) (chart.Values, error) {
	about := map[string]any{"clusterIdentity": garden.identity}
	if garden.kubeconfig != "" {
		about["genericKubeconfigSecretName"] = garden.kubeconfig
	}
	gates := map[string]any{}
	for name, enabled := range garden.gates {
		gates[name] = enabled
	}
	given := map[string]any{"gardener": map[string]any{
		"version": garden.version, "garden": about, "seed": seedValues(seed), "gardenlet": map[string]any{"featureGates": gates},
	}}
	var values chart.Values
	for _, each := range []map[string]any{own, given} {
		encoded, err := json.Marshal(each)
		if err != nil {
			return nil, fmt.Errorf("encode values: %w", err)
		}
		values = append(values, encoded)
	}
	return values, nil
}

// seedValues returns the values about a Seed, whose spec is passed on as a whole, with fields that this program does not know.
func seedValues(seed *unstructured.Unstructured) map[string]any {
	spec, _ := seed.Object["spec"].(map[string]any)
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(spec, fields...)
		return value
	}
	providers, _, _ := unstructured.NestedSlice(spec, "volume", "providers")
	volumeProvider := ""
	if len(providers) > 0 {
		first, _ := providers[0].(map[string]any)
		volumeProvider, _, _ = unstructured.NestedString(first, "name")
	}
	taints, _, _ := unstructured.NestedSlice(spec, "taints")
	visible, isSet, _ := unstructured.NestedBool(spec, "settings", "scheduling", "visible")
	networks, _, _ := unstructured.NestedMap(spec, "networks")
	return map[string]any{
		"name": seed.GetName(), "clusterIdentity": identityOf(seed), "annotations": seed.GetAnnotations(), "labels": seed.GetLabels(),
		"provider": text("provider", "type"), "region": text("provider", "region"), "volumeProvider": volumeProvider,
		"volumeProviders": providers, "ingressDomain": text("ingress", "domain"), "protected": slices.ContainsFunc(taints, isProtected),
		"visible": visible || !isSet, "taints": taints, "networks": networks, "blockCIDRs": networks["blockCIDRs"], "spec": spec,
	}
}

func isProtected(taint any) bool {
	fields, _ := taint.(map[string]any)
	return fields["key"] == taintProtected
}

// identityOf returns the identity of the cluster of a Seed; "" if it is not known yet.
func identityOf(seed *unstructured.Unstructured) string {
	identity, _, _ := unstructured.NestedString(seed.Object, "status", "clusterIdentity")
	return identity
}

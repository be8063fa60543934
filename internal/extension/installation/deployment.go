package installation

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/espalier-dev/espalier/internal/chart/placeholder"
)

// deployment contains the fields of a ControllerDeployment that an installation needs. It is the same for both API versions.
type deployment struct {
	// rawChart is the archive of the chart; nil if it is in a registry.
	rawChart []byte
	// oci is the place of the chart in a registry; zero for a raw chart.
	oci repository
	// values are the values of the chart; nil for none.
	values map[string]any
	// inject asks for access to the garden.
	inject bool
	// resources are the Secrets and ConfigMaps in the garden that values may refer to, by the name that the values use.
	resources map[string]resource
}

// repository is the place of a chart in a registry.
type repository struct {
	// reference is "host/repository:tag" or "host/repository@digest".
	reference string
	// pullSecret and caBundle name Secrets in the namespace garden of the garden; "" for none.
	pullSecret, caBundle string
}

// resource names a Secret or ConfigMap in the namespace garden of the garden cluster.
type resource struct{ kind, name string }

// errNotHelm means that a ControllerDeployment is for another program than this one.
var errNotHelm = errors.New("the ControllerDeployment does not have a Helm chart")

// parseDeployment reads a ControllerDeployment of core.gardener.cloud/v1 or v1beta1. In v1beta1, the chart is in the field providerConfig,
// and the type must be helm. parseDeployment returns errNotHelm for another type. Errors contain no values.
func parseDeployment(o *unstructured.Unstructured) (deployment, error) {
	var d deployment
	helm, isV1 := o.Object["helm"].(map[string]any)
	chartField := "rawChart"
	if !isV1 {
		if kind, _, _ := unstructured.NestedString(o.Object, "type"); kind != "helm" {
			return d, errNotHelm
		}
		helm, _ = o.Object["providerConfig"].(map[string]any)
		chartField = "chart"
	}
	if encoded, _ := helm[chartField].(string); encoded != "" {
		var err error
		if d.rawChart, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return d, fmt.Errorf("field %s is not base64", chartField)
		}
	}
	if source, found := helm["ociRepository"].(map[string]any); found {
		d.oci = parseRepository(source)
	}
	if (len(d.rawChart) == 0) == (d.oci.reference == "") {
		return d, fmt.Errorf("exactly one of %s and ociRepository must be set", chartField)
	}
	values, err := object(helm["values"])
	if err != nil {
		return d, err
	}
	d.values = values
	d.inject, _, _ = unstructured.NestedBool(o.Object, "injectGardenKubeconfig")
	d.resources, err = parseResources(o)
	return d, err
}

// object returns values as an object. Older clients write them as a text.
func object(values any) (map[string]any, error) {
	switch v := values.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return v, nil
	case string:
		decoded, err := base64.StdEncoding.DecodeString(v)
		if err != nil {
			decoded = []byte(v)
		}
		var parsed map[string]any
		if json.Unmarshal(decoded, &parsed) == nil {
			return parsed, nil
		}
	}
	return nil, errors.New("field values is not an object")
}

func parseRepository(source map[string]any) repository {
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(source, fields...)
		return value
	}
	r := repository{reference: text("ref"), pullSecret: text("pullSecretRef", "name"), caBundle: text("caBundleSecretRef", "name")}
	if r.reference == "" {
		r.reference = text("repository")
		switch digest, tag := text("digest"), text("tag"); {
		case digest != "":
			r.reference += "@" + digest
		case tag != "":
			r.reference += ":" + tag
		}
	}
	r.reference = strings.TrimPrefix(r.reference, "oci://")
	return r
}

func parseResources(o *unstructured.Unstructured) (map[string]resource, error) {
	list, _, _ := unstructured.NestedSlice(o.Object, "resources")
	resources := map[string]resource{}
	for _, item := range list {
		entry, _ := item.(map[string]any)
		name, _, _ := unstructured.NestedString(entry, "name")
		kind, _, _ := unstructured.NestedString(entry, "resourceRef", "kind")
		version, _, _ := unstructured.NestedString(entry, "resourceRef", "apiVersion")
		target, _, _ := unstructured.NestedString(entry, "resourceRef", "name")
		if name == "" || target == "" || version != "v1" || kind != "Secret" && kind != "ConfigMap" {
			return nil, fmt.Errorf("resource %q is not a Secret or ConfigMap of v1", name)
		}
		resources[name] = resource{kind: kind, name: target}
	}
	return resources, nil
}

// resolved returns the values, with the data of the resources in the place of the placeholders. If the ControllerDeployment has no
// resources, resolved returns the values unchanged. Errors contain no values.
func (d deployment) resolved(data placeholder.Resources) (map[string]any, error) {
	if len(d.resources) == 0 || len(d.values) == 0 {
		return d.values, nil
	}
	encoded, err := json.Marshal(d.values)
	if err != nil {
		return nil, fmt.Errorf("encode values: %w", err)
	}
	replaced, err := placeholder.Replace(encoded, data)
	if err != nil {
		return nil, fmt.Errorf("replace placeholders in values: %w", err)
	}
	var values map[string]any
	err = json.Unmarshal(replaced, &values)
	return values, err
}

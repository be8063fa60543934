package endpointslicehints_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
)

func served(t *testing.T) *webhooktest.Env {
	t.Helper()
	return webhooktest.New(t, webhooktest.Options{Webhooks: "endpointSliceHints: {enabled: true}"})
}

const considered = `{endpoint-slice-hints.resources.gardener.cloud/consider: "true"}`

func create(e *webhooktest.Env, labels string, endpoints ...string) *unstructured.Unstructured {
	e.T.Helper()
	object, err := e.Create(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {generateName: web-, labels: ` + labels + `}, addressType: IPv4, endpoints: [` + strings.Join(endpoints, ", ") + `]}`)
	e.Expect(err).NotTo(HaveOccurred())
	return object
}

// hints are those of all endpoints.
func hints(e *webhooktest.Env, object *unstructured.Unstructured) []*discoveryv1.EndpointHints {
	e.T.Helper()
	slice := discoveryv1.EndpointSlice{}
	e.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &slice)).To(Succeed())
	var all []*discoveryv1.EndpointHints
	for _, endpoint := range slice.Endpoints {
		all = append(all, endpoint.Hints)
	}
	return all
}

func zone(name string) *discoveryv1.EndpointHints {
	return &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: name}}}
}

func TestAcceptance9_1ASliceThatDoesNotTakePartStays(t *testing.T) {
	t.Parallel()
	e := served(t)
	object := create(e, `{}`, `{addresses: [192.0.2.1], zone: europe-1a}`)
	e.Expect(hints(e, object)).To(BeComparableTo([]*discoveryv1.EndpointHints{nil}))
	object = create(e, `{endpoint-slice-hints.resources.gardener.cloud/consider: "false"}`, `{addresses: [192.0.2.1], zone: europe-1a}`)
	e.Expect(hints(e, object)).To(BeComparableTo([]*discoveryv1.EndpointHints{nil}))
}

func TestAcceptance9_2OnlyEndpointsWithAZoneGetHints(t *testing.T) {
	t.Parallel()
	e := served(t)
	object := create(e, considered, `{addresses: [192.0.2.1]}`, `{addresses: [192.0.2.2], zone: ""}`, `{addresses: [192.0.2.3], zone: europe-1c}`)
	e.Expect(hints(e, object)).To(BeComparableTo([]*discoveryv1.EndpointHints{nil, nil, zone("europe-1c")}))
}

func TestAcceptance9_3EachEndpointGetsItsOwnZone(t *testing.T) {
	t.Parallel()
	e := served(t)
	object := create(e, considered, `{addresses: [192.0.2.1], zone: europe-1a}`, `{addresses: [192.0.2.2], zone: europe-1b}`, `{addresses: [192.0.2.3], zone: europe-1c}`)
	e.Expect(hints(e, object)).To(BeComparableTo([]*discoveryv1.EndpointHints{zone("europe-1a"), zone("europe-1b"), zone("europe-1c")}))
}

func TestAcceptance9_4AnUpdateWithOtherHintsIsOverwritten(t *testing.T) {
	t.Parallel()
	e := served(t)
	object := create(e, considered, `{addresses: [192.0.2.1], zone: europe-1a}`)
	object, err := e.Update(object, `{"endpoints": [{"addresses": ["192.0.2.1"], "zone": "europe-1a", "hints": {"forZones": [{"name": "europe-1b"}]}}]}`)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(hints(e, object)).To(BeComparableTo([]*discoveryv1.EndpointHints{zone("europe-1a")}))
}

func TestAcceptance9_5HintsOfAnEndpointWithoutAZoneAreKept(t *testing.T) {
	t.Parallel()
	e := served(t)
	object := create(e, considered, `{addresses: [192.0.2.1], hints: {forZones: [{name: wrong}]}}`, `{addresses: [192.0.2.2], zone: "", hints: {forZones: [{name: wrong}]}}`)
	e.Expect(hints(e, object)).To(BeComparableTo([]*discoveryv1.EndpointHints{zone("wrong"), zone("wrong")}))
}

package handlers_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
)

func hintsServed(t *testing.T) *webhooktest.Env {
	t.Helper()
	return webhooktest.New(t, webhooktest.Options{Webhooks: "endpointSliceHints: {enabled: true}"})
}

const hintsConsidered = `{endpoint-slice-hints.resources.gardener.cloud/consider: "true"}`

func hintsCreate(e *webhooktest.Env, labels string, endpoints ...string) *unstructured.Unstructured {
	e.T.Helper()
	object, err := e.Create(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {generateName: web-, labels: ` + labels +
		`}, addressType: IPv4, endpoints: [` + strings.Join(endpoints, ", ") + `]}`)
	e.Expect(err).NotTo(HaveOccurred())
	return object
}

// hintsHints returns the hints of all endpoints.
func hintsHints(e *webhooktest.Env, object *unstructured.Unstructured) []*discoveryv1.EndpointHints {
	e.T.Helper()
	slice := discoveryv1.EndpointSlice{}
	e.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &slice)).To(Succeed())
	var all []*discoveryv1.EndpointHints
	for _, endpoint := range slice.Endpoints {
		all = append(all, endpoint.Hints)
	}
	return all
}

func hintsZone(name string) *discoveryv1.EndpointHints {
	return &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: name}}}
}

func TestEndpointSliceWithoutTheLabelGetsNoHints(t *testing.T) {
	t.Parallel()
	e := hintsServed(t)
	object := hintsCreate(e, `{}`, `{addresses: [192.0.2.1], zone: europe-1a}`)
	e.Expect(hintsHints(e, object)).To(BeComparableTo([]*discoveryv1.EndpointHints{nil}))
	object = hintsCreate(e, `{endpoint-slice-hints.resources.gardener.cloud/consider: "false"}`, `{addresses: [192.0.2.1], zone: europe-1a}`)
	e.Expect(hintsHints(e, object)).To(BeComparableTo([]*discoveryv1.EndpointHints{nil}))
}

func TestEndpointsWithoutZoneGetNoHints(t *testing.T) {
	t.Parallel()
	e := hintsServed(t)
	object := hintsCreate(e, hintsConsidered, `{addresses: [192.0.2.1]}`, `{addresses: [192.0.2.2], zone: ""}`,
		`{addresses: [192.0.2.3], zone: europe-1c}`)
	e.Expect(hintsHints(e, object)).To(BeComparableTo([]*discoveryv1.EndpointHints{nil, nil, hintsZone("europe-1c")}))
}

func TestEndpointsGetHintsForTheirOwnZone(t *testing.T) {
	t.Parallel()
	e := hintsServed(t)
	object := hintsCreate(e, hintsConsidered, `{addresses: [192.0.2.1], zone: europe-1a}`, `{addresses: [192.0.2.2], zone: europe-1b}`,
		`{addresses: [192.0.2.3], zone: europe-1c}`)
	e.Expect(hintsHints(e, object)).
		To(BeComparableTo([]*discoveryv1.EndpointHints{hintsZone("europe-1a"), hintsZone("europe-1b"), hintsZone("europe-1c")}))
}

func TestOtherHintsAreOverwritten(t *testing.T) {
	t.Parallel()
	e := hintsServed(t)
	object := hintsCreate(e, hintsConsidered, `{addresses: [192.0.2.1], zone: europe-1a}`)
	object, err := e.Update(object, `{"endpoints": [{"addresses": ["192.0.2.1"], "zone": "europe-1a", "hints": {"forZones": [{"name": `+
		`"europe-1b"}]}}]}`)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(hintsHints(e, object)).To(BeComparableTo([]*discoveryv1.EndpointHints{hintsZone("europe-1a")}))
}

func TestHintsOfEndpointsWithoutZoneAreKept(t *testing.T) {
	t.Parallel()
	e := hintsServed(t)
	object := hintsCreate(e, hintsConsidered, `{addresses: [192.0.2.1], hints: {forZones: [{name: wrong}]}}`,
		`{addresses: [192.0.2.2], zone: "", hints: {forZones: [{name: wrong}]}}`)
	e.Expect(hintsHints(e, object)).To(BeComparableTo([]*discoveryv1.EndpointHints{hintsZone("wrong"), hintsZone("wrong")}))
}

package handlers

import (
	"encoding/json"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/webhook/objecttest"
)

func TestEndpointSliceHintsPlan(t *testing.T) {
	const want = `[{"op":"add","path":"/endpoints/0/hints","value":{"forZones":[{"name":"europe-1a"}]}}]`
	for name, tc := range map[string]struct{ endpoints, want string }{
		"no endpoints":             {endpoints: `[]`},
		"endpoints are null":       {endpoints: `null`},
		"an endpoint that is null": {endpoints: `[null]`},
		"no zone":                  {endpoints: `[{}]`},
		"a zone that is null":      {endpoints: `[{"zone":null}]`},
		"an empty zone":            {endpoints: `[{"zone":""}]`},
		"no zone, but hints":       {endpoints: `[{"hints":{"forZones":[{"name":"wrong"}]}}]`},
		"an empty zone, but hints": {endpoints: `[{"zone":"","hints":{"forZones":[{"name":"wrong"}]}}]`},
		"a zone":                   {endpoints: `[{"zone":"europe-1a"}]`, want: want},
		"hints that are null":      {endpoints: `[{"zone":"europe-1a","hints":null}]`, want: want},
		"empty hints":              {endpoints: `[{"zone":"europe-1a","hints":{}}]`, want: want},
		"hints at no zone":         {endpoints: `[{"zone":"europe-1a","hints":{"forZones":[]}}]`, want: want},
		"hints at another zone":    {endpoints: `[{"zone":"europe-1a","hints":{"forZones":[{"name":"europe-1b"}]}}]`, want: want},
		"hints at more zones": {
			endpoints: `[{"zone":"europe-1a","hints":{"forZones":[{"name":"europe-1a"},{"name":"europe-1b"}]}}]`, want: want,
		},
		"hints at nodes too": {
			endpoints: `[{"zone":"europe-1a","hints":{"forZones":[{"name":"europe-1a"}],"forNodes":[{"name":"node-1"}]}}]`, want: want,
		},
		"hints of a kind yet to come": {
			endpoints: `[{"zone":"europe-1a","hints":{"forZones":[{"name":"europe-1a","weight":3}]}}]`, want: want,
		},
		"the right hints": {endpoints: `[{"zone":"europe-1a","hints":{"forZones":[{"name":"europe-1a"}]}}]`},
		"each endpoint gets its own zone": {
			endpoints: `[{"zone":"a"},{},{"zone":"c"}]`,
			want: `[{"op":"add","path":"/endpoints/0/hints","value":{"forZones":[{"name":"a"}]}},{"op":"add","path":"/endpoints/2/hints",` +
				`"value":{"forZones":[{"name":"c"}]}}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			found := endpointSlice{}
			g.Expect(review.Decode([]byte(`{"endpoints":`+tc.endpoints+`}`), &found)).To(Succeed())
			document, err := planHints(found).Encode()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(document)).To(Equal(tc.want))
		})
	}
}

func TestEndpointSliceHintsKeepsTheRestOfEndpoints(t *testing.T) {
	response, after := reviewtest.Handle(t, endpointSliceHints().
		Review(Settings{}), reviewtest.Request(t, review.Update, discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web, namespace: shop}
addressType: IPv4
endpoints:
- {addresses: [192.0.2.1], zone: europe-1a, nodeName: node-1, unknown: kept}
- {addresses: [192.0.2.2], hints: {forZones: [{name: wrong}]}}
- {addresses: [192.0.2.3], zone: europe-1c, hints: {forZones: [{name: wrong}]}}
`))
	NewWithT(t).Expect(response.Allowed).To(BeTrue())
	reviewtest.Same(t, after, `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web, namespace: shop}
addressType: IPv4
endpoints:
- {addresses: [192.0.2.1], zone: europe-1a, nodeName: node-1, unknown: kept, hints: {forZones: [{name: europe-1a}]}}
- {addresses: [192.0.2.2], hints: {forZones: [{name: wrong}]}}
- {addresses: [192.0.2.3], zone: europe-1c, hints: {forZones: [{name: europe-1c}]}}
`)
}

func TestEndpointSliceHintsNamesTheFieldOfAWrongType(t *testing.T) {
	g := NewWithT(t)
	response, _ := reviewtest.Handle(t, endpointSliceHints().Review(Settings{}),
		reviewtest.Request(t, review.Create, discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
			`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, endpoints: [{zone: 1}]}`))
	g.Expect(response.Code).To(BeEquivalentTo(400))
	g.Expect(response.Message).To(Equal(`endpoints[0].zone: must not be a number`))
}

func TestEndpointSliceHintsRefusesAnotherVersion(t *testing.T) {
	response, _ := reviewtest.Handle(t, endpointSliceHints().Review(Settings{}),
		reviewtest.Request(t, review.Create, discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
			`{apiVersion: discovery.k8s.io/v1beta1, kind: EndpointSlice}`))
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{
		Code: 400, Message: `request.kind: expected "discovery.k8s.io/v1 EndpointSlice", got "discovery.k8s.io/v1beta1 EndpointSlice"`,
	}))
}

func TestEndpointSliceHintsAllowsDeletion(t *testing.T) {
	response, _ := reviewtest.Handle(t, endpointSliceHints().Review(Settings{}),
		reviewtest.Request(t, review.Delete, discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
			`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, endpoints: [{zone: a}]}`))
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
}

func FuzzEndpointSliceHints(f *testing.F) {
	for _, seed := range objecttest.Seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		objecttest.Case[discoveryv1.EndpointSlice]{
			Handler: endpointSliceHints().Review(Settings{}), Kind: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"),
			Object:  randomEndpointSlice(),
			Touched: []string{"/endpoints/*/hints"},
			Want: func(slice *discoveryv1.EndpointSlice) bool {
				for i := range slice.Endpoints {
					if zone := ptr.Deref(slice.Endpoints[i].Zone, ""); zone != "" {
						slice.Endpoints[i].Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}}
					}
				}
				return true
			},
		}.CheckRules(t, bytes)
	})
}

// BenchmarkEndpointSliceHints judges an EndpointSlice of a hundred endpoints, the most that the EndpointSlice controller puts into one by
// default.
func BenchmarkEndpointSliceHints(b *testing.B) {
	slice := discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"}, AddressType: "IPv4",
	}
	for i := range 100 {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("192.0.2.%d", i)}, Zone: ptr.To(fmt.Sprintf("europe-1%c", 'a'+i%3)),
			NodeName:   ptr.To(fmt.Sprintf("node-%d", i)),
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
		})
	}
	encoded, err := json.Marshal(slice)
	NewWithT(b).Expect(err).NotTo(HaveOccurred())
	benchmark(b, endpointSliceHints().
		Review(Settings{}), &review.Request{
		Operation: review.Create, Kind: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), Namespace: "shop", Object: encoded,
	})
}

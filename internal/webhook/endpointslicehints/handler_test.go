package endpointslicehints_test

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
	"github.com/espalier-dev/espalier/internal/webhook/endpointslicehints"
	"github.com/espalier-dev/espalier/internal/webhook/objecttest"
)

func TestHandleKeepsTheRestOfEndpoints(t *testing.T) {
	response, after := reviewtest.Handle(t, endpointslicehints.Handler{}, reviewtest.Request(t, review.Update, discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), `
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

func TestHandleTellsTheFieldOfAWrongType(t *testing.T) {
	g := NewWithT(t)
	response, _ := reviewtest.Handle(t, endpointslicehints.Handler{}, reviewtest.Request(t, review.Create, discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, endpoints: [{zone: 1}]}`))
	g.Expect(response.Code).To(BeEquivalentTo(400))
	g.Expect(response.Message).To(Equal(`endpoints[0].zone: must not be a number`))
}

func TestHandleRefusesAnotherVersion(t *testing.T) {
	response, _ := reviewtest.Handle(t, endpointslicehints.Handler{}, reviewtest.Request(t, review.Create, discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), `{apiVersion: discovery.k8s.io/v1beta1, kind: EndpointSlice}`))
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Code: 400, Message: `request.kind: expected "discovery.k8s.io/v1 EndpointSlice", got "discovery.k8s.io/v1beta1 EndpointSlice"`}))
}

func TestHandleAllowsDeletion(t *testing.T) {
	response, _ := reviewtest.Handle(t, endpointslicehints.Handler{}, reviewtest.Request(t, review.Delete, discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, endpoints: [{zone: a}]}`))
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
}

func FuzzHandle(f *testing.F) {
	for _, seed := range objecttest.Seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		objecttest.Case[discoveryv1.EndpointSlice]{
			Handler: endpointslicehints.Handler{}, Kind: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), Object: objecttest.EndpointSlice(),
			Touched: []string{"/endpoints/*/hints"},
			Want: func(slice *discoveryv1.EndpointSlice) bool {
				for i := range slice.Endpoints {
					if zone := ptr.Deref(slice.Endpoints[i].Zone, ""); zone != "" {
						slice.Endpoints[i].Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}}
					}
				}
				return true
			},
		}.Hold(t, bytes)
	})
}

// BenchmarkHandle judges a slice of a hundred endpoints, the most that the endpoint slice controller puts into one.
func BenchmarkHandle(b *testing.B) {
	slice := discoveryv1.EndpointSlice{TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"}, AddressType: "IPv4"}
	for i := range 100 {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("192.0.2.%d", i)}, Zone: ptr.To(fmt.Sprintf("europe-1%c", 'a'+i%3)), NodeName: ptr.To(fmt.Sprintf("node-%d", i)),
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
		})
	}
	encoded, err := json.Marshal(slice)
	NewWithT(b).Expect(err).NotTo(HaveOccurred())
	objecttest.Benchmark(b, endpointslicehints.Handler{}, &review.Request{Operation: review.Create, Kind: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), Namespace: "shop", Object: encoded})
}

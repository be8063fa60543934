package highavailability

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
)

// BenchmarkHandle judges a Deployment of Pods with five containers of ten variables each.
func BenchmarkHandle(b *testing.B) {
	variables := strings.TrimSuffix(strings.Repeat("{name: SOME_VARIABLE, value: some-value-of-it}, ", 10), ", ")
	containers := strings.TrimSuffix(strings.Repeat("{name: web, image: 'registry.example.com/some/web:v1.2.3', env: ["+variables+
		"], resources: {requests: {cpu: 10m, memory: 20Mi}}}, ", 5), ", ")
	object := "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, labels: " +
		"{high-availability-config.resources.gardener.cloud/type: server}}, " +
		"spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web, tier: one}}, spec: {containers: [" +
		containers + "]}}}}"
	h := in(map[string]string{"failure-tolerance-type": "zone", "zones": "a,b,c"}).scaledTo(6)
	h.DefaultNotReadyTolerationSeconds, h.DefaultUnreachableTolerationSeconds = ptr.To[int64](60), ptr.To[int64](60)
	changed := reviewtest.Request(b, review.Create, schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, object)
	settled := *changed
	settled.Operation = review.Update
	settled.Object = reviewtest.Apply(b, changed.Object, h.Handle(b.Context(), changed).Patch)
	for name, request := range map[string]*review.Request{"changed": changed, "settled": &settled} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(request.Object)))
			for b.Loop() {
				if response := h.Handle(b.Context(), request); !response.Allowed || (len(response.Patch) == 0) != (name == "settled") {
					b.Fatal(response.Message)
				}
			}
		})
	}
}

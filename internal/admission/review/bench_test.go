package review_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

// BenchmarkServe measures the cost that every request has: reading a review of 12 KiB, and answering.
func BenchmarkServe(b *testing.B) {
	benchmark(b, func(context.Context, *review.Request) review.Response { return review.Allowed("") })
}

// BenchmarkDecode measures the same, with a handler that reads a few fields of each container.
func BenchmarkDecode(b *testing.B) {
	benchmark(b, func(_ context.Context, request *review.Request) review.Response {
		found := struct {
			Spec struct {
				Containers []struct {
					Name  string `json:"name"`
					Image string `json:"image"`
				} `json:"containers"`
			} `json:"spec"`
		}{}
		if err := request.Decode(&found); err != nil {
			return review.Undecodable(err)
		}
		return review.Allowed("")
	})
}

func benchmark(b *testing.B, handler review.HandlerFunc) {
	b.Helper()
	pod := strings.Builder{}
	pod.WriteString(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{"containers":[`)
	for i := range 5 {
		fmt.Fprintf(&pod, `%s{"name":"c%d","image":"registry.example.com/shop/part:v1.2.3","env":[{"name":"A","value":"b"}`,
			[2]string{"", ","}[min(i, 1)], i)
		for j := range 30 {
			fmt.Fprintf(&pod, `,{"name":"SHOP_SETTING_%d","value":"the value of setting %d"}`, j, j)
		}
		pod.WriteString(`]}`)
	}
	pod.WriteString(`]}}`)
	body := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","kind":{"group":"","version":"v1",` +
		`"kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},` +
		`"name":"a","namespace":"b","operation":"CREATE","userInfo":{"username":"me","groups":["system:authenticated"]},"object":` +
		pod.String() + `,"oldObject":null,"dryRun":false,"options":{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}}}`
	endpoint := &review.Endpoint{
		Name: "bench", Handler: handler,
		Metrics: review.NewMetrics(prometheus.NewRegistry()), Log: logr.Discard(), Clock: clock.RealClock{},
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		request := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/", bytes.NewReader([]byte(body)))
		request.Header.Set("Content-Type", "application/json")
		endpoint.ServeHTTP(httptest.NewRecorder(), request)
	}
}

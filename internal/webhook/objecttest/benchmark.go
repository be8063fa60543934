package objecttest

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

// Benchmark judges one request again and again, which must lead to a patch.
func Benchmark(b *testing.B, handler review.Handler, request *review.Request) {
	b.Helper()
	NewWithT(b).Expect(handler.Handle(b.Context(), request).Patch).NotTo(BeEmpty())
	b.ReportAllocs()
	b.SetBytes(int64(len(request.Object)))
	for b.Loop() {
		handler.Handle(b.Context(), request)
	}
}

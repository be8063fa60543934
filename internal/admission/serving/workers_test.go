package serving

import (
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
)

func TestRequestsAreAnsweredWhetherWorkersAreIdleOrNot(t *testing.T) {
	g := NewWithT(t)
	w := &workers{tasks: make(chan *task)}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic("out of order")
		}
		_, _ = w.Write([]byte(r.URL.Path))
	})
	answer := func(path string) string {
		recorder := httptest.NewRecorder()
		w.serve(handler, recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		return recorder.Body.String()
	}
	check := func() {
		for range 100 {
			g.Expect(answer("/a")).To(Equal("/a"))
			g.Expect(func() { answer("/panic") }).To(PanicWith("out of order"))
		}
	}
	check()
	stop := w.start()
	check()
	stop()
	check()
}

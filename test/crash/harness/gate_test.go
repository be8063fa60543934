package harness

import (
	"io"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// server executes every request and records it.
type server struct{ carriedOut []string }

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(request *http.Request) (*http.Response, error) {
	s.carriedOut = append(s.carriedOut, request.Method+" "+request.URL.Path)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("")), Request: request}, nil
}

func TestACut(t *testing.T) {
	const path = "/api/v1/namespaces/ns/configmaps/"
	for name, tc := range map[string]struct {
		cut        Cut
		answered   []bool
		carriedOut []string
	}{
		"none":                  {Cut{}, []bool{true, true, true}, []string{"PUT " + path + "0", "PUT " + path + "1", "PUT " + path + "2"}},
		"before the second one": {Cut{2, Before}, []bool{true, false, false}, []string{"PUT " + path + "0"}},
		"after the second one":  {Cut{2, After}, []bool{true, false, false}, []string{"PUT " + path + "0", "PUT " + path + "1"}},
		"where nothing is": {
			Cut{4, After}, []bool{true, true, true}, []string{"PUT " + path + "0", "PUT " + path + "1", "PUT " + path + "2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, behind, gate := NewWithT(t), &server{}, NewGate(Counts, nil)
			connection := gate.Wrap(behind)
			send := func(method, url string) bool {
				request, err := http.NewRequestWithContext(t.Context(), method, "https://server"+url, http.NoBody)
				g.Expect(err).NotTo(HaveOccurred())
				response, err := connection.RoundTrip(request)
				if err == nil {
					g.Expect(response.Body.Close()).To(Succeed())
				}
				return err == nil
			}
			g.Expect(send(http.MethodGet, path+"early")).To(BeTrue())
			gate.Arm(tc.cut, nil)
			var answered []bool
			for _, each := range []string{"0", "1", "2"} {
				answered = append(answered, send(http.MethodPut, path+each))
				send(http.MethodPost, "/apis/events.k8s.io/v1/namespaces/ns/events")
			}
			g.Expect(answered).To(Equal(tc.answered))
			var carriedOut []string
			for _, each := range behind.carriedOut {
				if strings.HasPrefix(each, http.MethodPut) {
					carriedOut = append(carriedOut, each)
				}
			}
			g.Expect(carriedOut).To(Equal(tc.carriedOut))
			g.Expect(gate.Dead()).To(Equal(!answered[2]))
		})
	}
}

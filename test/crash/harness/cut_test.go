package harness

import (
	"io"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/binary"
)

// server is an API server that records every request that it executes.
type server struct{ carriedOut []string }

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(request *http.Request) (*http.Response, error) {
	s.carriedOut = append(s.carriedOut, request.Method+" "+request.URL.Path)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("")), Request: request}, nil
}

func TestACut(t *testing.T) {
	const path = "/api/v1/namespaces/ns/configmaps/"
	puts := []string{"PUT " + path + "0", "PUT " + path + "1", "PUT " + path + "2"}
	for name, tc := range map[string]struct {
		cut        binary.Cut
		answered   []bool
		carriedOut []string
		sent       []string // with the request that was cut
	}{
		"none":                  {binary.Cut{}, []bool{true, true, true}, puts, puts},
		"before the second one": {binary.Cut{Request: 2}, []bool{true, false, false}, puts[:1], puts[:2]},
		"after the second one":  {binary.Cut{Request: 2, After: true}, []bool{true, false, false}, puts[:2], puts[:2]},
		"where nothing is":      {binary.Cut{Request: 4, After: true}, []bool{true, true, true}, puts, puts},
	} {
		t.Run(name, func(t *testing.T) {
			g, behind, requests := NewWithT(t), &server{}, &binary.Requests{Counts: Counts}
			connection := requests.Wrap(behind)
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
			requests.CutOff(tc.cut)
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
			g.Expect(requests.SinceCutOff()).To(Equal(tc.sent))
			g.Expect(requests.IsCutOff()).To(Equal(!answered[2]))
		})
	}
}

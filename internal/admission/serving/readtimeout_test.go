package serving_test

import (
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/admission/serving"
)

// A client that sends half a request and then nothing must not keep a worker for ever.
func TestARequestThatIsNeverSentCompletelyIsEnded(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			read := make(chan error, 1)
			s := start(t, serving.Options{
				CertDir: certDir(t, "one"), ReadTimeout: 100 * time.Millisecond,
			}, func(_ http.ResponseWriter, r *http.Request) {
				_, err := io.Copy(io.Discard, r.Body)
				read <- err
			})
			body, rest := io.Pipe()
			t.Cleanup(func() { _ = rest.Close() })
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, body)
			g.Expect(err).NotTo(HaveOccurred())
			go func() {
				if response, failure := newClient(t, http2).Do(request); failure == nil {
					_ = response.Body.Close()
				}
			}()
			_, err = rest.Write([]byte(`{"kind":`))
			g.Expect(err).NotTo(HaveOccurred())
			g.Eventually(read).WithTimeout(patience).Should(Receive(MatchError(os.ErrDeadlineExceeded)))
		})
	}
}

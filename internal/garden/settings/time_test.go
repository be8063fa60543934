package settings

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

func TestTimeOfTheAPIServerIsInItsAnswer(t *testing.T) {
	for sentence, tc := range map[string]struct {
		header []string
		want   time.Time
	}{
		"a date": {
			header: []string{"Sat, 28 Feb 2026 12:00:00 GMT"}, want: time.Date(2026, time.February, 28, 12, 0, 0, 0, time.UTC),
		},
		"a malformed date":    {header: []string{"today"}},
		"no date, by a proxy": {},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Date"] = tc.header
				w.WriteHeader(http.StatusForbidden)
			}))
			defer server.Close()
			config := &rest.Config{Host: server.URL}
			g.Expect(ServerTime(config, server.Client())(t.Context())).To(Equal(tc.want))
			server.Close()
			_, err := ServerTime(config, server.Client())(t.Context())
			g.Expect(err).To(HaveOccurred())
		})
	}
}

package certificates

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

func TestNewRequiresHTTPClients(t *testing.T) {
	complete := Connection{Config: &rest.Config{Host: "https://127.0.0.1:1"}, HTTPClient: &http.Client{}}
	without := Connection{Config: complete.Config}
	for name, tc := range map[string]struct {
		own, called Connection
		want        string
	}{
		"both":                      {complete, complete, ""},
		"not of the own cluster":    {without, complete, "keep webhook certificates: the connection to the own cluster has no HTTP client"},
		"not of the called cluster": {complete, without, "keep webhook certificates: the connection to the called cluster has no HTTP client"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(Options{Own: tc.own, Called: tc.called})
			if tc.want == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
			} else {
				NewWithT(t).Expect(err).To(MatchError(tc.want))
			}
		})
	}
}

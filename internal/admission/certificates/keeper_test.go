package certificates

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
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

// No watch reports that the clock was changed.
func TestCertificateThatIsNotValidWakesTheLoop(t *testing.T) {
	for name, tc := range map[string]struct {
		now   time.Time
		wakes bool
	}{
		"valid":         {now: start},
		"expired":       {now: at(300 * time.Minute), wakes: true},
		"not yet valid": {now: start.AddDate(-1, 0, 0), wakes: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			k := &Keeper{options: Options{Clock: clocktesting.NewFakeClock(tc.now)}, changed: make(chan struct{}, 1)}
			k.known.add(created(t, yearly()))
			_, err := k.GetCertificate(nil)
			if !tc.wakes {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(k.changed).NotTo(Receive())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring("is not valid now")))
			g.Expect(k.changed).To(Receive())
		})
	}
}

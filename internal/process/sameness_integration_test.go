package process

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/espalier-dev/espalier/internal/config"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// connectByTwoAddresses connects to one API server as source and as target, with two different texts for its address, or to two API
// servers. The first reads of namespace kube-system fail as many times as given; later reads are allowed or forbidden.
func connectByTwoAddresses(
	t *testing.T, twoClusters bool, failures int32, forbidden bool,
) (*Clusters, *clocktesting.FakeClock, *atomic.Int32) {
	t.Helper()
	s := servers(t)
	g := NewWithT(t)
	target := s.Source
	if twoClusters {
		target = s.Target
	}
	t.Setenv("KUBECONFIG", adminFile(t, s.Source))
	second := strings.ReplaceAll(string(target.Kubeconfig), "127.0.0.1", "localhost")
	g.Expect(second).NotTo(Equal(string(target.Kubeconfig)))
	t.Setenv("TARGET_KUBECONFIG", writeFile(t, "second.kubeconfig", second))
	file := writeFile(t, "config.yaml", configIn("default", "targetClientConnection: {}\n"))
	_, setup, err := Load(gardener(), []string{"--config", file}, &lockedBuffer{}, config.ResourceManager)
	g.Expect(err).NotTo(HaveOccurred())
	setup.Config.Server.HealthProbes, setup.Config.Server.Metrics = nil, nil
	fake, asked := clocktesting.NewFakeClock(time.Now()), &atomic.Int32{}
	setup.Clock = fake
	setup.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if !strings.HasSuffix(request.URL.Path, "/namespaces/kube-system") {
				return next.RoundTrip(request)
			}
			if asked.Add(1) <= failures {
				return nil, errors.New("the API server is away")
			}
			if forbidden {
				body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`
				return &http.Response{
					StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
					Body: io.NopCloser(strings.NewReader(body)),
				}, nil
			}
			return next.RoundTrip(request)
		})
	}
	clusters, err := setup.Connect(t.Context(), Needs{})
	g.Expect(err).NotTo(HaveOccurred())
	return clusters, fake, asked
}

func TestOneClusterBehindTwoAddressesIsKnownAtStart(t *testing.T) {
	for name, twoClusters := range map[string]bool{"one cluster": false, "two clusters": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			clusters, _, asked := connectByTwoAddresses(t, twoClusters, 0, false)
			same, known := clusters.Same.Answer()
			g.Expect(known).To(BeTrue())
			g.Expect(same).To(Equal(!twoClusters))
			before := asked.Load()
			g.Expect(clusters.Same.Assume(t.Context())).To(Equal(!twoClusters))
			g.Expect(asked.Load()).To(Equal(before), "a known answer costs no request")
		})
	}
}

func TestGuardsAssumeOneClusterUntilTheAPIServerAnswers(t *testing.T) {
	for name, twoClusters := range map[string]bool{"one cluster": false, "two clusters": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			clusters, clock, asked := connectByTwoAddresses(t, twoClusters, 2, false)
			_, known := clusters.Same.Answer()
			g.Expect(known).To(BeFalse())
			g.Expect(clusters.Same.Assume(t.Context())).To(BeTrue())
			g.Expect(asked.Load()).To(BeEquivalentTo(1), "it has just failed")
			_, err := clusters.Same.Ask(t.Context())
			g.Expect(err).To(MatchError(And(ContainSubstring("the API server is away"),
				ContainSubstring("both must let this process get namespace kube-system"))))

			clock.Step(samenessPause)
			g.Expect(clusters.Same.Assume(t.Context())).To(BeTrue(), "it fails again")
			clock.Step(samenessPause)
			same, err := clusters.Same.Ask(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(same).To(Equal(!twoClusters))
			_, known = clusters.Same.Answer()
			g.Expect(known).To(BeTrue())
		})
	}
}

func TestACanceledQuestionStaysOpen(t *testing.T) {
	g := NewWithT(t)
	clusters, clock, _ := connectByTwoAddresses(t, true, 1, false)
	clock.Step(samenessPause)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	g.Expect(clusters.Same.Assume(canceled)).To(BeTrue())
	clock.Step(samenessPause)
	g.Expect(clusters.Same.Assume(t.Context())).To(BeFalse())
}

func TestClustersWhoseKubeSystemIsForbiddenAreDistinguishedByTheirTokenKeys(t *testing.T) {
	for name, twoClusters := range map[string]bool{"one cluster": false, "two clusters": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			clusters, _, _ := connectByTwoAddresses(t, twoClusters, 0, true)
			same, known := clusters.Same.Answer()
			g.Expect(known).To(BeTrue())
			g.Expect(same).To(Equal(!twoClusters))
		})
	}
}

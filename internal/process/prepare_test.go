package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/espalier-dev/espalier/internal/config"
)

func TestAwaitRepeatsOnlyWhileAServerIsAway(t *testing.T) {
	away, refused := apierrors.NewServiceUnavailable("away"), errors.New("refused")
	for name, tc := range map[string]struct {
		patience time.Duration
		answers  []error
		want     error
		asked    int
	}{
		"an answer":                {answers: []error{nil}, asked: 1},
		"a server that comes back": {patience: time.Minute, answers: []error{away, away, nil}, asked: 3},
		"another error":            {patience: time.Minute, answers: []error{away, refused}, want: refused, asked: 2},
		"without patience":         {answers: []error{away, nil}, want: away, asked: 1},
		"a server that stays away": {patience: 2 * time.Second, answers: []error{away, away, away, nil}, want: away, asked: 3},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			clock := testingclock.NewFakeClock(time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC))
			setup := &Setup{Patience: tc.patience, Clock: clock, Log: logr.Discard()}
			asked, ended := 0, make(chan error, 1)
			go func() {
				ended <- setup.Await(t.Context(), func(context.Context) error {
					asked++
					return tc.answers[asked-1]
				})
			}()
			var err error
			g.Eventually(func() bool {
				if clock.HasWaiters() {
					clock.Step(time.Second)
				}
				select {
				case err = <-ended:
					return true
				default:
					return false
				}
			}).Should(BeTrue())
			if tc.want == nil {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(tc.want))
			}
			g.Expect(asked).To(Equal(tc.asked))
		})
	}
}

func TestAProcessThatWaitsAnswersItsLivenessProbeOnly(t *testing.T) {
	g := NewWithT(t)
	port := freePort(t)
	setup := &Setup{Config: config.Process{Server: config.Server{HealthProbes: &config.Endpoint{BindAddress: "127.0.0.1", Port: port}}}}
	status := func(path string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(port)+path, http.NoBody)
		g.Expect(err).NotTo(HaveOccurred())
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0
		}
		g.Expect(response.Body.Close()).To(Succeed())
		return response.StatusCode
	}
	stop, err := setup.AnswerPing(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect([]int{status("/healthz/ping"), status("/readyz")}).To(Equal([]int{http.StatusOK, http.StatusNotFound}))
	_, err = setup.AnswerPing(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("another process listens there")))
	stop()
	g.Expect(status("/healthz/ping")).To(BeZero(), "the port is free for the manager")
}

func TestAnEndErrorIsNoFailure(t *testing.T) {
	g, out := NewWithT(t), &bytes.Buffer{}
	g.Expect(report(out, fmt.Errorf("run: %w", &EndError{Reason: "it has another certificate"}))).To(Equal(0))
	g.Expect(out.String()).To(Equal("Ended: it has another certificate\n"))
}

func TestCredentialsOfTheTargetMayComeFromElsewhere(t *testing.T) {
	g := NewWithT(t)
	setup := &Setup{
		Program: Program{Name: "gardener", Source: "seed", Target: "garden"}, Log: logr.Discard(),
		Config:            config.Process{Target: &config.ClientConnection{QPS: 5, Burst: 6}},
		TargetCredentials: &Credentials{Config: &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "a"}, Origin: "Secret a/b"},
	}
	connection, err := setup.ConnectTarget(runtime.NewScheme())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(connection.Config.Host).To(Equal("https://127.0.0.1:1"))
	g.Expect(connection.Config.QPS).To(BeEquivalentTo(5), "with the settings of the connection")
	g.Expect(connection.Config.UserAgent).To(Equal("espalier-gardener/gardener/" + Version))
	g.Expect(setup.targetSide().explain(errors.New("it broke"))).To(MatchError("connect to garden cluster: it broke; check Secret a/b"))

	setup.Config.Target.Kubeconfig = "/does/not/exist"
	_, err = setup.ConnectTarget(runtime.NewScheme())
	g.Expect(err).To(MatchError(And(
		ContainSubstring("read kubeconfig"), ContainSubstring("gardenClientConnection.kubeconfig or GARDEN_KUBECONFIG"),
	)))
}

package requestor_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/espalier-dev/espalier/internal/token/digest"
	"github.com/espalier-dev/espalier/internal/token/requestor"
	"github.com/espalier-dev/espalier/test/binary"
)

// upToDate stands for the cache of Secrets: it returns digests, never waits, and is never behind.
type upToDate struct{ client.Reader }

func (c upToDate) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	full := &corev1.Secret{}
	if err := c.Reader.Get(context.WithoutCancel(ctx), key, full, options...); err != nil {
		return err
	}
	stripped, err := digest.Strip(full)
	secret, isSecret := stripped.(*corev1.Secret)
	if into, ok := object.(*corev1.Secret); ok && isSecret {
		secret.DeepCopyInto(into)
	}
	return err
}

// unwritable refuses patches while it is broken.
type unwritable struct {
	client.Client
	broken bool
}

func (c *unwritable) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if c.broken {
		return errors.New("the line is dead")
	}
	return c.Client.Patch(ctx, object, patch, options...)
}

// direct returns a reconciler whose Reconcile the test calls itself, and the Events that it sends.
func (s *scene) direct(now time.Time) (r *requestor.Reconciler, reported chan string) {
	recorder, clock, memory := events.NewFakeRecorder(10), clocktesting.NewFakeClock(now), requestor.NewMemory()
	return &requestor.Reconciler{
		Secrets: upToDate{s.Source}, Source: s.Source, Target: s.Target, TargetAccounts: s.Target,
		SameCluster: func(context.Context) (bool, error) { return false, nil },
		CA:          func() ([]byte, error) { return nil, nil },
		Clock:       clock, Spread: requestor.NewSpread(0), Memory: memory,
		Events:  &requestor.Events{Recorder: recorder},
		Metrics: requestor.NewMetrics(prometheus.NewRegistry(), clock, memory),
	}, recorder.Events
}

func (s *scene) reconcile(ctx context.Context, r *requestor.Reconciler, name string) error {
	_, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: key(s.Namespace, name)})
	return err
}

func TestATargetThatIsMendedGetsItsToken(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	for name, tc := range map[string]struct {
		modify func(*corev1.Secret)
		want   string
	}{
		"immutable": {func(secret *corev1.Secret) { secret.Immutable = ptr.To(true) }, "it is immutable"},
		"broken":    {with("kubeconfig", "{}"), "kubeconfig has no current-context"},
	} {
		target := s.secret("target-of-"+name, tc.modify)
		s.Expect(s.Target.Create(s.Ctx, target)).To(Succeed())
		s.create(s.secret(name, targeted(s.Namespace, target.Name)))
		s.Eventually(s.reported(name)).Should(ContainElement(ContainSubstring(tc.want)), name)
		s.Expect(s.Target.Delete(s.Ctx, target)).To(Succeed())
		s.Eventually(func() map[string][]byte { return s.readFrom(s.Target, s.Namespace, target.Name).Data }).Should(HaveKey("token"), name)
	}
}

func TestASecretIsNotItsOwnTargetEvenIfTheClustersSeemTwo(t *testing.T) {
	for name, renewAt := range map[string]string{"at first": "", "later": in(time.Hour)} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, binary.Options{Stopped: true})
			s.create(s.secret("a", annotated(renewKey, renewAt), targeted(s.Namespace, "a"), with("other", "x")))
			r, _ := s.direct(time.Now())
			err := s.reconcile(s.Ctx, r, "a")
			s.Expect(err).To(MatchError(ContainSubstring("name this very Secret")))
			s.Expect(err).To(MatchError(reconcile.TerminalError(nil)))
			s.Expect(s.read("a").Data).To(Equal(map[string][]byte{"other": []byte("x")}))
		})
	}
}

func TestATokenThatSeemsExpiredIsNotWritten(t *testing.T) {
	s := newScene(t, binary.Options{Stopped: true})
	s.create(s.secret("a"))
	r, reported := s.direct(time.Now().Add(13 * time.Hour))
	for range 2 {
		err := s.reconcile(s.Ctx, r, "a")
		s.Expect(err).To(MatchError(ContainSubstring("set both clocks right")))
		s.Expect(err).NotTo(MatchError(reconcile.TerminalError(nil)))
	}
	s.Expect(reported).To(HaveLen(1), "the text is the same each time")
	s.Expect(s.read("a").Data).To(BeEmpty())
	s.Expect(s.read("a").Annotations).NotTo(HaveKey(renewKey))
}

func TestAKeptTokenOfADeletedAccountIsNotWritten(t *testing.T) {
	s := newScene(t, binary.Options{Stopped: true})
	s.create(s.secret("a"))
	r, _ := s.direct(time.Now())
	line := &unwritable{s.Source, true}
	r.Source = line
	s.Expect(s.reconcile(s.Ctx, r, "a")).To(MatchError(ContainSubstring("the line is dead")))
	s.Expect(s.Target.Delete(s.Ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "a"}})).To(Succeed())
	line.broken = false
	s.Expect(s.reconcile(s.Ctx, r, "a")).To(Succeed())
	s.Expect(s.answers(s.token("a", ""))).To(Equal(http.StatusForbidden))
}

func TestRequestThatTakesTooLongIsReported(t *testing.T) {
	s := newScene(t, binary.Options{Stopped: true})
	s.create(s.secret("a"))
	r, reported := s.direct(time.Now())
	ended, cancel := context.WithCancel(s.Ctx)
	cancel()
	s.Expect(s.reconcile(ended, r, "a")).NotTo(Succeed())
	s.Expect(reported).To(BeEmpty(), "the process ends, and the next one tells")
	late, cancel := context.WithTimeout(s.Ctx, 0)
	defer cancel()
	s.Expect(s.reconcile(late, r, "a")).NotTo(Succeed())
	s.Expect(reported).To(Receive(ContainSubstring("deadline")))
}

func TestForeignTextIsCut(t *testing.T) {
	s := newScene(t, binary.Options{Stopped: true})
	s.create(s.secret("a", annotated(namespaceKey, strings.Repeat("é", 20000))))
	r, reported := s.direct(time.Now())
	r.Limits.TargetNamespaces = []string{"x"}
	err := s.reconcile(s.Ctx, r, "a")
	s.Expect(err).To(MatchError(reconcile.TerminalError(nil)))
	s.Expect(len(err.Error())).To(BeNumerically("<", 1100))
	note := ""
	s.Expect(reported).To(Receive(&note))
	s.Expect(len(note)).To(BeNumerically("<", 1100))
	s.Expect(note).To(And(ContainSubstring("ServiceAccount é"), HaveSuffix("é…")))
}

func TestFieldsThatKeepClientsFromUsingTheTokenAreRemovedWithAnEvent(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	s.create(s.secret("a", annotated(injectKey, "true"), with("kubeconfig", `{apiVersion: v1, kind: Config, current-context: x,
clusters: [{name: c, cluster: {server: "https://api.example.com", insecure-skip-tls-verify: true}}],
contexts: [{name: x, context: {cluster: c, user: u}}], users: [{name: u, user: {tokenFile: /var/run/token}}]}`)))
	s.Eventually(s.reported("a")).Should(ContainElement(And(
		ContainSubstring("KubeconfigFieldsRemoved"), ContainSubstring(": insecure-skip-tls-verify, tokenFile"))))
	config, err := clientcmd.RESTConfigFromKubeConfig(s.read("a").Data["kubeconfig"])
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(config.BearerToken).NotTo(BeEmpty())
	s.Expect(config.BearerTokenFile).To(BeEmpty())
}

func TestNoTokenIsRequestedForAKubeconfigThatCannotHoldTheAuthority(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	s.create(s.secret("a", annotated(injectKey, "true"), with("kubeconfig", `{apiVersion: v1, kind: Config, current-context: x,
contexts: [{name: x, context: {cluster: gone, user: u}}], users: [{name: u, user: {}}]}`)))
	s.Eventually(s.reported("a")).Should(ContainElement(ContainSubstring(`kubeconfig has no cluster "gone"`)))
	s.Expect(s.tokenRequests()).To(BeZero())
}

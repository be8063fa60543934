package together_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/admissiontest"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
	"github.com/espalier-dev/espalier/test/binary"
)

// selfManaged is the name of the Secret, the Lease and the webhook configurations.
const (
	selfManaged = "espalier-webhook-server"
	ownSpace    = "espalier-system"
)

// rotating is a webhook server whose authority is valid for a minute. It replaces a certificate when a third of the validity is left, so a
// busy machine can be late by some seconds.
type rotating struct {
	*binary.Env
	url string

	mu     sync.Mutex
	bundle string
	client *http.Client
	// bundles counts the changes of the bundle.
	bundles int
}

func newRotating(t *testing.T) *rotating {
	t.Helper()
	port := admissiontest.FreePort(t)
	r := &rotating{url: "https://127.0.0.1:" + strconv.Itoa(port)}
	r.Env = binary.New(t, webhooktest.Binary(), binary.Options{
		Config: "webhooks: {seccompProfile: {enabled: true}}\nespalier: {webhooks: {selfManaged: {url: '" + r.url + "'}}}\n",
		Configure: func(cfg *config.ResourceManagerConfiguration) {
			cfg.LeaderElection.ResourceNamespace = ownSpace
			cfg.Server.Webhooks.BindAddress, cfg.Server.Webhooks.Port = "127.0.0.1", port
			cfg.Espalier.Webhooks.SelfManaged.AuthorityValidity.Duration = time.Minute
			cfg.Espalier.Webhooks.SelfManaged.CertificateValidity.Duration = 45 * time.Second
		},
	})
	t.Cleanup(func() {
		r.Stop()
		for _, object := range []client.Object{
			&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: selfManaged}},
			&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: selfManaged}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ownSpace, Name: selfManaged}},
		} {
			if err := r.Target.Delete(context.WithoutCancel(t.Context()), object); err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("clean up: %v", err)
			}
		}
	})
	return r
}

// trusting returns a client that trusts only the bundle that look read last from the webhook configuration.
func (r *rotating) trusting() *http.Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.client
}

// look reads the bundle. Clients from trusting open a new connection after it, and so verify the current certificate.
func (r *rotating) look() error {
	found := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := r.Target.Get(r.Ctx, client.ObjectKey{Name: selfManaged}, found); err != nil {
		return err
	}
	if len(found.Webhooks) == 0 { // the configuration is created before it gets its webhooks
		return errors.New("there is no webhook yet")
	}
	bundle := string(found.Webhooks[0].ClientConfig.CABundle)
	fresh := admissiontest.Client(r.T, []byte(bundle))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client != nil {
		r.client.CloseIdleConnections()
	}
	if bundle != r.bundle {
		r.bundles++
	}
	r.bundle, r.client = bundle, fresh
	return nil
}

// rate returns the number of reviews per second: the value of ESPALIER_ROTATION_RATE, or a number that a busy machine can send with the
// race detector.
func rate(t *testing.T) int {
	t.Helper()
	text := os.Getenv("ESPALIER_ROTATION_RATE")
	if text == "" {
		return 50
	}
	found, err := strconv.Atoi(text)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return found
}

func TestRotationUnderLoadFailsNoRequest(t *testing.T) {
	r := newRotating(t)
	r.Eventually(r.look, binary.Patience, "50ms").Should(Succeed())
	r.Eventually(func() error { return createOne(r.Ctx, r.Target, r.Namespace) }, binary.Patience, "50ms").Should(Succeed())
	direct := post(t, r.url+"/webhooks/seccomp-profile", rate(t), r.trusting)
	through := create(t, r.Target, r.Namespace, 1, 50*time.Millisecond)
	// Each rotation of the authority changes the bundle twice: the new authority is added, and later the old one is removed.
	r.Eventually(func() int {
		r.Expect(r.look()).To(Succeed())
		return r.bundles
	}, loadPatience, 100*time.Millisecond).Should(BeNumerically(">=", 3))
	for name, l := range map[string]*load{"posted": direct, "through the API server": through} {
		asked, failed := l.end()
		t.Logf("%s: %d requests, %d failed, while the bundle changed %d times", name, asked, failed, r.bundles-1)
		r.Expect(asked).To(BeNumerically(">", 0))
		r.Expect(failed).To(BeZero(), "%v", l.failures)
	}
}

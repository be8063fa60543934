package lifecycle_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/test/binary"
)

// gardenlet does the operations of a Seed, and the work of the controllers of the virtual cluster for it.
type gardenlet struct {
	s       *scene
	virtual client.WithWatch
	seed    client.Object
	// certifies returns false if the gardenlet must not request a certificate.
	certifies func() bool

	mu         sync.Mutex
	operations []string
}

// done returns the operations so far.
func (g *gardenlet) done() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string{}, g.operations...)
}

// start does operations until the returned function is called.
func (g *gardenlet) start() (stop func()) {
	ctx, cancel := context.WithCancel(g.s.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			g.work(ctx)
			time.Sleep(20 * time.Millisecond)
		}
	})
	return func() { cancel(); running.Wait() }
}

func (g *gardenlet) work(ctx context.Context) {
	seed := &unstructured.Unstructured{}
	seed.SetGroupVersionKind(g.seed.GetObjectKind().GroupVersionKind())
	if g.virtual.Get(ctx, client.ObjectKeyFromObject(g.seed), seed) != nil {
		return
	}
	operation := seed.GetAnnotations()["gardener.cloud/operation"]
	if operation == "" {
		return
	}
	g.mu.Lock()
	g.operations = append(g.operations, operation)
	g.mu.Unlock()
	if operation == "renew-kubeconfig" && g.certifies() {
		g.certify(ctx)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"gardener.cloud/operation":null}}}`))
	_ = g.virtual.Patch(ctx, seed, patch)
}

// certify gets a client certificate, which the newest authority signs.
func (g *gardenlet) certify(ctx context.Context) {
	newest := corev1.Secret{}
	for _, each := range g.s.secrets("ca-client") {
		if each.Labels["issued-at-time"] >= newest.Labels["issued-at-time"] {
			newest = each
		}
	}
	authority, err := tls.X509KeyPair(newest.Data["ca.crt"], newest.Data["ca.key"])
	g.s.Expect(err).NotTo(HaveOccurred())
	keys, err := keyPool()
	g.s.Expect(err).NotTo(HaveOccurred())
	subject := pkix.Name{CommonName: "gardener.cloud:system:seed:" + g.seed.GetName(), Organization: []string{"gardener.cloud:system:seeds"}}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, keys[0])
	g.s.Expect(err).NotTo(HaveOccurred())
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "seed-csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}),
			SignerName: "test.local/none", Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}
	g.s.Expect(g.virtual.Create(ctx, csr)).To(Succeed())
	g.s.t.Cleanup(func() { g.s.Expect(g.virtual.Delete(context.WithoutCancel(ctx), csr)).To(Succeed()) })
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
		{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"},
	}
	g.s.Expect(g.virtual.SubResource("approval").Update(ctx, csr)).To(Succeed())
	issued, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: subject, NotAfter: time.Now().Add(time.Hour),
	}, authority.Leaf, &keys[0].PublicKey, authority.PrivateKey)
	g.s.Expect(err).NotTo(HaveOccurred())
	csr.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issued})
	g.s.Expect(g.virtual.Status().Update(ctx, csr)).To(Succeed())
}

// transport answers requests.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// publishAuthorities shows the operator the authorities of the Garden where kube-controller-manager publishes them in the virtual cluster.
// In the virtual cluster of tests, kube-controller-manager publishes those of the test servers.
func (s *scene) publishAuthorities() {
	s.t.Helper()
	s.virtual = rest.CopyConfig(s.virtual)
	s.virtual.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			if !strings.HasSuffix(r.URL.Path, "/namespaces/gardener-system-public/configmaps/kube-root-ca.crt") {
				return next.RoundTrip(r)
			}
			published := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{}}
			for _, each := range s.secrets("ca") {
				published.Data["ca.crt"] += string(each.Data["ca.crt"])
			}
			answer := httptest.NewRecorder()
			answer.Header().Set("Content-Type", "application/json")
			err := json.NewEncoder(answer).Encode(published)
			return answer.Result(), err
		})
	})
	s.reconciler.Connection.Forget()
}

// copyMonitoring puts the credentials of global monitoring into namespaces of the virtual cluster, as its resource manager and
// gardener-controller-manager do.
func (s *scene) copyMonitoring(ctx context.Context, virtual client.Client) {
	for key, manifest := range s.contents("global-monitoring-virtual") {
		secret := &corev1.Secret{}
		s.Expect(yaml.Unmarshal(manifest, secret)).To(Succeed(), key)
		for _, namespace := range []string{"garden", "seed-local"} {
			o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
			s.Expect(client.IgnoreAlreadyExists(virtual.Create(ctx, o))).To(Succeed())
			all := &corev1.SecretList{}
			s.Expect(virtual.List(ctx, all, client.InNamespace(namespace))).To(Succeed())
			for i := range all.Items {
				if all.Items[i].Name != secret.Name {
					s.Expect(virtual.Delete(ctx, &all.Items[i])).To(Succeed())
				}
			}
			secret.Namespace, secret.ResourceVersion = namespace, ""
			s.Expect(client.IgnoreAlreadyExists(virtual.Create(ctx, secret))).To(Succeed())
		}
	}
}

func TestRotationsRenewTheCredentialsOfSeeds(t *testing.T) {
	s := newInstalledScene(t)
	virtual := s.connect(s.virtual, nil)
	s.serve(virtual, alwaysEncrypted())
	s.copyMonitoring(t.Context(), virtual)
	t.Cleanup(func() {
		for _, namespace := range []string{"garden", "seed-local"} {
			s.Expect(virtual.DeleteAllOf(context.WithoutCancel(t.Context()), &corev1.Secret{}, client.InNamespace(namespace))).To(Succeed())
		}
	})
	s.publishAuthorities()
	former := s.secrets("global-observability-ingress")[0]
	g := &gardenlet{s: s, virtual: virtual, seed: s.createSeed(virtual), certifies: func() bool { return true }}
	stop := g.start()
	s.edit(annotated("gardener.cloud/operation", "rotate-credentials-start"))
	s.clock.SetTime(start.Add(time.Hour))
	ended := make(chan error, 1)
	go func() {
		_, err := s.reconcile()
		ended <- err
	}()
	s.Eventually(func() []corev1.Secret { return s.secrets("global-observability-ingress") }, binary.Patience).
		Should(ContainElement(HaveField("Name", Not(Equal(former.Name)))))
	s.Eventually(g.done, binary.Patience).Should(Equal([]string{
		"renew-garden-access-secrets", "renew-workload-identity-tokens", "renew-kubeconfig",
	}))
	s.Consistently(ended, "100ms").ShouldNot(Receive(), "the namespace of the Seed has the former password")
	s.copyMonitoring(t.Context(), virtual)
	var err error
	s.Eventually(ended, binary.Patience).Should(Receive(&err))
	s.Expect(err).NotTo(HaveOccurred())
	s.Eventually(g.done, binary.Patience).Should(HaveExactElements(
		"renew-garden-access-secrets", "renew-workload-identity-tokens", "renew-kubeconfig", "reconcile",
	))
	phases := rotation.PhasesOf(s.get())
	delete(phases, rotation.ETCDEncryptionKey) // it completes by itself
	s.Expect(phases).To(And(HaveLen(3), HaveEach(operatorv1alpha1.RotationPrepared)))
	observability := s.get().Status.Credentials.Rotation.Observability
	s.Expect(observability.LastInitiationTime).NotTo(BeNil())
	s.Expect(observability.LastCompletionTime).NotTo(BeNil())
	s.Expect(s.secrets("global-observability-ingress")).To(ConsistOf(HaveField("Data", Not(Equal(former.Data)))))

	// An attempt that repeats the preparation, as after a failure of a later task, does not trouble the Seeds again.
	stop()
	again := s.get()
	before := again.DeepCopy()
	for _, each := range []*string{
		(*string)(&again.Status.Credentials.Rotation.CertificateAuthorities.Phase),
		(*string)(&again.Status.Credentials.Rotation.ServiceAccountKey.Phase),
		(*string)(&again.Status.Credentials.Rotation.WorkloadIdentityKey.Phase),
	} {
		*each = "Preparing"
	}
	s.Expect(s.admin.Status().Patch(t.Context(), again, client.MergeFrom(before))).To(Succeed())
	s.mustReconcile()
	s.Expect(g.done()).To(HaveLen(4))

	s.edit(annotated("gardener.cloud/operation", "rotate-credentials-complete"))
	s.mustReconcile()
	s.Expect(rotation.PhasesOf(s.get())).To(And(HaveLen(4), HaveEach(operatorv1alpha1.RotationCompleted)))
	s.Expect(g.done()).To(HaveLen(4), "the completion needs nothing of Seeds")
}

// A gardenlet that removes the annotation has not necessarily got a certificate.
func TestRotationIsNotPreparedBeforeSeedsHaveNewCertificates(t *testing.T) {
	s := newInstalledScene(t)
	s.reconciler.Timing.Virtual.Seeds = time.Second
	virtual := s.connect(s.virtual, nil)
	certifies := false
	g := &gardenlet{s: s, virtual: virtual, seed: s.createSeed(virtual), certifies: func() bool { return certifies }}
	s.edit(annotated("gardener.cloud/operation", "rotate-ca-start"))
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("kube-controller-manager has not published the new certificate authorities in ConfigMap " +
		"gardener-system-public/kube-root-ca.crt of the virtual cluster yet")))
	s.publishAuthorities()
	_, err = s.reconcile()
	s.Expect(err).To(MatchError(And(
		ContainSubstring(`renewing "gardenlet kubeconfig" secrets for seed "local" is not yet completed: its gardenlet has not removed the `+
			`annotation gardener.cloud/operation=renew-kubeconfig`),
		ContainSubstring("espalier.dev/skipped-checks=seeds"),
	)))
	s.Expect(s.get().Status.Credentials.Rotation.CertificateAuthorities.Phase).To(BeEquivalentTo("Preparing"))

	stop := g.start()
	_, err = s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("the new certificate authority has signed no client certificate of its gardenlet")))
	s.Expect(s.get().Status.Credentials.Rotation.CertificateAuthorities.Phase).To(BeEquivalentTo("Preparing"))
	stop()

	certifies, s.reconciler.Timing.Virtual.Seeds = true, binary.Patience
	stop = g.start()
	defer stop()
	s.mustReconcile()
	s.Expect(s.get().Status.Credentials.Rotation.CertificateAuthorities.Phase).To(BeEquivalentTo("Prepared"))
}

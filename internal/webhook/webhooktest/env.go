package webhooktest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook"
	"github.com/espalier-dev/espalier/internal/webhook/registrations"
	"github.com/espalier-dev/espalier/test/binary"
)

// Options say what is served and registered.
type Options struct {
	// Webhooks is the content of the section webhooks, as YAML in one line or several: "seccompProfile: {enabled: true}".
	Webhooks string
	// Controllers is the content of the section controllers, which validation of tokenInvalidator asks for.
	Controllers string
	// Settings is the content of the section espalier.webhooks.
	Settings string
	// Flavor is that of the registrations; empty: gardener-runtime. Their selector of namespaces selects the test's alone.
	Flavor string
	// Register changes what is registered; nil registers all that is enabled.
	Register func([]registration.Webhook) []registration.Webhook
	// TwoClusters makes the target, whose API server calls the webhooks, a cluster of its own.
	TwoClusters bool
	// Unregistered leaves webhook configurations out: requests come from Post and Review alone.
	Unregistered bool
	// Configure changes the configuration.
	Configure func(*config.ResourceManagerConfiguration)
}

// Env is a running server that a real API server calls.
type Env struct {
	*binary.Env
	// URL is where the server listens: https://127.0.0.1:port.
	URL string
	// HTTP trusts the server.
	HTTP *http.Client
	// CertDir holds tls.crt and tls.key of the server; CA is what signed them, in PEM.
	CertDir string
	CA      []byte
}

// Binary is webhook-server.
func Binary() binary.Binary {
	return binary.Binary{Name: "webhook-server", Needs: webhook.Needs, Add: webhook.Add}
}

// New starts a server, registers its webhooks, and waits until they are called.
func New(t *testing.T, o Options) *Env {
	t.Helper()
	e := &Env{CertDir: t.TempDir()}
	port := FreePort(t)
	e.URL = "https://127.0.0.1:" + strconv.Itoa(port)
	e.CA = Certify(t, e.CertDir)
	e.HTTP = Client(t, e.CA)
	e.Env = binary.New(t, Binary(), binary.Options{
		Config: section("webhooks", o.Webhooks) + section("controllers", o.Controllers) + section("espalier", section("webhooks", o.Settings)),
		Configure: func(cfg *config.ResourceManagerConfiguration) {
			cfg.Server.Webhooks.BindAddress, cfg.Server.Webhooks.Port = "127.0.0.1", port
			cfg.Server.Webhooks.TLS.ServerCertDir = e.CertDir
			cfg.Espalier.Webhooks.ShutdownDelay = &metav1.Duration{}
			if o.Configure != nil {
				o.Configure(cfg)
			}
		},
		TwoClusters: o.TwoClusters,
	})
	e.awaitServer()
	if !o.Unregistered {
		e.Register(o)
	}
	return e
}

// section indents what belongs to a key.
func section(key, content string) string {
	if content == "" {
		return ""
	}
	lines := strings.Split(strings.TrimRight(content, "\n"), "\n")
	return key + ":\n  " + strings.Join(lines, "\n  ") + "\n"
}

func (e *Env) awaitServer() {
	e.T.Helper()
	e.Eventually(func() error {
		connection, err := (&net.Dialer{}).DialContext(e.Ctx, "tcp", strings.TrimPrefix(e.URL, "https://"))
		if err == nil {
			_ = connection.Close()
		}
		return err
	}, binary.Patience, 5*time.Millisecond).Should(Succeed())
}

// Register creates the webhook configurations of what the options enable, and waits until the API server has taken notice of
// them. New does so itself.
func (e *Env) Register(o Options) {
	e.T.Helper()
	flavor := o.Flavor
	if flavor == "" {
		flavor = config.FlavorGardenerRuntime
	}
	own := registrations.Own{Name: "gardener-resource-manager", URL: e.URL}
	declared := registrations.Enabled(flavor, e.Config.Webhooks, own)
	if o.Register != nil {
		declared = o.Register(declared)
	}
	here := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{e.Namespace}},
	}}
	for i := range declared {
		declared[i].Namespaces.Standard = true // nothing of other tests
	}
	built := registration.Configuration{Name: e.Namespace, Namespaces: here, Objects: registrations.StandardObjects(flavor), Client: registration.URL(e.URL, e.CA)}
	e.T.Cleanup(e.unregister)
	for _, each := range []registration.Type{registration.Mutating, registration.Validating} {
		all := slices.Concat(declared, []registration.Webhook{e.probe(each)})
		var object client.Object = built.Mutating(all...)
		if each == registration.Validating {
			object = built.Validating(all...)
		}
		e.Expect(e.Target.Create(e.Ctx, object)).To(Succeed())
	}
	for _, each := range []registration.Type{registration.Mutating, registration.Validating} {
		e.Eventually(func() error { return e.Target.Create(e.Ctx, e.asked(each), client.DryRunAll) }, binary.Patience, 10*time.Millisecond).
			Should(MatchError(ContainSubstring(probeName(each))))
	}
}

// probe is a webhook that nobody serves: the request that only it is asked about is refused as soon as the API server
// knows the configuration.
func (e *Env) probe(kind registration.Type) registration.Webhook {
	return registration.Webhook{
		Type: kind, Name: probeName(kind), Path: "/not-served",
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}},
		Namespaces: registration.Selection{Standard: true},
		Objects:    registration.Selection{Labels: metav1.LabelSelector{MatchLabels: map[string]string{"probe": probeName(kind)}}},
	}
}

func (e *Env) asked(kind registration.Type) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, GenerateName: "probe-", Labels: map[string]string{"probe": probeName(kind)}}}
}

func probeName(kind registration.Type) string {
	if kind == registration.Validating {
		return "validating.probe.example.com"
	}
	return "mutating.probe.example.com"
}

// unregister lets nothing of this test hold up the API server.
func (e *Env) unregister() {
	for _, object := range []client.Object{&admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}} {
		object.SetName(e.Namespace)
		if err := client.IgnoreNotFound(e.Target.Delete(context.Background(), object)); err != nil {
			e.T.Errorf("delete webhook configuration: %v", err)
		}
	}
}

// Fill puts the test's namespace in place of $NS.
func (e *Env) Fill(text string) string { return strings.ReplaceAll(text, "$NS", e.Namespace) }

// Object reads an object written as YAML. It is in the test's namespace unless it says otherwise.
func (e *Env) Object(text string) *unstructured.Unstructured {
	e.T.Helper()
	object := &unstructured.Unstructured{}
	e.Expect(yaml.Unmarshal([]byte(e.Fill(text)), &object.Object)).To(Succeed())
	if object.GetNamespace() == "" {
		object.SetNamespace(e.Namespace)
	}
	return object
}

// Create creates an object, written as YAML, in the cluster whose API server calls the webhooks, and returns it as it was
// stored, or why it was refused.
func (e *Env) Create(text string) (*unstructured.Unstructured, error) {
	e.T.Helper()
	object := e.Object(text)
	return object, e.Target.Create(e.Ctx, object)
}

// Update changes an object that exists by a JSON merge patch, and returns it as it was stored, or why it was refused.
func (e *Env) Update(object *unstructured.Unstructured, mergePatch string) (*unstructured.Unstructured, error) {
	e.T.Helper()
	changed := object.DeepCopy()
	return changed, e.Target.Patch(e.Ctx, changed, client.RawPatch("application/merge-patch+json", []byte(mergePatch)))
}

// AnnotateNamespace and LabelNamespace set a key of the test's namespace, nil removes it. A cluster-scoped change that
// API servers and the server's caches learn of a moment later.
func (e *Env) AnnotateNamespace(key string, value any) { e.patchNamespace("annotations", key, value) }

// LabelNamespace is described at AnnotateNamespace.
func (e *Env) LabelNamespace(key string, value any) { e.patchNamespace("labels", key, value) }

func (e *Env) patchNamespace(member, key string, value any) {
	e.T.Helper()
	document, err := json.Marshal(map[string]any{"metadata": map[string]any{member: map[string]any{key: value}}})
	e.Expect(err).NotTo(HaveOccurred())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Namespace}}
	e.Expect(e.Target.Patch(e.Ctx, namespace, client.RawPatch("application/merge-patch+json", document))).To(Succeed())
}

// Post sends a body to a path, as JSON, and returns the status of HTTP and the answer.
func (e *Env) Post(path, body string) (status int, answer string) {
	e.T.Helper()
	response, err := e.HTTP.Post(e.URL+path, "application/json", strings.NewReader(body)) //nolint:noctx // it ends with the server
	e.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	e.Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(content)
}

// Answer is what is in an AdmissionReview that comes back.
type Answer struct {
	Allowed   bool          `json:"allowed"`
	Status    metav1.Status `json:"status"`
	Patch     []byte        `json:"patch"`
	PatchType string        `json:"patchType"`
	Warnings  []string      `json:"warnings"`
}

// Review sends a request, written as YAML (the member request of an AdmissionReview without its uid), and returns the answer.
func (e *Env) Review(path, request string) Answer {
	e.T.Helper()
	members := map[string]any{}
	e.Expect(yaml.Unmarshal([]byte(e.Fill(request)), &members)).To(Succeed())
	members["uid"] = "1"
	body, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": members})
	e.Expect(err).NotTo(HaveOccurred())
	_, text := e.Post(path, string(body))
	found := struct {
		Response Answer `json:"response"`
	}{}
	e.Expect(json.NewDecoder(bytes.NewBufferString(text)).Decode(&found)).To(Succeed(), text)
	return found.Response
}

// Certify writes tls.crt and tls.key of a certificate for 127.0.0.1 into a folder, and returns who signed it.
func Certify(t *testing.T, dir string) []byte {
	t.Helper()
	g := NewWithT(t)
	pair, err := newPair("127.0.0.1")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(dir, "tls.crt"), pair.certificate, 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "tls.key"), pair.key, 0o600)).To(Succeed())
	return pair.certificate
}

// Client returns a client that trusts an authority and speaks HTTP/2, as API servers do.
func Client(t *testing.T, authority []byte) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	NewWithT(t).Expect(pool.AppendCertsFromPEM(authority)).To(BeTrue())
	return &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
}

// FreePort returns a port of loopback that nobody uses.
func FreePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	defer func() { _ = listener.Close() }()
	address, ok := listener.Addr().(*net.TCPAddr)
	NewWithT(t).Expect(ok).To(BeTrue(), listener.Addr().String())
	return address.Port
}

// Package webhooktest runs webhook-server for tests, with the server's own rights. It registers webhooks by which a real API server calls
// the server over TLS for the objects of one namespace.
//
//	e := webhooktest.New(t, webhooktest.Options{Webhooks: "seccompProfile: {enabled: true}"})
//	pod, err := e.Create(`{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}`)
//
// New waits until the API server calls the server. Review posts requests that no API server sends.
package webhooktest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/admission/admissiontest"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook"
	"github.com/espalier-dev/espalier/internal/webhook/handlers"
	"github.com/espalier-dev/espalier/internal/webhook/registrations"
	"github.com/espalier-dev/espalier/test/binary"
)

// Options are the configuration of the server and of its registration.
type Options struct {
	// Webhooks is the content of the section webhooks, as YAML in one line or several: "seccompProfile: {enabled: true}".
	Webhooks string
	// Controllers is the content of the section controllers, which the validation of tokenInvalidator requires.
	Controllers string
	// Settings is the content of the section espalier.webhooks.
	Settings string
	// Flavor is the flavour of the webhook configurations; empty: gardener-runtime. They always select only the namespace of the test.
	Flavor string
	// Unregistered is true if no webhook configurations are created: then the server gets requests only from Review.
	Unregistered bool
	// Configure modifies the configuration of the server.
	Configure func(*config.ResourceManagerConfiguration)
}

// Env is a running server that a real API server calls.
type Env struct {
	*binary.Env
	// URL is the address of the server: https://127.0.0.1:port.
	URL string
	// HTTP is a client that trusts the server.
	HTTP *http.Client
	// CertDir is the folder of the files tls.crt and tls.key of the server. CA is the authority that signed the certificate, in PEM.
	CertDir string
	CA      []byte
}

// Binary returns the binary webhook-server.
func Binary() binary.Binary {
	return binary.Binary{Name: "webhook-server", Needs: webhook.Needs, Add: webhook.Add}
}

// New starts a server, registers its webhooks, and waits until the API server calls them.
func New(t *testing.T, o Options) *Env {
	t.Helper()
	e := &Env{CertDir: t.TempDir()}
	port := admissiontest.FreePort(t)
	e.URL = "https://127.0.0.1:" + strconv.Itoa(port)
	e.CA = admissiontest.Certify(t, e.CertDir)
	e.HTTP = admissiontest.Client(t, e.CA)
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
	})
	admissiontest.AwaitServer(e.Ctx, t, strings.TrimPrefix(e.URL, "https://"), binary.Patience)
	if !o.Unregistered {
		e.Register(o)
	}
	return e
}

// section returns YAML with the key and the indented content.
func section(key, content string) string {
	if content == "" {
		return ""
	}
	lines := strings.Split(strings.TrimRight(content, "\n"), "\n")
	return key + ":\n  " + strings.Join(lines, "\n  ") + "\n"
}

// Register creates the webhook configurations of the enabled handlers, and waits until the API server calls them. New calls it.
func (e *Env) Register(o Options) {
	e.T.Helper()
	in := o.Flavor
	if in == "" {
		in = config.FlavorGardenerRuntime
	}
	own := registrations.Own{Name: "gardener-resource-manager", URL: e.URL}
	declared := registrations.Enabled(in, e.Config.Webhooks, own)
	here := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{e.Namespace}},
	}}
	for i := range declared {
		declared[i].Namespaces.Standard = true // no objects of other tests
	}
	built := registration.Configuration{
		Name: e.Namespace, Namespaces: here, Objects: handlers.StandardObjects(in), Client: registration.Server{URL: e.URL}.Client(e.CA),
	}
	e.T.Cleanup(e.unregister)
	declared = append(declared, admissiontest.Probe(registration.Mutating), admissiontest.Probe(registration.Validating))
	for _, object := range built.Both(declared...) {
		e.Expect(e.Target.Create(e.Ctx, object)).To(Succeed())
	}
	admissiontest.AwaitCalls(e.Ctx, e.T, e.Target, e.Namespace, binary.Patience)
}

// unregister deletes the webhook configurations, so that they do not affect other tests.
func (e *Env) unregister() {
	for _, object := range []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{},
	} {
		object.SetName(e.Namespace)
		if err := client.IgnoreNotFound(e.Target.Delete(context.Background(), object)); err != nil {
			e.T.Errorf("delete webhook configuration: %v", err)
		}
	}
}

// fill replaces $NS by the namespace of the test.
func (e *Env) fill(text string) string { return strings.ReplaceAll(text, "$NS", e.Namespace) }

// Object returns an object from YAML. It is in the namespace of the test unless the YAML names another.
func (e *Env) Object(text string) *unstructured.Unstructured {
	e.T.Helper()
	object := &unstructured.Unstructured{}
	e.Expect(yaml.Unmarshal([]byte(e.fill(text)), &object.Object)).To(Succeed())
	if object.GetNamespace() == "" {
		object.SetNamespace(e.Namespace)
	}
	return object
}

// Create creates an object from YAML in the cluster whose API server calls the webhooks. It returns the stored object, or the error of the
// API server.
func (e *Env) Create(text string) (*unstructured.Unstructured, error) {
	e.T.Helper()
	object := e.Object(text)
	return object, e.Target.Create(e.Ctx, object)
}

// Update changes an existing object by a JSON merge patch. It returns the stored object, or the error of the API server.
func (e *Env) Update(object *unstructured.Unstructured, mergePatch string) (*unstructured.Unstructured, error) {
	e.T.Helper()
	changed := object.DeepCopy()
	return changed, e.Target.Patch(e.Ctx, changed, client.RawPatch("application/merge-patch+json", []byte(mergePatch)))
}

// LabelNamespace sets a label of the test's namespace. Webhook selectors in API servers see the change a moment later.
func (e *Env) LabelNamespace(key, value string) {
	e.T.Helper()
	document, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{key: value}}})
	e.Expect(err).NotTo(HaveOccurred())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Namespace}}
	e.Expect(e.Target.Patch(e.Ctx, namespace, client.RawPatch("application/merge-patch+json", document))).To(Succeed())
}

// Answer is the response of an AdmissionReview.
type Answer struct {
	Allowed   bool          `json:"allowed"`
	Status    metav1.Status `json:"status"`
	Patch     []byte        `json:"patch"`
	PatchType string        `json:"patchType"`
	Warnings  []string      `json:"warnings"`
}

// Review posts a request, written as YAML (the member request of an AdmissionReview without its uid), and returns the response.
func (e *Env) Review(path, request string) Answer {
	e.T.Helper()
	members := map[string]any{}
	e.Expect(yaml.Unmarshal([]byte(e.fill(request)), &members)).To(Succeed())
	members["uid"] = "1"
	body, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": members})
	e.Expect(err).NotTo(HaveOccurred())
	response, err := e.HTTP.Post(e.URL+path, "application/json", bytes.NewReader(body)) //nolint:noctx // it ends with the server
	e.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	found := struct {
		Response Answer `json:"response"`
	}{}
	answer, err := io.ReadAll(response.Body)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(json.Unmarshal(answer, &found)).To(Succeed(), "%s: %s", response.Status, answer)
	return found.Response
}

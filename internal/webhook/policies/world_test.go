package policies_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/webhook/policies"
	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
	"github.com/espalier-dev/espalier/test/binary"
)

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }

// world is a cluster with all objects that the examples need. The examples send dry runs: nothing is stored.
type world struct {
	*WithT
	client.Client
	ctx                 context.Context
	namespace, disabled string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	g := NewWithT(t)
	servers := binary.Servers(t)
	scheme := runtime.NewScheme()
	g.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	quiet := rest.CopyConfig(servers.Source.Config)
	quiet.WarningHandlerWithContext = rest.NoWarnings{} // examples cause warnings
	c, err := client.New(quiet, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	w := &world{WithT: g, Client: c, ctx: t.Context()}
	w.namespace = w.newNamespace(nil)
	w.disabled = w.newNamespace(map[string]string{"apiserver-proxy.networking.gardener.cloud/inject": "disable"})
	for _, name := range []string{w.namespace, w.disabled, "kube-system"} {
		w.serviceAccounts(name)
	}
	webhooktest.InstallKinds(t)
	return w
}

func (w *world) newNamespace(labels map[string]string) string {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Labels: labels}}
	w.Expect(w.Create(w.ctx, namespace)).To(Succeed())
	return namespace.Name
}

func (w *world) serviceAccounts(namespace string) {
	for name, mounts := range map[string]*bool{"default": ptr.To(false), "opted-out": ptr.To(false), "mounting": ptr.To(true), "silent": nil} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, AutomountServiceAccountToken: mounts}
		err := w.Create(w.ctx, account)
		if apierrors.IsAlreadyExists(err) { // a controller creates the ServiceAccount default
			err = w.Patch(w.ctx, account, client.RawPatch("application/merge-patch+json", []byte(`{"automountServiceAccountToken":false}`)))
		}
		w.Expect(err).NotTo(HaveOccurred())
	}
}

// shipped returns the policies of a handler as hack/render writes them.
func (w *world) shipped(handler string) []client.Object {
	all := policies.All()
	i := slices.IndexFunc(all, func(p policies.Policy) bool { return p.Handler == handler })
	w.Expect(i).NotTo(Equal(-1), handler)
	return all[i].Objects
}

// neededValues returns the handlers whose shipped policies do nothing, because they need a setting, and a value for each in CEL.
func neededValues() map[string]string {
	return map[string]string{"pod-scheduler-name": "'bin-packing-scheduler'", "kubernetes-service-host": "'api.example.com'"}
}

// configured returns the policies of a handler with the settings that the examples expect. It applies the patches that
// docs/admission-policies.md describes.
func (w *world) configured(handler string) []client.Object {
	objects := w.shipped(handler)
	value, needed := neededValues()[handler]
	if !needed {
		return objects
	}
	encoded, err := json.Marshal(objects[0])
	w.Expect(err).NotTo(HaveOccurred())
	patch, err := jsonpatch.DecodePatch(fmt.Appendf(nil, `[{"op":"replace","path":"/spec/variables/0/expression","value":%q}]`, value))
	w.Expect(err).NotTo(HaveOccurred())
	encoded, err = patch.Apply(encoded)
	w.Expect(err).NotTo(HaveOccurred())
	policy := &unstructured.Unstructured{}
	w.Expect(json.Unmarshal(encoded, &policy.Object)).To(Succeed())
	return append([]client.Object{policy}, objects[1:]...)
}

// install creates policies, and deletes them at the end of the test.
func (w *world) install(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		w.Expect(w.Create(w.ctx, object)).To(Succeed())
		t.Cleanup(func() { w.Expect(w.Delete(context.WithoutCancel(w.ctx), object)).To(Succeed()) })
	}
}

// object returns an object of an example, from YAML and patched by a JSON patch, which may be empty.
func (w *world) object(e example, text, patch string) *unstructured.Unstructured {
	document, err := yaml.YAMLToJSON([]byte(strings.NewReplacer("$NAME", e.id, "$NS", w.namespace, "$DISABLED", w.disabled).Replace(text)))
	w.Expect(err).NotTo(HaveOccurred())
	if patch != "" {
		operations, err := jsonpatch.DecodePatch([]byte(patch))
		w.Expect(err).NotTo(HaveOccurred())
		document, err = operations.Apply(document)
		w.Expect(err).NotTo(HaveOccurred(), patch)
	}
	object := &unstructured.Unstructured{}
	w.Expect(json.Unmarshal(document, &object.Object)).To(Succeed())
	return object
}

// prepare creates the object that must exist before an example.
func (w *world) prepare(e example) {
	if e.before != "" {
		w.Expect(w.Create(w.ctx, w.object(e, e.before, ""))).To(Succeed(), e.name)
	}
}

// try sends the dry run of an example, with the object patched by a JSON patch, which may be empty. It returns the object that the API
// server would store.
func (w *world) try(e example, patch string) (string, error) {
	var object *unstructured.Unstructured
	var err error
	switch e.operation {
	case remove:
		object = w.object(e, e.before, "")
		return "", w.Delete(w.ctx, object, client.DryRunAll)
	case update:
		object = w.object(e, e.object, patch)
		err = w.Update(w.ctx, object, client.DryRunAll)
	case create:
		object = w.object(e, e.object, patch)
		err = w.Create(w.ctx, object, client.DryRunAll)
	}
	if err != nil {
		return "", err
	}
	return w.comparable(object), nil
}

// random matches names that API servers generate.
var random = regexp.MustCompile(`kube-api-access-[a-z0-9]{5}\b`)

// comparable returns an object as text, without the fields that differ between two equal requests.
func (w *world) comparable(object *unstructured.Unstructured) string {
	for _, each := range []string{"uid", "creationTimestamp", "resourceVersion", "managedFields", "generation"} {
		unstructured.RemoveNestedField(object.Object, "metadata", each)
	}
	text, err := yaml.Marshal(object.Object)
	w.Expect(err).NotTo(HaveOccurred())
	return random.ReplaceAllString(string(text), "kube-api-access-random")
}

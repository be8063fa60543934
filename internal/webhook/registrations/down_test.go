package registrations_test

import (
	"context"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/webhook/registrations"
	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }

// attempt is a user's request while the server is down.
type attempt struct {
	// object is the object in YAML. $NS is an ordinary namespace, $CONSIDERED one for which the high availability webhook is called, and
	// $OWN the namespace of the server.
	object string
	// existing is the operation on an existing object; empty: the object is created.
	existing string
	// refusedBy is the beginning of the name of the webhook because of which the request fails; empty: the request succeeds.
	refusedBy string
}

const (
	skipMount    = `projected-token-mount.resources.gardener.cloud/skip: ""`
	skipBoth     = skipMount + `, seccompprofile.resources.gardener.cloud/skip: ""`
	hashed       = skipBoth + ", pod-template-hash: abc"
	managedPod   = skipBoth + ", resources.gardener.cloud/managed-by: gardener"
	skipSpread   = `, topology-spread-constraints.resources.gardener.cloud/skip: ""`
	skipReplicas = `high-availability-config.resources.gardener.cloud/skip: ""`
)

func podIn(namespace, labels string) string {
	return "{apiVersion: v1, kind: Pod, metadata: {generateName: p-, namespace: " + namespace + ", labels: {" + labels +
		"}}, spec: {containers: [{name: c, image: i}]}}"
}

func workloadIn(namespace, kind, labels string) string {
	return "{apiVersion: apps/v1, kind: " + kind + ", metadata: {generateName: w-, namespace: " + namespace + ", labels: {" + labels + "}}, " +
		"spec: {serviceName: s, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, " +
		"image: i}]}}}}"
}

func scalerIn(namespace, labels string) string {
	return "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {generateName: h-, namespace: " + namespace + ", labels: {" +
		labels + "}}, " +
		"spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: w}}}"
}

func secretIn(namespace, labels string) string {
	return "{apiVersion: v1, kind: Secret, metadata: {generateName: s-, namespace: " + namespace + ", labels: {" + labels +
		"}}, data: {token: Zm9v}}"
}

func sliceIn(namespace, labels string) string {
	return "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {generateName: e-, namespace: " + namespace + ", labels: {" +
		labels + "}}, addressType: IPv4, endpoints: [{addresses: [10.0.0.1], zone: a}]}"
}

func extension(kind, name, namespace string) string {
	return "{apiVersion: extensions.gardener.cloud/v1alpha1, kind: " + kind + ", metadata: {name: " + name + ", namespace: " + namespace + "}}"
}

func definition(name, labels string) string {
	return "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: " + name + ".example.com, labels: {" +
		labels + "}, " +
		`annotations: {confirmation.gardener.cloud/deletion: "true"}}, spec: {group: example.com, scope: Namespaced, names: {kind: ` +
		strings.ToUpper(name) + ", plural: " + name + "}, " +
		"versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}"
}

func attempts() map[string]attempt {
	const purpose = "resources.gardener.cloud/purpose: token-invalidator"
	const hinted = `endpoint-slice-hints.resources.gardener.cloud/consider: "true"`
	return map[string]attempt{
		// All requests that are needed to start a cluster and the server again succeed.
		"a Pod in kube-system":                     {object: podIn("kube-system", managedPod)},
		"a Pod of the server, in its namespace":    {object: podIn("$OWN", "app: espalier-webhook-server")},
		"any Pod in the server's namespace":        {object: podIn("$OWN", "")},
		"a Deployment in the server's namespace":   {object: workloadIn("$OWN", "Deployment", "")},
		"a token Secret in the server's namespace": {object: secretIn("$OWN", purpose)},
		"a Pod of the server elsewhere": {
			object: podIn("$NS", "app: espalier-webhook-server, resources.gardener.cloud/managed-by: gardener"),
		},
		"a Pod of Gardener's resource manager":  {object: podIn("$NS", "app: gardener-resource-manager, pod-template-hash: a")},
		"a mirror of a static Pod":              {object: podIn("$NS", `static-pod: "true"`)},
		"a change of a Pod":                     {object: podIn("$NS", ""), existing: "change"},
		"the deletion of a Pod":                 {object: podIn("$NS", ""), existing: "delete"},
		"the scale of a Deployment":             {object: workloadIn("$CONSIDERED", "Deployment", ""), existing: "scale"},
		"the status of a Deployment":            {object: workloadIn("$CONSIDERED", "Deployment", ""), existing: "status"},
		"the deletion of a Deployment":          {object: workloadIn("$CONSIDERED", "Deployment", ""), existing: "delete"},
		"a Namespace":                           {object: "{apiVersion: v1, kind: Namespace, metadata: {generateName: n-}}"},
		"an object of a kind without a webhook": {object: "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: c-, namespace: $NS}}"},

		// Pods: users can bypass each handler that fails closed; the handlers of scheduler name and service host fail open.
		"a Pod":                            {object: podIn("$NS", ""), refusedBy: "projected-token-mount"},
		"a Pod that skips the token mount": {object: podIn("$NS", skipMount), refusedBy: "seccomp-profile"},
		"a Pod that skips the seccomp profile, too": {object: podIn("$NS", skipBoth)},
		"a Pod of a Deployment":                     {object: podIn("$NS", hashed), refusedBy: "pod-topology-spread-constraints"},
		"a Pod of a Deployment that skips that":     {object: podIn("$NS", hashed+skipSpread)},
		"a Pod of a ManagedResource":                {object: podIn("$NS", managedPod)},

		"a Deployment":            {object: workloadIn("$NS", "Deployment", "")},
		"a considered Deployment": {object: workloadIn("$CONSIDERED", "Deployment", ""), refusedBy: "high-availability-config"},
		"a change of a considered Deployment": {
			object: workloadIn("$CONSIDERED", "Deployment", ""), existing: "change", refusedBy: "high-availability-config",
		},
		"a considered StatefulSet":                {object: workloadIn("$CONSIDERED", "StatefulSet", ""), refusedBy: "high-availability-config"},
		"a considered autoscaler":                 {object: scalerIn("$CONSIDERED", ""), refusedBy: "high-availability-config"},
		"a considered Deployment that skips that": {object: workloadIn("$CONSIDERED", "Deployment", skipReplicas)},
		"a considered autoscaler that skips that": {object: scalerIn("$CONSIDERED", skipReplicas)},
		"a Secret":                            {object: secretIn("$NS", "")},
		"a static token that is looked after": {object: secretIn("$NS", purpose), refusedBy: "token-invalidator"},
		"a change of such a token":            {object: secretIn("$NS", purpose), existing: "change", refusedBy: "token-invalidator"},
		"the deletion of such a token":        {object: secretIn("$NS", purpose), existing: "delete"},
		"an EndpointSlice":                    {object: sliceIn("$NS", "")},
		"an EndpointSlice that wants hints":   {object: sliceIn("$NS", hinted), refusedBy: "endpoint-slice-hints"},
		"an extension resource":               {object: extension("Worker", "created", "$NS"), refusedBy: "validation.extensions.workers"},
		"a change of an extension resource": {
			object: extension("Worker", "changed", "$NS"), existing: "change", refusedBy: "validation.extensions.workers",
		},
		"the status of an extension resource":  {object: extension("Worker", "reported", "$NS"), existing: "status"},
		"an extension resource in kube-system": {object: extension("Worker", "created", "kube-system")},
		"the deletion of an extension resource": {
			object: extension("Worker", "deleted", "$NS"), existing: "delete", refusedBy: "cr-deletion-protection",
		},
		"the deletion of a Bastion":    {object: extension("Bastion", "deleted", "$NS"), existing: "delete"},
		"the deletion of a definition": {object: definition("as", ""), existing: "delete"},
		"the deletion of a protected definition": {
			object: definition("bs", `gardener.cloud/deletion-protected: "true"`), existing: "delete", refusedBy: "crd-deletion-protection",
		},
	}
}

// scene is a cluster whose API server calls a server that does not run.
type scene struct {
	*WithT
	client.Client
	ctx                    context.Context
	url                    string
	own, plain, considered string
}

// TestServerDownShippedWebhooksLetPassWhatTheyMust registers every handler in the flavour standalone, at an address at which no server
// listens.
func TestServerDownShippedWebhooksLetPassWhatTheyMust(t *testing.T) {
	s := newScene(t)
	all := attempts()
	existing := map[string]*unstructured.Unstructured{}
	for name, a := range all {
		if a.existing != "" {
			existing[name] = s.object(a.object)
			s.Expect(s.Create(s.ctx, existing[name])).To(Succeed(), name)
		}
	}
	own := registrations.Own{Name: "espalier-webhook-server", Namespace: s.own, URL: s.url}
	built := registrations.Configurations("standalone", registrations.Everything(), own)(nil)
	for _, object := range built {
		s.Expect(s.Create(s.ctx, object)).To(Succeed())
		t.Cleanup(func() { s.Expect(client.IgnoreNotFound(s.Delete(context.WithoutCancel(s.ctx), object))).To(Succeed()) })
	}
	for _, name := range []string{"a Pod", "an extension resource"} { // one webhook of each configuration
		s.Eventually(func() error { return s.do(all[name], nil) }, binary.Patience).ShouldNot(Succeed(), name)
	}
	for name, a := range all {
		t.Run(name, func(t *testing.T) {
			g, err := NewWithT(t), s.do(a, existing[name])
			if a.refusedBy == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(And(
				ContainSubstring(`failed calling webhook "`+a.refusedBy+`.resources.gardener.cloud": failed to call webhook: `),
				ContainSubstring("connect: connection refused"),
			)))
		})
	}
	t.Run("without the configurations everything works", func(t *testing.T) {
		g := NewWithT(t)
		for _, object := range built {
			g.Expect(s.Delete(s.ctx, object)).To(Succeed()) // no webhook may prevent this deletion
		}
		for name, a := range all {
			g.Eventually(func() error { return s.do(a, existing[name]) }, binary.Patience).Should(Succeed(), name)
		}
	})
}

func newScene(t *testing.T) *scene {
	t.Helper()
	g := NewWithT(t)
	servers := binary.Servers(t)
	scheme := runtime.NewScheme()
	g.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	quiet := rest.CopyConfig(servers.Source.Config)
	quiet.WarningHandlerWithContext = rest.NoWarnings{}
	c, err := client.New(quiet, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	s := &scene{WithT: g, Client: c, ctx: t.Context(), url: "https://" + closedAddress(t)}
	s.own, s.plain = s.namespace(nil), s.namespace(nil)
	s.considered = s.namespace(map[string]string{"high-availability-config.resources.gardener.cloud/consider": "true"})
	webhooktest.InstallKinds(t)
	for _, name := range []string{s.own, s.plain, s.considered, "kube-system"} { // otherwise Pods could not be created
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}}
		g.Expect(client.IgnoreAlreadyExists(s.Create(s.ctx, account))).To(Succeed())
	}
	return s
}

// closedAddress returns an address of this machine at which no server listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	port, release, err := local.FreePort()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(release)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

func (s *scene) namespace(labels map[string]string) string {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Labels: labels}}
	s.Expect(s.Create(s.ctx, namespace)).To(Succeed())
	return namespace.Name
}

func (s *scene) object(text string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	s.Expect(yaml.Unmarshal([]byte(strings.NewReplacer("$NS", s.plain, "$OWN", s.own, "$CONSIDERED", s.considered).Replace(text)),
		&object.Object)).To(Succeed())
	return object
}

// do sends the request of an attempt as a dry run.
func (s *scene) do(a attempt, existing *unstructured.Unstructured) error {
	touched := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"touched":"yes"}}}`))
	switch a.existing {
	case "change":
		return s.Patch(s.ctx, existing.DeepCopy(), touched, client.DryRunAll)
	case "status":
		report := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"observedGeneration":1}}`))
		return s.Status().Patch(s.ctx, existing.DeepCopy(), report, &client.SubResourcePatchOptions{
			PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}},
		})
	case "scale":
		scale := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":3}}`))
		body := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale"}}
		options := &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}, SubResourceBody: body}
		return s.SubResource("scale").Patch(s.ctx, existing.DeepCopy(), scale, options)
	case "delete":
		return s.Delete(s.ctx, existing.DeepCopy(), client.DryRunAll)
	}
	return s.Create(s.ctx, s.object(a.object), client.DryRunAll)
}

// Package managedresourcetest runs the ManagedResource controllers against the real API servers of a test run, under their own
// ServiceAccount and the roles that deploy/ ships. Only tests may use it.
package managedresourcetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// Patience is how long tests wait for an event that takes milliseconds on an idle machine.
const Patience = time.Minute

// Env is a source namespace, a target namespace of the same name, and a running controller that serves only that
// source namespace.
type Env struct {
	*WithT
	*binary.Runner
	T   *testing.T
	Ctx context.Context //nolint:containedctx // it is the context of the test, with the same lifetime
	// Namespace exists in source and target.
	Namespace string
	// Source and Target are administrators' clients without caches. They are the same if there is one cluster.
	Source, Target client.Client
	// Requests counts the requests of the controller.
	Requests *Requests
	Registry *prometheus.Registry
	Config   *config.ResourceManagerConfiguration

	connection connection
	clock      clock.WithTickerAndDelayedExecution
	log        logr.Logger
}

type connection struct{ source, target []byte }

// Options configure an Env.
type Options struct {
	// TwoClusters makes the target a separate cluster.
	TwoClusters bool
	// Configure changes the defaulted configuration; values below the limits of validation are allowed here.
	Configure func(*config.ResourceManagerConfiguration)
	// Stopped means that the controller is not started.
	Stopped bool
	// Clock is the clock of the controller; nil stands for the real one.
	Clock clock.WithTickerAndDelayedExecution
	// Log receives what the controller logs; nil for nothing.
	Log *binary.Log
}

// New prepares namespaces and rights, and starts the controller unless Stopped is set.
func New(t *testing.T, options Options) *Env {
	t.Helper()
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	needs, err := managedresource.Needs(&config.ResourceManagerConfiguration{})
	g.Expect(err).NotTo(HaveOccurred())
	e := &Env{WithT: g, T: t, Ctx: t.Context(), Requests: &Requests{}, clock: options.Clock}
	if options.Log != nil {
		e.log = options.Log.Logger()
	}
	e.Source = newClient(g, servers.Source.Config, needs)
	e.Target = e.Source
	if options.TwoClusters {
		e.Target = newClient(g, servers.Target.Config, needs)
	}
	e.createNamespaces(options.TwoClusters)
	e.connection.source = e.identity(e.Source, servers.Source.Config)
	if options.TwoClusters {
		e.connection.target = e.identity(e.Target, servers.Target.Config)
	}
	e.Config = e.configuration(options)
	e.Runner = e.runner()
	if !options.Stopped {
		e.Start()
	}
	t.Cleanup(e.Stop)
	return e
}

func newClient(g *WithT, config *rest.Config, needs process.Needs) client.Client {
	c, err := client.New(config, client.Options{Scheme: needs.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	return c
}

func (e *Env) createNamespaces(two bool) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "mr-"}}
	e.Expect(e.Source.Create(e.Ctx, namespace)).To(Succeed())
	e.Namespace = namespace.Name
	if two {
		e.Expect(e.Target.Create(e.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Namespace}})).To(Succeed())
	}
}

// identity creates the controller's ServiceAccount with the shipped roles and returns a kubeconfig for it.
func (e *Env) identity(c client.Client, admin *rest.Config) []byte {
	const name = "managedresource-controller"
	_, err := binary.Install(e.Ctx, c, "deploy/crds/*.yaml", "deploy/managedresource-controller/rbac/*.yaml",
		"deploy/managedresource-controller/*.yaml")
	e.Expect(err).NotTo(HaveOccurred())
	e.Eventually(func() error { return c.List(e.Ctx, &resourcesv1alpha1.ManagedResourceList{}) }).WithTimeout(Patience).Should(Succeed())
	e.Expect(c.Create(e.Ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}})).To(Succeed())
	for _, role := range []string{"source", "target-base", "target-builtin", "target-garbagecollector"} {
		e.Expect(c.Create(e.Ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: e.Namespace + "-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "espalier-managedresource-controller-" + role},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: e.Namespace, Name: name}},
		})).To(Succeed())
	}
	e.Expect(c.Create(e.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: e.Namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "espalier-managedresource-controller-cluster-identity"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: e.Namespace, Name: name}},
	})).To(Succeed())
	// Wait for the last right of each kind of binding: a process that lacks a right at its start exits.
	e.awaitRight(c, name, authorizationv1.ResourceAttributes{Group: "monitoring.coreos.com", Resource: "prometheuses", Verb: "list"})
	e.awaitRight(c, name, authorizationv1.ResourceAttributes{
		Namespace: "kube-system", Resource: "configmaps", Name: "cluster-identity",
		Verb: "get",
	})
	kubeconfig, err := local.ServiceAccountKubeconfig(e.Ctx, admin, e.Namespace, name, time.Hour)
	e.Expect(err).NotTo(HaveOccurred())
	return kubeconfig
}

func (e *Env) configuration(options Options) *config.ResourceManagerConfiguration {
	dir := e.T.TempDir()
	text := fmt.Sprintf(`apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
sourceClientConnection: {kubeconfig: %q, namespaces: [%s]}
leaderElection: {leaderElect: false}
`, e.write(dir, "source", e.connection.source), e.Namespace)
	if options.TwoClusters {
		text += fmt.Sprintf("targetClientConnection: {kubeconfig: %q}\n", e.write(dir, "target", e.connection.target))
	}
	cfg, _, err := config.ResourceManager([]byte(text))
	e.Expect(err).NotTo(HaveOccurred())
	cfg.Server.Metrics, cfg.Server.HealthProbes = nil, nil
	cfg.Controllers.ManagedResource.SyncPeriod = &metav1.Duration{Duration: 2 * time.Second}
	if options.Configure != nil {
		options.Configure(cfg)
	}
	if cfg.Controllers.GarbageCollector.Enabled && cfg.Controllers.GarbageCollector.SyncPeriod == nil {
		cfg.Controllers.GarbageCollector.SyncPeriod = &metav1.Duration{Duration: time.Hour} // it has no default while disabled
	}
	return cfg
}

func (e *Env) write(dir, name string, content []byte) string {
	file := filepath.Join(dir, name+".kubeconfig")
	e.Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
	return file
}

// runner returns the runner that starts the controller for this Env.
func (e *Env) runner() *binary.Runner {
	return &binary.Runner{
		Test: e.T, Needs: func() (process.Needs, error) { return managedresource.Needs(e.Config) },
		Setup: func() *process.Setup {
			return &process.Setup{
				Program: process.Program{Name: "managedresource-controller", SharesLease: true},
				Config:  e.Config.Process(), WrapTransport: e.Requests.Wrap, Clock: e.clock, Log: e.log,
			}
		},
		Add: func(ctx context.Context, clusters *process.Clusters) error {
			e.Registry = prometheus.NewRegistry()
			return managedresource.Add(ctx, clusters, e.Config, e.Registry)
		},
	}
}

// Set creates a Secret with documents under one key, and a ManagedResource that references it, both with that name.
func (e *Env) Set(name string, documents ...string) *resourcesv1alpha1.ManagedResource {
	e.T.Helper()
	e.Secret(name, documents...)
	mr := e.ManagedResource(name, name)
	e.Expect(e.Source.Create(e.Ctx, mr)).To(Succeed())
	return mr
}

// ManagedResource returns a set that references the named Secrets, without creating it.
func (e *Env) ManagedResource(name string, secrets ...string) *resourcesv1alpha1.ManagedResource {
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}}
	mr.Spec.SecretRefs = []corev1.LocalObjectReference{}
	for _, secret := range secrets {
		mr.Spec.SecretRefs = append(mr.Spec.SecretRefs, corev1.LocalObjectReference{Name: secret})
	}
	return mr
}

// Secret creates or replaces a Secret with the documents under key "objects.yaml".
func (e *Env) Secret(name string, documents ...string) {
	e.T.Helper()
	e.SecretData(name, map[string][]byte{"objects.yaml": []byte(strings.Join(documents, "\n---\n"))})
}

// SecretData creates or replaces a Secret.
func (e *Env) SecretData(name string, data map[string][]byte) {
	e.T.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}, Data: data}
	if err := e.Source.Create(e.Ctx, secret); apierrors.IsAlreadyExists(err) {
		e.Expect(e.Source.Update(e.Ctx, secret)).To(Succeed())
	} else {
		e.Expect(err).NotTo(HaveOccurred())
	}
}

// Get reads a set.
func (e *Env) Get(name string) *resourcesv1alpha1.ManagedResource {
	e.T.Helper()
	mr := &resourcesv1alpha1.ManagedResource{}
	e.Expect(e.Source.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: name}, mr)).To(Succeed())
	return mr
}

// Change updates a set, and retries on conflicts.
func (e *Env) Change(name string, change func(*resourcesv1alpha1.ManagedResource)) {
	e.T.Helper()
	e.Eventually(func() error {
		mr := e.Get(name)
		change(mr)
		return e.Source.Update(e.Ctx, mr)
	}).WithTimeout(Patience).Should(Succeed())
}

// Condition describes a condition as "status/reason", "" if it is absent.
func Condition(mr *resourcesv1alpha1.ManagedResource, kind string) string {
	for _, c := range mr.Status.Conditions {
		if string(c.Type) == kind {
			return string(c.Status) + "/" + c.Reason
		}
	}
	return ""
}

// Message returns the message of a condition.
func Message(mr *resourcesv1alpha1.ManagedResource, kind string) string {
	for _, c := range mr.Status.Conditions {
		if string(c.Type) == kind {
			return c.Message
		}
	}
	return ""
}

// AwaitApplied waits until ResourcesApplied of the set has this value. A successfully applied set must also have been judged for its
// current generation, so that no work is left.
func (e *Env) AwaitApplied(name, want string) *resourcesv1alpha1.ManagedResource {
	e.T.Helper()
	var mr *resourcesv1alpha1.ManagedResource
	e.Eventually(func(g Gomega) {
		mr = &resourcesv1alpha1.ManagedResource{}
		g.Expect(e.Source.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: name}, mr)).To(Succeed())
		g.Expect(Condition(mr, "ResourcesApplied")).To(Equal(want), "%s", Message(mr, "ResourcesApplied"))
		if want == "True/ApplySucceeded" {
			g.Expect(mr.Status.ObservedGeneration).To(Equal(mr.Generation))
			Judged(g, mr)
		}
	}).WithTimeout(Patience).WithPolling(10 * time.Millisecond).Should(Succeed())
	return mr
}

// AwaitCondition waits until a condition has this value, as "status/reason".
func (e *Env) AwaitCondition(name, kind, want string) {
	e.T.Helper()
	e.Eventually(func() string { return Condition(e.Get(name), kind) }).WithTimeout(Patience).WithPolling(5 * time.Millisecond).
		Should(Equal(want))
}

// Judged requires that a set has been judged since it was applied. Conditions that were written when its objects were deleted, or while it
// was ignored, do not count: the controller will replace them.
func Judged(g Gomega, mr *resourcesv1alpha1.ManagedResource) {
	for _, kind := range []string{"ResourcesHealthy", "ResourcesProgressing"} {
		g.Expect(Condition(mr, kind)).NotTo(
			Or(BeEmpty(), HavePrefix("Unknown/"), HaveSuffix("/DeletionPending"), HaveSuffix("/ManagedResourceIgnored")))
	}
}

// AwaitRest waits until the controller has sent no request for a second, and clears the record of earlier requests. Changes by other
// clients, such as the controllers of Kubernetes, may make it read objects again.
func (e *Env) AwaitRest() {
	e.T.Helper()
	e.Eventually(func(g Gomega) {
		e.Requests.Reset()
		g.Consistently(e.Requests.Seen).WithTimeout(time.Second).Should(BeEmpty())
	}).WithTimeout(Patience).Should(Succeed())
}

// AwaitGone waits until a set no longer exists.
func (e *Env) AwaitGone(name string) {
	e.T.Helper()
	e.Eventually(func() bool {
		err := e.Source.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: name}, &resourcesv1alpha1.ManagedResource{})
		return apierrors.IsNotFound(err)
	}).WithTimeout(Patience).WithPolling(10 * time.Millisecond).Should(BeTrue())
}

// ConfigMap returns a manifest in the env's namespace with one key.
func (e *Env) ConfigMap(name, value string, metadata ...string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  namespace: %s\n%sdata:\n  key: %q\n", name, e.Namespace,
		indent(metadata), value)
}

func indent(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		for each := range strings.SplitSeq(line, "\n") {
			b.WriteString("  " + each + "\n")
		}
	}
	return b.String()
}

// LiveConfigMap reads a ConfigMap of the target; nil if it does not exist.
func (e *Env) LiveConfigMap(name string) *corev1.ConfigMap {
	e.T.Helper()
	live := &corev1.ConfigMap{}
	err := e.Target.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: name}, live)
	if apierrors.IsNotFound(err) {
		return nil
	}
	e.Expect(err).NotTo(HaveOccurred())
	return live
}

// AwaitData waits until a ConfigMap has a value.
func (e *Env) AwaitData(name, value string) *corev1.ConfigMap {
	e.T.Helper()
	var live *corev1.ConfigMap
	e.Eventually(func() string {
		if live = e.LiveConfigMap(name); live == nil {
			return "(absent)"
		}
		return live.Data["key"]
	}).WithTimeout(Patience).WithPolling(10 * time.Millisecond).Should(Equal(value))
	return live
}

// Edit changes a ConfigMap of the target as another field manager.
func (e *Env) Edit(name, patch string) {
	e.T.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}}
	e.Expect(e.Target.Patch(e.Ctx, object, client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner("kubectl-edit"))).
		To(Succeed())
}

// Events lists the Events about a set as "reason: note".
func (e *Env) Events(name string) []string {
	e.T.Helper()
	list := &corev1.EventList{}
	e.Expect(e.Source.List(e.Ctx, list, client.InNamespace(e.Namespace))).To(Succeed())
	var found []string
	for _, event := range list.Items {
		if event.InvolvedObject.Name == name {
			found = append(found, event.Reason+": "+event.Message)
		}
	}
	return found
}

// Yes returns a pointer to true.
func Yes() *bool { return ptr.To(true) }

// Unstructured returns an empty object of the kind of a status entry.
func Unstructured(ref resourcesv1alpha1.ObjectReference) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(ref.APIVersion)
	object.SetKind(ref.Kind)
	return object
}

// DeleteSecret removes a Secret of the source.
func (e *Env) DeleteSecret(name string) {
	e.T.Helper()
	e.Expect(e.Source.Delete(e.Ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}})).To(Succeed())
}

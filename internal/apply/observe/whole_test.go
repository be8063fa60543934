package observe_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/health"
	"github.com/espalier-dev/espalier/test/local"
)

// wholeFixture is a namespace of a real API server, observed with verdicts. No controllers run there; the test writes their status.
type wholeFixture struct {
	*fixture
	config  *rest.Config
	pods    *observe.Pods
	dynamic dynamic.Interface

	mu      sync.Mutex
	reports map[string]int
	logs    []string
}

func newWholeFixture(t *testing.T, identity func(local.Server) *rest.Config) *wholeFixture {
	t.Helper()
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	w := &wholeFixture{fixture: &fixture{WithT: g, ctx: t.Context()}, config: identity(servers.Target), reports: map[string]int{}}
	w.client, err = kubernetes.NewForConfig(servers.Target.Config)
	g.Expect(err).NotTo(HaveOccurred())
	w.dynamic, err = dynamic.NewForConfig(servers.Target.Config)
	g.Expect(err).NotTo(HaveOccurred())
	namespace, err := w.client.CoreV1().Namespaces().
		Create(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "observe-"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	w.namespace = namespace.Name
	metadataClient, err := metadata.NewForConfig(w.config)
	g.Expect(err).NotTo(HaveOccurred())
	httpClient, err := rest.HTTPClientFor(w.config)
	g.Expect(err).NotTo(HaveOccurred())
	whole, err := observe.NewWholeObjects(w.config, httpClient)
	g.Expect(err).NotTo(HaveOccurred())
	note := func(_ schema.GroupKind, namespace, name string) { w.countReport(namespace, name) }
	log := funcr.New(func(_, args string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.logs = append(w.logs, args)
	}, funcr.Options{})
	w.pods = observe.NewPods(w.ctx, observe.PodOptions{Client: metadataClient, OnChange: w.countReport, Clock: clock.RealClock{}, Log: log})
	w.watcher = observe.New(w.ctx, observe.Options{
		Client: metadataClient, Label: "resources.gardener.cloud/managed-by", Value: "gardener", Whole: whole, Pods: w.pods,
		OnChange: func(schema.GroupKind, string, string) {}, OnVerdict: note, Clock: clock.RealClock{}, Log: logr.Discard(),
	})
	return w
}

func (w *wholeFixture) countReport(namespace, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if namespace == w.namespace || namespace == "" {
		w.reports[name]++
	}
}

// takeReports returns a function that reports whether OnVerdict was called for an object since the last call of the function.
func (w *wholeFixture) takeReports(name string) func() bool {
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		reported := w.reports[name] > 0
		if reported {
			delete(w.reports, name)
		}
		return reported
	}
}

func (w *wholeFixture) eventually(actual any) AsyncAssertion {
	return w.Eventually(actual).WithTimeout(30 * time.Second).WithPolling(5 * time.Millisecond)
}

// verdict returns the observed verdict on an object.
func (w *wholeFixture) verdict(kind schema.GroupKind, name string) func() string {
	return func() string {
		seen, knowledge := w.watcher.As("").Lookup(kind, w.namespace, name)
		switch {
		case knowledge != observe.Present:
			return "not there"
		case seen.VerdictUnknown:
			return "unjudged"
		case seen.Verdict == nil:
			return "fine"
		}
		return seen.Verdict.Unhealthy
	}
}

func (w *wholeFixture) deployment(name string, replicas int32, labels map[string]string) *appsv1.Deployment {
	pod := map[string]string{"app": name}
	created, err := w.client.AppsV1().Deployments(w.namespace).Create(w.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: pod},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pod}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	return created
}

func (w *wholeFixture) needDeployments() observe.Need {
	return observe.Need{Resource: deployments, Kind: deploymentKind, Namespaced: true, Namespaces: []string{w.namespace}}
}

func (w *wholeFixture) patchStatus(name, status string) {
	_, err := w.client.AppsV1().Deployments(w.namespace).
		Patch(w.ctx, name, types.MergePatchType, []byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status")
	w.Expect(err).NotTo(HaveOccurred())
}

// Only a real API server proves that Deployments arrive as protobuf and typed.
func TestKindWithAHealthRuleIsWatchedWhole(t *testing.T) {
	w := newWholeFixture(t, admin)
	w.deployment("web", 0, managedByLabels)
	w.use(w.needDeployments())
	w.Expect(w.verdict(deploymentKind, "web")()).To(Equal("observed generation outdated (0/1)"))
	w.patchStatus("web", `{"observedGeneration":1,"conditions":[{"type":"Available","status":"True"},{"type":"Progressing",`+
		`"status":"True","reason":"NewReplicaSetAvailable"}]}`)
	w.eventually(w.verdict(deploymentKind, "web")).Should(Equal("fine"))
	w.eventually(w.takeReports("web")).Should(BeTrue())
	w.deployment("unlabelled", 0, nil)
	w.deployment("later", 0, managedByLabels)
	w.eventually(w.takeReports("later")).Should(BeTrue())
	w.Expect(w.verdict(deploymentKind, "unlabelled")()).To(Equal("not there"))
}

func TestVerdictIsUnknownFromOurWriteUntilItsEvent(t *testing.T) {
	w := newWholeFixture(t, admin)
	created := w.deployment("web", 0, managedByLabels)
	w.use(w.needDeployments())
	future := &metav1.PartialObjectMetadata{ObjectMeta: *created.ObjectMeta.DeepCopy()} // the answer to a write has only metadata
	future.ResourceVersion += "0"                                                       // a write whose event has not arrived
	w.watcher.Record(deploymentKind, future)
	w.Expect(w.verdict(deploymentKind, "web")()).To(Equal("unjudged"))
	w.patchStatus("web", `{"observedGeneration":1}`)
	w.Consistently(w.verdict(deploymentKind, "web")).WithTimeout(300 * time.Millisecond).Should(Equal("unjudged"))
}

// createGadgets creates a CustomResourceDefinition and two objects of its kind.
func (w *wholeFixture) createGadgets() (schema.GroupVersionResource, schema.GroupKind) {
	group := w.namespace + ".example.com"
	resource, kind := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "gadgets"},
		schema.GroupKind{Group: group, Kind: "Gadget"}
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiextensionsv1.SchemeGroupVersion.String(), "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "gadgets." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"kind": "Gadget", "plural": "gadgets"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			}}},
		},
	}}
	_, err := w.dynamic.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).
		Create(w.ctx, definition, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"one", "two"} {
		object := &unstructured.Unstructured{
			Object: map[string]any{"apiVersion": group + "/v1", "kind": "Gadget", "metadata": map[string]any{"name": name}},
		}
		object.SetLabels(managedByLabels)
		w.eventually(func() error {
			_, err := w.dynamic.Resource(resource).Namespace(w.namespace).Create(w.ctx, object, metav1.CreateOptions{})
			return err
		}).Should(Succeed())
	}
	return resource, kind
}

func (w *wholeFixture) breakGadget(resource schema.GroupVersionResource, name string) {
	patch := `{"status":{"conditions":[{"type":"Stalled","status":"True","reason":"R","message":"m"}]}}`
	_, err := w.dynamic.Resource(resource).Namespace(w.namespace).
		Patch(w.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

// When a user first needs verdicts, a watch of whole objects replaces the watch of metadata. Users without verdicts share the new watch.
func TestOneWatchServesUsersWithAndWithoutVerdicts(t *testing.T) {
	w := newWholeFixture(t, admin)
	resource, kind := w.createGadgets()
	need := observe.Need{Resource: resource, Kind: kind, Namespaced: true, Namespaces: []string{w.namespace}}
	w.use(need)
	w.Expect(w.verdict(kind, "one")()).To(Equal("unjudged"))
	w.breakGadget(resource, "one")
	other := types.NamespacedName{Namespace: "sets", Name: "other"}
	asks := need
	asks.Whole = true
	w.watcher.As("").Use(w.ctx, other, []observe.Need{asks})
	w.Expect(w.watcher.Watches()).To(Equal(1))
	w.eventually(w.verdict(kind, "one")).Should(HavePrefix(`condition "Stalled" has invalid status True`))
	w.eventually(w.takeReports("one")).Should(BeTrue(), "verdicts that were unknown are reported")
	w.Expect(w.verdict(kind, "two")()).To(Equal("fine"))
	w.breakGadget(resource, "two")
	w.eventually(w.verdict(kind, "two")).Should(HavePrefix(`condition "Stalled"`))

	w.use(need)
	w.Expect(w.watcher.Watches()).To(Equal(1))
	w.Expect(w.verdict(kind, "one")()).To(HavePrefix(`condition "Stalled"`), "the other still asks")
	w.watcher.Release(other)
	w.eventually(w.verdict(kind, "one")).Should(Equal("unjudged"), "no user needs verdicts")
	w.Expect(w.watcher.Watches()).To(Equal(1))
}

// Pods need not be managed. The watch of their metadata finds them.
func TestPodsAreCountedOnARealAPIServer(t *testing.T) {
	w := newWholeFixture(t, admin)
	_, err := w.client.CoreV1().ServiceAccounts(w.namespace).
		Create(w.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	w.deployment("web", 1, managedByLabels)
	w.use(w.needDeployments())
	count := func() observe.Count {
		_, count := w.pods.Of(w.namespace, "web")
		return count
	}
	w.eventually(count).Should(Equal(observe.CountDiffers))
	w.takeReports("web")()
	create := func(name string, finalizers ...string) {
		_, err = w.client.CoreV1().Pods(w.namespace).Create(w.ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}, Finalizers: finalizers},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
	}
	create("one")
	w.eventually(count).Should(Equal(observe.CountMatches))
	w.eventually(w.takeReports("web")).Should(BeTrue()) // reported after it is counted
	create("two", "example.com/stuck")
	w.eventually(count).Should(Equal(observe.CountDiffers))
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	w.Expect(w.client.CoreV1().Pods(w.namespace).Delete(w.ctx, "two", now)).To(Succeed())
	w.takeReports("web")()
	w.Consistently(count).WithTimeout(200*time.Millisecond).Should(Equal(observe.CountDiffers), "it only terminates")
	_, err = w.client.CoreV1().Pods(w.namespace).
		Patch(w.ctx, "two", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	w.eventually(count).Should(Equal(observe.CountMatches))
	_, err = w.client.AppsV1().Deployments(w.namespace).
		Patch(w.ctx, "web", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	w.eventually(count).Should(Equal(observe.CountDiffers))
	rollout, _ := w.pods.Of(w.namespace, "web")
	w.Expect(rollout).To(Equal(health.Rollout{Selector: map[string]string{"app": "web"}, Replicas: 3}))
}

// With permission to watch Deployments but not pods, the watcher logs that once and does not count pods.
func TestPodsAreNotCountedWithoutPermissionToWatchThem(t *testing.T) {
	w := newWholeFixture(t, func(s local.Server) *rest.Config {
		config, err := s.UserConfig("podless")
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return config
	})
	w.grantDeployments("podless")
	w.deployment("web", 1, managedByLabels)
	w.use(w.needDeployments())
	w.eventually(func() observe.Count {
		_, count := w.pods.Of(w.namespace, "web")
		return count
	}).Should(Equal(observe.CountUnknown))
	w.eventually(w.takeReports("web")).Should(BeTrue()) // reported after it is known
	w.eventually(func() []string {
		w.mu.Lock()
		defer w.mu.Unlock()
		var lines []string
		for _, each := range w.logs {
			if strings.Contains(each, "Cannot watch pods") {
				lines = append(lines, each)
			}
		}
		return lines
	}).Should(HaveExactElements(ContainSubstring("grant list and watch of pods in the target")))
}

func (w *wholeFixture) grantDeployments(user string) {
	name := "observe-" + user // every run of the test creates the same role
	_, err := w.client.RbacV1().ClusterRoles().Create(w.ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"list", "watch"}}},
	}, metav1.CreateOptions{})
	w.Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
	_, err = w.client.RbacV1().ClusterRoleBindings().Create(w.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: user}},
	}, metav1.CreateOptions{})
	w.Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
	w.eventually(func() (bool, error) {
		review, err := w.client.AuthorizationV1().SubjectAccessReviews().
			Create(w.ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Group: "apps", Resource: "deployments", Verb: "watch"},
			}}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed, err
	}).Should(BeTrue())
}

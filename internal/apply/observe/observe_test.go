package observe_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/test/local"
)

var (
	configMaps      = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	configMapKind   = schema.GroupKind{Kind: "ConfigMap"}
	deployments     = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	deploymentKind  = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	user            = types.NamespacedName{Namespace: "sets", Name: "set"}
	managedByLabels = map[string]string{"resources.gardener.cloud/managed-by": "gardener"}
)

// fixture is a namespace of a real API server, observed by a Watcher.
type fixture struct {
	*WithT
	ctx       context.Context
	client    kubernetes.Interface
	namespace string
	watcher   *observe.Watcher

	mu sync.Mutex
	// events counts, by the name of the object, the calls of OnChange for objects in the namespace.
	events map[string]int
	// markers counts the objects that reportsUntilNow has created.
	markers int
}

func newFixture(t *testing.T, config func(local.Server) *rest.Config) *fixture {
	t.Helper()
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	admin, err := kubernetes.NewForConfig(servers.Source.Config)
	g.Expect(err).NotTo(HaveOccurred())
	namespace, err := admin.CoreV1().Namespaces().
		Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "observe-"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	client, err := metadata.NewForConfig(config(servers.Source))
	g.Expect(err).NotTo(HaveOccurred())
	b := &fixture{WithT: g, ctx: t.Context(), client: admin, namespace: namespace.Name, events: map[string]int{}}
	b.watcher = observe.New(t.Context(), observe.Options{
		Client: client, Label: "resources.gardener.cloud/managed-by", Value: "gardener", Clock: clock.RealClock{}, Log: logr.Discard(),
		OnChange: func(_ schema.GroupKind, namespace, name string) {
			if namespace == b.namespace {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.events[name]++
			}
		},
	})
	return b
}

func admin(s local.Server) *rest.Config { return rest.CopyConfig(s.Config) }

func (b *fixture) use(needs ...observe.Need) {
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	b.watcher.As("").Use(ctx, user, needs)
}

func (b *fixture) needConfigMaps() observe.Need {
	return observe.Need{Resource: configMaps, Kind: configMapKind, Namespaced: true, Namespaces: []string{b.namespace}}
}

// countReports returns how often OnChange has been called for an object.
func (b *fixture) countReports(name string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.events[name]
}

// reportsUntilNow returns how often a ConfigMap was reported, once all events up to now have been processed. It creates another ConfigMap
// and waits for its report, because a watch reports events in order.
func (b *fixture) reportsUntilNow(name string) int {
	b.markers++
	marker := b.configMap(fmt.Sprintf("marker-%d", b.markers)).Name
	b.Eventually(func() int { return b.countReports(marker) }).WithTimeout(30 * time.Second).WithPolling(5 * time.Millisecond).Should(Equal(1))
	return b.countReports(name)
}

// configMap creates a ConfigMap with the label and the field manager of the controller.
func (b *fixture) configMap(name string) *corev1.ConfigMap {
	created, err := b.client.CoreV1().ConfigMaps(b.namespace).Create(b.ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: managedByLabels}, Data: map[string]string{"a": "1", "b": "1"},
	}, metav1.CreateOptions{FieldManager: "espalier"})
	b.Expect(err).NotTo(HaveOccurred())
	return created
}

// patch writes a ConfigMap as the given field manager and returns the stored object.
func (b *fixture) patch(name, manager string, patch map[string]any) *corev1.ConfigMap {
	body, err := json.Marshal(patch)
	b.Expect(err).NotTo(HaveOccurred())
	patched, err := b.client.CoreV1().ConfigMaps(b.namespace).
		Patch(b.ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: manager})
	b.Expect(err).NotTo(HaveOccurred())
	return patched
}

// waitFor waits until the watch has received this version of an object and returns its observed state.
func (b *fixture) waitFor(object metav1.Object) observe.Object {
	var seen observe.Object
	b.Eventually(func(g Gomega) {
		var knowledge observe.Presence
		seen, knowledge = b.watcher.As("").Lookup(configMapKind, b.namespace, object.GetName())
		g.Expect(knowledge).To(Equal(observe.Present))
		g.Expect(seen.ResourceVersion).To(Equal(object.GetResourceVersion()))
	}).WithTimeout(30 * time.Second).WithPolling(5 * time.Millisecond).Should(Succeed())
	return seen
}

func data(key string, value any) map[string]any {
	return map[string]any{"data": map[string]any{key: value}}
}

// A ConfigMap has no generation, and a metadata-only watch observes it.
func TestFingerprintsOnARealAPIServer(t *testing.T) {
	for name, tc := range map[string]struct {
		write   func(b *fixture) *corev1.ConfigMap
		changes bool
	}{
		"an owned field changed by a foreign patch": {changes: true, write: func(b *fixture) *corev1.ConfigMap {
			return b.patch("c", "kubectl-edit", data("a", "2"))
		}},
		"a foreign field added": {changes: true, write: func(b *fixture) *corev1.ConfigMap {
			return b.patch("c", "kubectl-edit", data("x", "2"))
		}},
		"an owned field removed": {changes: true, write: func(b *fixture) *corev1.ConfigMap {
			return b.patch("c", "kubectl-edit", data("a", nil))
		}},
		"the same value written by a foreign manager": {changes: false, write: func(b *fixture) *corev1.ConfigMap {
			return b.patch("c", "kubectl-edit", data("a", "1"))
		}},
		"an annotation added": {changes: true, write: func(b *fixture) *corev1.ConfigMap {
			return b.patch("c", "kubectl-annotate", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"x": "y"}}})
		}},
		"managedFields reset": {changes: true, write: func(b *fixture) *corev1.ConfigMap {
			return b.patch("c", "kubectl-edit", map[string]any{"metadata": map[string]any{"managedFields": []any{map[string]any{}}}})
		}},
		"a write under our own name by another operation": {changes: true, write: func(b *fixture) *corev1.ConfigMap {
			body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":%q},"data":{"z":"1"}}`, b.namespace)
			patched, err := b.client.CoreV1().ConfigMaps(b.namespace).
				Patch(b.ctx, "c", types.ApplyPatchType, []byte(body), metav1.PatchOptions{FieldManager: "espalier"})
			b.Expect(err).NotTo(HaveOccurred())
			return patched
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t, admin)
			created := b.configMap("c")
			b.use(b.needConfigMaps())
			before := b.waitFor(created)
			reportsBefore := b.reportsUntilNow("c") // a listing that takes long counts as a change
			written := tc.write(b)
			after := b.waitFor(written)
			if tc.changes {
				b.Expect(after.Fingerprint).NotTo(Equal(before.Fingerprint))
				b.Expect(b.reportsUntilNow("c")).To(Equal(reportsBefore + 1))
			} else {
				b.Expect(after.Fingerprint).To(Equal(before.Fingerprint))
				b.Expect(b.reportsUntilNow("c")).To(Equal(reportsBefore))
			}
		})
	}
}

func TestFingerprintChangesWithASecondForeignWriteOfTheSameFields(t *testing.T) {
	b := newFixture(t, admin)
	b.use(b.needConfigMaps())
	b.configMap("c")
	first := b.waitFor(b.patch("c", "kubectl-edit", data("a", "2")))
	time.Sleep(1100 * time.Millisecond) // the times of managedFields have a resolution of one second
	second := b.waitFor(b.patch("c", "kubectl-edit", data("a", "3")))
	b.Expect(second.Fingerprint).NotTo(Equal(first.Fingerprint))
}

// Both writes of the other client are in the same second, but Espalier wrote the field between them and became its owner.
func TestFingerprintChangesWithAForeignWriteInTheSecondOfARepair(t *testing.T) {
	b := newFixture(t, admin)
	b.use(b.needConfigMaps())
	created := b.configMap("c")
	b.patch("c", "kubectl-edit", data("a", "2"))
	created.ResourceVersion = ""
	repaired, err := b.client.CoreV1().ConfigMaps(b.namespace).Update(b.ctx, created, metav1.UpdateOptions{FieldManager: "espalier"})
	b.Expect(err).NotTo(HaveOccurred())
	after := b.waitFor(repaired)
	again := b.waitFor(b.patch("c", "kubectl-edit", data("a", "2")))
	b.Expect(again.Fingerprint).NotTo(Equal(after.Fingerprint))
}

// deployment creates a Deployment that has not rolled out.
func (b *fixture) deployment(name string) *appsv1.Deployment {
	replicas := int32(0)
	pod := map[string]string{"app": name}
	created, err := b.client.AppsV1().Deployments(b.namespace).Create(b.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: managedByLabels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: pod}, Paused: true,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pod}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}, metav1.CreateOptions{FieldManager: "espalier"})
	b.Expect(err).NotTo(HaveOccurred())
	return created
}

func TestStatusWriteDoesNotChangeTheFingerprint(t *testing.T) {
	b := newFixture(t, admin)
	created := b.deployment("web")
	b.use(observe.Need{Resource: deployments, Kind: deploymentKind, Namespaced: true, Namespaces: []string{b.namespace}})
	before, knowledge := b.watcher.As("").Lookup(deploymentKind, b.namespace, "web")
	b.Expect(knowledge).To(Equal(observe.Present))
	waitForMarker := func(marker string) { // and so for all reports before the marker, see reportsUntilNow
		b.deployment(marker)
		b.Eventually(func() int { return b.countReports(marker) }).WithTimeout(30 * time.Second).Should(BeNumerically(">=", 1))
	}
	waitForMarker("before")
	reportsBefore := b.countReports("web") // a listing that takes long counts as a change
	patched, err := b.client.AppsV1().Deployments(b.namespace).
		Patch(b.ctx, "web", types.MergePatchType, []byte(`{"status":{"collisionCount":7}}`),
			metav1.PatchOptions{FieldManager: "some-controller"}, "status")
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(patched.ResourceVersion).NotTo(Equal(created.ResourceVersion))
	b.Eventually(func(g Gomega) {
		after, _ := b.watcher.As("").Lookup(deploymentKind, b.namespace, "web")
		g.Expect(after.ResourceVersion).NotTo(Equal(before.ResourceVersion))
		g.Expect(after.Fingerprint).To(Equal(before.Fingerprint))
	}).WithTimeout(30 * time.Second).Should(Succeed())
	waitForMarker("after")
	b.Expect(b.countReports("web")).To(Equal(reportsBefore))
}

func TestObjectWithoutLabelAndDeletedObjectAreAbsent(t *testing.T) {
	b := newFixture(t, admin)
	b.use(b.needConfigMaps())
	b.waitFor(b.configMap("stripped"))
	b.waitFor(b.configMap("deleted"))
	b.patch("stripped", "kubectl-label", map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"resources.gardener.cloud/managed-by": nil}},
	})
	b.Expect(b.client.CoreV1().ConfigMaps(b.namespace).Delete(b.ctx, "deleted", metav1.DeleteOptions{})).To(Succeed())
	for _, name := range []string{"stripped", "deleted"} {
		b.Eventually(func() observe.Presence {
			_, knowledge := b.watcher.As("").Lookup(configMapKind, b.namespace, name)
			return knowledge
		}).WithTimeout(30 * time.Second).Should(Equal(observe.Absent))
	}
}

// lockedTransport delays the answers of the API server while the test has locked gate.
type lockedTransport struct {
	http.RoundTripper
	gate *sync.RWMutex
}

func (h lockedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := h.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Body = lockedBody{response.Body, h.gate}
	}
	return response, err
}

type lockedBody struct {
	io.ReadCloser
	gate *sync.RWMutex
}

func (b lockedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	b.gate.RLock()
	defer b.gate.RUnlock()
	return n, err
}

func TestOwnWriteIsNotReported(t *testing.T) {
	watch := &sync.RWMutex{}
	b := newFixture(t, func(s local.Server) *rest.Config {
		config := admin(s)
		config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return lockedTransport{inner, watch} })
		return config
	})
	b.use(b.needConfigMaps())
	created := b.configMap("c")
	b.waitFor(created)
	reportsBefore := b.reportsUntilNow("c")
	b.Expect(reportsBefore).To(Equal(1))
	watch.Lock() // so that the event of the write does not arrive before Record
	created.Data["a"] = "9"
	updated, err := b.client.CoreV1().ConfigMaps(b.namespace).Update(b.ctx, created, metav1.UpdateOptions{FieldManager: "espalier"})
	b.Expect(err).NotTo(HaveOccurred())
	b.watcher.Record(configMapKind, updated)
	seen, knowledge := b.watcher.As("").Lookup(configMapKind, b.namespace, "c")
	b.Expect(knowledge).To(Equal(observe.Present))
	b.Expect(seen.ResourceVersion).To(Equal(updated.ResourceVersion))
	watch.Unlock()
	b.Expect(b.reportsUntilNow("c")).To(Equal(reportsBefore))
	b.patch("c", "kubectl-edit", data("x", "1"))
	b.Expect(b.reportsUntilNow("c")).To(Equal(reportsBefore + 1))
}

// A delayed Record must not restore an object whose deletion the watch has already reported.
func TestRecordOfADeletedObjectIsIgnored(t *testing.T) {
	b := newFixture(t, admin)
	b.use(b.needConfigMaps())
	created := b.configMap("c")
	b.waitFor(created)
	b.Expect(b.client.CoreV1().ConfigMaps(b.namespace).Delete(b.ctx, "c", metav1.DeleteOptions{})).To(Succeed())
	b.Eventually(func() observe.Presence {
		_, knowledge := b.watcher.As("").Lookup(configMapKind, b.namespace, "c")
		return knowledge
	}).WithTimeout(30 * time.Second).Should(Equal(observe.Absent))
	b.watcher.Record(configMapKind, created)
	_, knowledge := b.watcher.As("").Lookup(configMapKind, b.namespace, "c")
	b.Expect(knowledge).To(Equal(observe.Absent))
}

func TestNamedNeedWatchesAnUnlabelledObject(t *testing.T) {
	b := newFixture(t, admin)
	_, err := b.client.CoreV1().ConfigMaps(b.namespace).
		Create(b.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "plain"}}, metav1.CreateOptions{})
	b.Expect(err).NotTo(HaveOccurred())
	named := b.needConfigMaps()
	named.Name = "plain"
	b.use(b.needConfigMaps(), named)
	_, knowledge := b.watcher.As("").LookupNamed(configMapKind, b.namespace, "plain")
	b.Expect(knowledge).To(Equal(observe.Present))
	_, knowledge = b.watcher.As("").LookupNamed(configMapKind, b.namespace, "other")
	b.Expect(knowledge).To(Equal(observe.Unwatched))
}

func TestWatchesStopWithoutUsers(t *testing.T) {
	b := newFixture(t, admin)
	b.use(b.needConfigMaps())
	b.Expect(b.watcher.Watches()).To(Equal(1))
	b.use(b.needConfigMaps())
	b.Expect(b.watcher.Watches()).To(Equal(1))
}

// The client may read ConfigMaps of one namespace only. So the watch of that namespace runs, and the watch of another namespace does not.
func TestNamespaceIsWatchedIfAllNamespacesAreForbidden(t *testing.T) {
	restricted := func(s local.Server) *rest.Config {
		config, err := s.UserConfig("narrow")
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return config
	}
	b := newFixture(t, restricted)
	grantConfigMaps(b)
	b.configMap("c")
	b.use(b.needConfigMaps())
	_, knowledge := b.watcher.As("").Lookup(configMapKind, b.namespace, "c")
	b.Expect(knowledge).To(Equal(observe.Present))
	forbidden := observe.Need{Resource: configMaps, Kind: configMapKind, Namespaced: true, Namespaces: []string{"default"}}
	b.use(forbidden)
	_, knowledge = b.watcher.As("").Lookup(configMapKind, "default", "c")
	b.Expect(knowledge).To(Equal(observe.Unwatched))
}

func grantConfigMaps(b *fixture) {
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}}}
	_, err := b.client.RbacV1().Roles(b.namespace).
		Create(b.ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "narrow"}, Rules: rules}, metav1.CreateOptions{})
	b.Expect(err).NotTo(HaveOccurred())
	_, err = b.client.RbacV1().RoleBindings(b.namespace).Create(b.ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "narrow"},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "narrow"},
		Subjects:   []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "narrow"}},
	}, metav1.CreateOptions{})
	b.Expect(err).NotTo(HaveOccurred())
	b.Eventually(func() (bool, error) { // the API server's authorizer reads roles from its own watches
		review, err := b.client.AuthorizationV1().SubjectAccessReviews().
			Create(b.ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "narrow", ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: b.namespace, Resource: "configmaps", Verb: "watch"},
			}}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed, err
	}).WithTimeout(30 * time.Second).Should(BeTrue())
}

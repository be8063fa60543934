package garbagecollector_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

func yamlInto(content []byte, object *unstructured.Unstructured) error {
	return yaml.Unmarshal(content, &object.Object)
}

func TestUnusedObjectsAreDeleted(t *testing.T) {
	s := newScene(t, options{})
	now := clock.RealClock{}.Now().Add(time.Hour)
	s.collector.Clock = clocktesting.NewFakePassiveClock(now)
	var want []string
	for i := range 8 {
		for _, kind := range []string{"ConfigMap", "Secret"} {
			name := fmt.Sprintf("%s/unused-%d", kind, i)
			s.collectable(name)
			want = append(want, "Normal GarbageCollected "+name)
		}
	}
	s.Expect(s.run()).To(Succeed())
	s.Expect(s.left()).To(BeEmpty())

	s.Eventually(func() []string {
		var about []string
		for _, note := range s.eventNotes() {
			short, why, _ := strings.Cut(note, ": ")
			s.Expect(why).To(MatchRegexp(`^Deleted: created at 20\S+Z, labelled as garbage-collectable, and no reference annotation on a `+
				`workload, ManagedResource or Prometheus in namespace "%s" names it$`, s.Namespace))
			about = append(about, short)
		}
		return about
	}).WithTimeout(managedresourcetest.Patience).Should(ConsistOf(want))
	s.Expect(s.metric("espalier_managedresource_garbage_collected_total", "ConfigMap")).To(Equal(8.0))
	s.Expect(s.metric("espalier_managedresource_garbage_collected_total", "Secret")).To(Equal(8.0))
	s.Expect(s.metric("espalier_managedresource_garbage_found", "ConfigMap")).To(Equal(8.0))
	s.Expect(s.metric("espalier_managedresource_garbage_found", "Secret")).To(Equal(8.0))
	s.Expect(s.metric("espalier_managedresource_garbage_collection_last_success_timestamp_seconds", "")).To(Equal(float64(now.Unix())))

	s.Expect(s.run()).To(Succeed())
	s.Expect(s.line.requests()).To(Equal([]string{
		"GET /api/v1/namespaces/" + s.Namespace + "/configmaps", "GET /api/v1/namespaces/" + s.Namespace + "/secrets",
	}), "who refers to nothing that exists is not looked for")
	s.Expect(s.metric("espalier_managedresource_garbage_collected_total", "Secret")).To(Equal(8.0))
	s.Expect(s.metric("espalier_managedresource_garbage_found", "Secret")).To(Equal(0.0))
}

const podTemplate = `{metadata: {labels: {a: b}}, spec: {restartPolicy: %s, containers: [{name: c, image: none}]}}`

// referrerManifests returns one object of each kind whose reference annotations the collector reads. None of the objects makes a controller
// create further objects.
func referrerManifests() map[string]string {
	always, never := fmt.Sprintf(podTemplate, "Always"), fmt.Sprintf(podTemplate, "Never")
	return map[string]string{
		"Deployment": "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 0, selector: {matchLabels: {a: b}}, template: " + always +
			"}\n",
		"StatefulSet": "apiVersion: apps/v1\nkind: StatefulSet\nspec: {replicas: 0, serviceName: s, selector: {matchLabels: {a: b}}, " +
			"template: " + always + "}\n",
		"DaemonSet": "apiVersion: apps/v1\nkind: DaemonSet\nspec: {selector: {matchLabels: {a: b}}, template: " + always + "}\n",
		"Job":       "apiVersion: batch/v1\nkind: Job\nspec: {suspend: true, template: " + never + "}\n",
		"CronJob": "apiVersion: batch/v1\nkind: CronJob\nspec: {suspend: true, schedule: '0 0 1 1 *', jobTemplate: {spec: {template: " +
			never + "}}}\n",
		"Pod":             "apiVersion: v1\nkind: Pod\nspec: {serviceAccountName: collector, containers: [{name: c, image: none}]}\n",
		"ManagedResource": "apiVersion: resources.gardener.cloud/v1alpha1\nkind: ManagedResource\nspec: {secretRefs: []}\n",
		"Prometheus":      "apiVersion: monitoring.coreos.com/v1\nkind: Prometheus\nspec: {}\n",
	}
}

// All objects are in the target, so that no object of the source can protect them.
func TestReferencedObjectsStay(t *testing.T) {
	s := newScene(t, options{twoClusters: true})
	s.servePrometheus()
	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Namespace, Name: "of-the-source",
		Labels: map[string]string{"resources.gardener.cloud/garbage-collectable-reference": "true"},
	}}
	s.Expect(s.Source.Create(s.Ctx, other)).To(Succeed())
	var want []string
	for kind, manifest := range referrerManifests() {
		by := strings.ToLower(kind)
		for _, each := range []string{"ConfigMap/" + by, "Secret/" + by} {
			s.collectable(each)
			want = append(want, each)
		}
		s.collectable("ConfigMap/unused-"+by, "Secret/unused-"+by)
		s.Create(manifest + s.referring(by, "configmap-12345678: "+by, "secret-12345678: "+by))
	}
	s.Expect(s.run()).To(Succeed())
	s.Expect(s.left()).To(ConsistOf(want))
	s.Expect(s.Source.Get(s.Ctx, client.ObjectKeyFromObject(other), other)).To(Succeed(), "an object of the source")
}

func TestWhatProtectsAndWhatDoesNot(t *testing.T) {
	s := newScene(t, options{})
	elsewhere := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: s.Namespace + "-"}}
	s.Expect(s.Target.Create(s.Ctx, elsewhere)).To(Succeed())
	s.collector.Namespaces = []string{s.Namespace, elsewhere.Name}
	deployment := referrerManifests()["Deployment"]

	s.object(s.Namespace, "Secret/unlabelled", nil, nil)
	s.object(s.Namespace, "Secret/labelled-otherwise", map[string]string{"resources.gardener.cloud/garbage-collectable-reference": "True"},
		nil)
	s.object(s.Namespace, "Secret/to-be-kept", map[string]string{"resources.gardener.cloud/garbage-collectable-reference": "true"},
		map[string]string{"resources.gardener.cloud/keep-object": "true"})
	s.collectable("Secret/bogus-hash", "Secret/in-pod-template", "Secret/in-other-namespace", "ConfigMap/other-kind")
	s.object(s.Namespace, "Secret/in-deletion", map[string]string{"resources.gardener.cloud/garbage-collectable-reference": "true"}, nil,
		"example.com/stuck")
	s.Remove("v1/Secret", "in-deletion")
	s.Create(deployment + s.referring("hash", "secret-foo: bogus-hash", "secret-12345678: other-kind"))
	s.Create(strings.Replace(deployment, "metadata: {labels: {a: b}}",
		"metadata: {labels: {a: b}, annotations: {reference.resources.gardener.cloud/secret-e4e3c3b6: in-pod-template}}", 1) +
		s.referring("template"))
	s.Create(strings.Replace(deployment+s.referring("elsewhere", "secret-12345678: in-other-namespace"), "namespace: "+s.Namespace,
		"namespace: "+elsewhere.Name, 1))

	s.Expect(s.run()).To(Succeed())
	s.Expect(s.left()).To(Equal([]string{
		"Secret/bogus-hash", "Secret/in-deletion", "Secret/labelled-otherwise", "Secret/to-be-kept",
		"Secret/unlabelled",
	}))
	s.Expect(s.line.requests()).NotTo(ContainElement("DELETE /api/v1/namespaces/" + s.Namespace + "/secrets/in-deletion"))
	s.Patch("v1/Secret", "in-deletion", `{"metadata":{"finalizers":null}}`)
}

func TestYoungObjectsStay(t *testing.T) {
	s := newScene(t, options{})
	s.collectable("Secret/unused")
	created := s.Live("v1/Secret", "unused").GetCreationTimestamp()
	now := clocktesting.NewFakePassiveClock(created.Add(10*time.Minute - time.Nanosecond))
	s.collector.Clock, s.collector.MinimumAge = now, 10*time.Minute
	s.Expect(s.run()).To(Succeed())
	s.Expect(s.left()).To(Equal([]string{"Secret/unused"}))
	s.Expect(s.metric("espalier_managedresource_garbage_found", "Secret")).To(Equal(0.0))

	now.SetTime(created.Add(10 * time.Minute))
	s.Expect(s.run()).To(Succeed())
	s.Expect(s.left()).To(BeEmpty())
}

func TestReportsDeleteNothing(t *testing.T) {
	s := newScene(t, options{})
	s.collector.Own.GarbageCollectionReportOnly = ptr.To(true)
	s.collectable("ConfigMap/unused", "Secret/unused", "Secret/used")
	s.Create(referrerManifests()["Pod"] + s.referring("user", "secret-12345678: used"))
	for range 2 {
		s.Expect(s.run()).To(Succeed())
		for _, each := range s.line.requests() {
			s.Expect(each).To(HavePrefix("GET "))
		}
	}
	s.Expect(s.left()).To(Equal([]string{"ConfigMap/unused", "Secret/unused", "Secret/used"}))
	s.Expect(s.metric("espalier_managedresource_garbage_found", "ConfigMap")).To(Equal(1.0))
	s.Expect(s.metric("espalier_managedresource_garbage_found", "Secret")).To(Equal(1.0))
	s.Expect(s.metric("espalier_managedresource_garbage_collected_total", "Secret")).To(Equal(0.0))

	s.collectable("Secret/another")
	s.Expect(s.run()).To(Succeed())
	s.Eventually(s.eventNotes).WithTimeout(managedresourcetest.Patience).Should(HaveExactElements(
		HavePrefix("Normal GarbageFound ConfigMap/unused: Would be deleted, but garbage collection only reports: created at "),
		HavePrefix("Normal GarbageFound Secret/another: "),
		HavePrefix("Normal GarbageFound Secret/unused: "),
	))
	list := &corev1.EventList{}
	s.Expect(s.Target.List(s.Ctx, list, client.InNamespace(s.Namespace))).To(Succeed())
	for _, each := range list.Items {
		s.Expect(each.Series).To(BeNil(), "reported again: %s", each.Message)
	}
}

// Objects that a set needs are kept, even without annotations.
func TestWhatSetsNeedStays(t *testing.T) {
	s := newScene(t, options{})
	s.collectable("Secret/read", "Secret/read-before", "ConfigMap/contained", "ConfigMap/of-another-instance")
	for name, finalizer := range map[string]string{"contained": "", "of-another-instance": "-seed"} {
		mr := s.ManagedResource(name)
		mr.Finalizers = []string{"resources.gardener.cloud/gardener-resource-manager" + finalizer}
		mr.Spec.SecretRefs = append(mr.Spec.SecretRefs, corev1.LocalObjectReference{Name: "read"})
		s.Expect(s.Source.Create(s.Ctx, mr)).To(Succeed())
		patch := fmt.Sprintf(`{"status":{"resources":[{"apiVersion":"v1","kind":"ConfigMap","namespace":%q,"name":%q}]}}`, s.Namespace, name)
		s.Expect(s.Source.Status().Patch(s.Ctx, mr, client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
	}
	s.Expect(s.run()).To(Succeed())
	s.Expect(s.left()).To(Equal([]string{"ConfigMap/contained", "Secret/read"}))
	for _, name := range []string{"contained", "of-another-instance"} {
		s.Patch("resources.gardener.cloud/v1alpha1/ManagedResource", name, `{"metadata":{"finalizers":null}}`)
	}
}

// A collector that is not restricted to namespaces lists each kind once. It only reports here, because other tests use the cluster too.
func TestAllNamespacesAreListedAtOnce(t *testing.T) {
	s := newScene(t, options{})
	s.collector.Namespaces, s.collector.Own.GarbageCollectionReportOnly = nil, ptr.To(true)
	var paths []string
	s.line.by(func(request *http.Request) (*http.Response, error) {
		if request.URL.Query().Has("limit") {
			paths = append(paths, request.Method+" "+request.URL.Path)
		}
		if strings.HasSuffix(request.URL.Path, "/secrets") || strings.HasSuffix(request.URL.Path, "/configmaps") {
			return page(request, s.Namespace, "a", "b"), nil
		}
		return nil, nil
	})
	s.Create(referrerManifests()["Pod"] + s.referring("user", "secret-12345678: a"))
	s.Expect(s.run()).To(Succeed())
	s.Expect(s.metric("espalier_managedresource_garbage_found", "Secret")).To(Equal(1.0))
	look := []string{
		"GET /apis/resources.gardener.cloud/v1alpha1/managedresources", "GET /apis/monitoring.coreos.com/v1/prometheuses", "GET /apis/apps/v1/" +
			"deployments",
		"GET /apis/apps/v1/statefulsets", "GET /apis/apps/v1/daemonsets", "GET /apis/batch/v1/cronjobs", "GET /apis/batch/v1/jobs", "GET /api/" +
			"v1/pods",
	}
	s.Expect(distinct(paths)).To(Equal(append([]string{"GET /api/v1/configmaps", "GET /api/v1/secrets"}, look...)))
}

// The controller serves one namespace. Sets in other namespaces protect their Secrets too, and, if they have the finalizer of this
// controller, their objects.
func TestSetsInNamespacesThatAreNotServedProtect(t *testing.T) {
	s := newScene(t, options{})
	elsewhere := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: s.Namespace + "-"}}
	s.Expect(s.Target.Create(s.Ctx, elsewhere)).To(Succeed())
	label := map[string]string{"resources.gardener.cloud/garbage-collectable-reference": "true"}
	for _, each := range []string{"of-a-set", "of-no-set"} {
		s.object(elsewhere.Name, "Secret/"+each, label, nil)
	}
	mr := s.ManagedResource("mr", "of-a-set")
	mr.Namespace = elsewhere.Name
	s.Expect(s.Source.Create(s.Ctx, mr)).To(Succeed())
	s.collector.Namespaces = []string{s.Namespace, elsewhere.Name}
	s.collector.Sets = client.NewNamespacedClient(s.Source, s.Namespace)
	s.collector.SetsBeyond = unreadable{Reader: s.Source, failure: errors.New("synthetic")}
	s.Expect(s.run()).To(MatchError("list managedresources.resources.gardener.cloud: synthetic"))
	live, err := client.New(s.own, client.Options{Scheme: s.Source.Scheme()})
	s.Expect(err).NotTo(HaveOccurred())
	s.collector.SetsBeyond = live
	s.Expect(s.run()).To(Succeed())
	var left []string
	secrets := &corev1.SecretList{}
	s.Expect(s.Target.List(s.Ctx, secrets, client.InNamespace(elsewhere.Name), client.MatchingLabels(label))).To(Succeed())
	for _, each := range secrets.Items {
		left = append(left, each.Name)
	}
	s.Expect(left).To(Equal([]string{"of-a-set"}))
}

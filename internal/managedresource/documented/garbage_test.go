package documented_test

import (
	"context"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/garbagecollector"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/test/local"
)

// garbageExamples are the examples for the garbage collector.
func garbageExamples() map[string]example {
	return map[string]example{"collectable-object": collectableObject(), "collectable-secret": collectableSecret()}
}

func collecting(cfg *config.ResourceManagerConfiguration) {
	cfg.Controllers.GarbageCollector.Enabled = true
}

// collect makes a garbage collector run once in the scene's namespace, with a clock that is ahead by the given duration, the shipped
// minimum age and the shipped role. The collector in the controller of the scene found all objects too young at its start, and runs again
// only after an hour.
func (s *scene) collect(later time.Duration) {
	s.T.Helper()
	connection := s.collectorConnection()
	httpClient, err := rest.HTTPClientFor(connection)
	s.Expect(err).NotTo(HaveOccurred())
	objects, err := metadata.NewForConfigAndClient(connection, httpClient)
	s.Expect(err).NotTo(HaveOccurred())
	mapper, err := process.NewMapper(connection, httpClient, clock.RealClock{}, time.Minute)
	s.Expect(err).NotTo(HaveOccurred())
	collector := &garbagecollector.Collector{
		Client: objects, Mapper: mapper, Sets: s.Source, SameCluster: func(context.Context) bool { return s.Source == s.Target },
		Finalizer: "resources.gardener.cloud/gardener-resource-manager",
		Events:    &garbagecollector.Events{Recorder: events.NewFakeRecorder(10)},
		Metrics:   garbagecollector.NewMetrics(prometheus.NewRegistry()), Clock: clocktesting.NewFakePassiveClock(clock.RealClock{}.Now().
				Add(later)),
		Namespaces: []string{s.Namespace}, MinimumAge: garbagecollector.DefaultMinimumAge,
		Config: config.GarbageCollectorController{SyncPeriod: &metav1.Duration{Duration: time.Hour}},
		Own:    config.EspalierManagedResource{MaxConcurrentRequests: ptr.To(1), GarbageCollectionReportOnly: ptr.To(false)},
	}
	_, err = collector.Reconcile(s.Ctx, ctrl.Request{})
	s.Expect(err).NotTo(HaveOccurred())
}

// collectorConnection connects to the target as a ServiceAccount with the collector's role in the scene's namespace.
func (s *scene) collectorConnection() *rest.Config {
	s.T.Helper()
	const account, role = "garbage-collector", "espalier-managedresource-controller-target-garbagecollector"
	servers, err := local.ForTests()
	s.Expect(err).NotTo(HaveOccurred())
	admin := servers.Target.Config
	if s.Source == s.Target {
		admin = servers.Source.Config
	}
	err = s.Target.Create(s.Ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: account}})
	s.Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
	err = s.Target.Create(s.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.Namespace, Name: account}},
	})
	s.Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
	s.soon(func() (bool, error) { // the API server's authorizer learns of roles from its own watches
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + s.Namespace + ":" + account,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: s.Namespace, Group: "monitoring.coreos.com", Resource: "prometheuses",
				Verb: "list",
			},
		}}
		failure := s.Target.Create(s.Ctx, review)
		return review.Status.Allowed, failure
	}).Should(BeTrue())
	kubeconfig, err := local.ServiceAccountKubeconfig(s.Ctx, admin, s.Namespace, account, time.Hour)
	s.Expect(err).NotTo(HaveOccurred())
	connection, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	s.Expect(err).NotTo(HaveOccurred())
	return connection
}

// eleven minutes are longer than the shipped minimum age.
const eleven = 11 * time.Minute

func collectableObject() example {
	const old, oldKey = "settings-2fcdec91", "configmap-722e3460"
	renamed := []string{"name: " + old + "\n      namespace", "name: settings-8f0a77e1\n      namespace"}
	everywhere := func(name, hash string) []string { return []string{old, name, oldKey, "configmap-" + hash} }
	return example{configure: collecting, claims: map[string]func(s *scene){
		"Rename the ConfigMap, but not in the Deployment: the former one stays, and the annotation protects it from " +
			"the collector.": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.change(renamed...)
			s.Expect(s.managed()).To(Equal([]string{"ConfigMap/settings-8f0a77e1", "Deployment/web"}))
			s.collect(eleven)
			s.Expect(s.LiveConfigMap(old)).NotTo(BeNil())
		},
		"Rename it in the Deployment too: the former one stays until it is ten minutes old, and is collected then.": func(s *scene) {
			s.change(everywhere("settings-8f0a77e1", "5b8d5a3c")...)
			s.Expect(s.LiveConfigMap(old)).NotTo(BeNil())
			s.collect(0)
			s.Expect(s.LiveConfigMap(old)).NotTo(BeNil())
			s.collect(eleven)
			s.Expect(s.LiveConfigMap(old)).To(BeNil())
			s.Expect(s.LiveConfigMap("settings-8f0a77e1")).NotTo(BeNil())
		},
		"Write configmap-722e-3460 into the key: it protects nothing.": func(s *scene) {
			s.change()
			s.change(append([]string{oldKey + ": " + old + "\n    spec", "configmap-722e-3460: " + old + "\n    spec"}, renamed...)...)
			s.Expect(s.LiveConfigMap(old)).NotTo(BeNil())
			s.collect(eleven)
			s.Expect(s.LiveConfigMap(old)).To(BeNil())
		},
		"Write True as the label's value, and take the ConfigMap out: neither the set nor the collector deletes it.": func(s *scene) {
			s.change(`reference: "true"`, `reference: "True"`)
			s.change(everywhere("settings-3c1d9f02", "0d7e6f11")...)
			s.collect(eleven)
			s.Expect(s.LiveConfigMap("settings-3c1d9f02")).NotTo(BeNil())
			s.Expect(s.LiveConfigMap(old)).NotTo(BeNil())
		},
		"Annotate the live Deployment with another reference: the annotation is removed.": func(s *scene) {
			s.Patch(deployment, "web", `{"metadata":{"annotations":{"reference.resources.gardener.cloud/secret-1":"another"}}}`)
			s.soon(func() map[string]string { return s.Live(deployment, "web").GetAnnotations() }).
				ShouldNot(HaveKey("reference.resources.gardener.cloud/secret-1"))
		},
		"With the collector switched off: the ConfigMap is deleted when it leaves the set, like any other.": func(s *scene) {
			s.Restart(func() { s.Config.Controllers.GarbageCollector.Enabled = false })
			s.change(everywhere("settings-60b725f1", "77ad2b90")...)
			s.Expect(s.LiveConfigMap("settings-3c1d9f02")).To(BeNil())
			s.Expect(s.LiveConfigMap("settings-60b725f1")).NotTo(BeNil())
		},
	}}
}

func collectableSecret() example {
	const old, next = "manifests-5f2a44c1", "manifests-77d2e8b0"
	secret := func(s *scene) string {
		err := s.Source.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: old}, &corev1.Secret{})
		return string(apierrors.ReasonForError(err))
	}
	return example{oneCluster: true, configure: collecting, claims: map[string]func(s *scene){
		"The Secret is not collected, however old it is. (Espalier's collector would see secretRefs too; Gardener's looks at the annotation " +
			"only.)": func(s *scene) {
			s.apply()
			s.awaitApplied(applied)
			s.collect(24 * time.Hour)
			s.Expect(secret(s)).To(BeEmpty())
		},
		"Let the set name another Secret, but leave the annotation: the former Secret is not collected.": func(s *scene) {
			s.Secret(next, s.here("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: catalogue, namespace: shop}\ndata: {pages: '2'}"))
			s.change("- name: "+old, "- name: "+next)
			s.collect(eleven)
			s.Expect(secret(s)).To(BeEmpty())
		},
		"Change the annotation too: the former Secret is collected.": func(s *scene) {
			s.apply("- name: "+old, "- name: "+next, "cloud/secret-", "cloud/secret-0", ": "+old+"\nspec", ": "+next+"\nspec")
			s.collect(eleven)
			s.Expect(secret(s)).To(Equal("NotFound"))
		},
	}}
}

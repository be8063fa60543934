package garbagecollector_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/garbagecollector"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/test/local"
)

const role = "espalier-managedresource-controller-target-garbagecollector"

// scene is a separate namespace, and a collector that works in it and has only the permissions of its role.
type scene struct {
	*managedresourcetest.Env
	collector *garbagecollector.Collector
	registry  *prometheus.Registry
	// own is the configuration of the collector's client for the target.
	own *rest.Config
	// line records the requests of the collector, and can replace the responses.
	line *line
}

// options are the settings of a scene.
type options struct {
	twoClusters bool
	// noRights starts the collector without its role.
	noRights bool
}

func newScene(t *testing.T, o options) *scene {
	t.Helper()
	s := &scene{
		Env:      managedresourcetest.New(t, managedresourcetest.Options{Stopped: true, TwoClusters: o.twoClusters}),
		registry: prometheus.NewRegistry(),
		line:     &line{},
	}
	connection := s.identity(o)
	connection.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{s.line, next} })
	s.own = connection
	httpClient, err := rest.HTTPClientFor(connection)
	s.Expect(err).NotTo(HaveOccurred())
	metadataClient, err := metadata.NewForConfigAndClient(connection, httpClient)
	s.Expect(err).NotTo(HaveOccurred())
	mapper, err := process.NewMapper(connection, httpClient, clock.RealClock{}, time.Minute)
	s.Expect(err).NotTo(HaveOccurred())
	clients, err := kubernetes.NewForConfigAndClient(connection, httpClient)
	s.Expect(err).NotTo(HaveOccurred())
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: clients.EventsV1()})
	s.Expect(broadcaster.StartRecordingToSinkWithContext(t.Context())).To(Succeed())
	t.Cleanup(broadcaster.Shutdown)
	s.collector = &garbagecollector.Collector{
		Client: metadataClient, Mapper: mapper, Sets: s.Source, SameCluster: func(context.Context) bool { return !o.twoClusters },
		Finalizer: "resources.gardener.cloud/gardener-resource-manager",
		Events: &garbagecollector.Events{Recorder: broadcaster.NewRecorder(clientgoscheme.Scheme,
			"test")}, Metrics: garbagecollector.NewMetrics(s.registry),
		Clock: clock.RealClock{}, Namespaces: []string{s.Namespace},
		Config: config.GarbageCollectorController{SyncPeriod: &metav1.Duration{Duration: time.Hour}},
		Own:    config.EspalierManagedResource{MaxConcurrentRequests: ptr.To(4), GarbageCollectionReportOnly: ptr.To(false)},
	}
	return s
}

// identity returns a connection to the target as a ServiceAccount with the shipped role.
func (s *scene) identity(o options) *rest.Config {
	s.T.Helper()
	const account = "collector"
	servers, err := local.ForTests()
	s.Expect(err).NotTo(HaveOccurred())
	admin := servers.Source.Config
	if o.twoClusters {
		admin = servers.Target.Config
	}
	s.Expect(s.Target.Create(s.Ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: account}})).
		To(Succeed())
	if !o.noRights {
		s.Expect(s.Target.Create(s.Ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: s.Namespace + "-collector"},
			RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.Namespace, Name: account}},
		})).To(Succeed())
		s.Eventually(func() (bool, error) { // the API server's authorizer learns of roles from its own watches
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               "system:serviceaccount:" + s.Namespace + ":" + account,
				ResourceAttributes: &authorizationv1.ResourceAttributes{Group: "monitoring.coreos.com", Resource: "prometheuses", Verb: "list"},
			}}
			failure := s.Target.Create(s.Ctx, review)
			return review.Status.Allowed, failure
		}).WithTimeout(managedresourcetest.Patience).Should(BeTrue())
	}
	kubeconfig, err := local.ServiceAccountKubeconfig(s.Ctx, admin, s.Namespace, account, time.Hour)
	s.Expect(err).NotTo(HaveOccurred())
	connection, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	s.Expect(err).NotTo(HaveOccurred())
	connection.QPS = -1
	return connection
}

// run makes the collector run once and returns its error.
func (s *scene) run() error {
	s.T.Helper()
	return s.runUntil(s.collector.Config.SyncPeriod.Duration)
}

// runUntil is like run, and requires that the collector requests the next run after the given pause.
func (s *scene) runUntil(pause time.Duration) error {
	s.T.Helper()
	s.line.reset()
	result, err := s.collector.Reconcile(s.Ctx, ctrl.Request{})
	if err == nil {
		s.Expect(result).To(Equal(ctrl.Result{RequeueAfter: pause}))
	}
	return err
}

// collectable creates ConfigMaps or Secrets of the target that may be deleted, as "ConfigMap/name".
func (s *scene) collectable(names ...string) {
	s.T.Helper()
	for _, each := range names {
		s.object(s.Namespace, each, map[string]string{"resources.gardener.cloud/garbage-collectable-reference": "true"}, nil)
	}
}

// object creates a ConfigMap or Secret of the target with the given labels, and with the label by which left finds it.
func (s *scene) object(namespace, name string, labels, annotations map[string]string, finalizers ...string) {
	s.T.Helper()
	kind, name, found := strings.Cut(name, "/")
	s.Expect(found).To(BeTrue())
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("v1")
	object.SetKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	object.SetAnnotations(annotations)
	object.SetFinalizers(finalizers)
	all := map[string]string{"part-of": "test"}
	maps.Copy(all, labels)
	object.SetLabels(all)
	s.Expect(s.Target.Create(s.Ctx, object)).To(Succeed())
}

// left lists the ConfigMaps and Secrets that were created by object and still exist in the scene's namespace.
func (s *scene) left() []string {
	s.T.Helper()
	names := []string{}
	for _, kind := range []string{"ConfigMap", "Secret"} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: kind + "List"})
		s.Expect(s.Target.List(s.Ctx, list, client.InNamespace(s.Namespace), client.MatchingLabels{"part-of": "test"})).To(Succeed())
		for _, each := range list.Items {
			names = append(names, kind+"/"+each.Name)
		}
	}
	slices.Sort(names)
	return names
}

// referring returns the metadata of an object with reference annotations, each given as "<kind and hash>: <name>".
func (s *scene) referring(name string, references ...string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "metadata:\n  name: %s\n  namespace: %s\n  annotations:\n    some: thing\n", name, s.Namespace)
	for _, each := range references {
		fmt.Fprintf(&text, "    reference.resources.gardener.cloud/%s\n", each)
	}
	return text.String()
}

// eventNotes lists the Events about ConfigMaps and Secrets of the target as "type reason Kind/name: note".
func (s *scene) eventNotes() []string {
	s.T.Helper()
	list := &corev1.EventList{}
	s.Expect(s.Target.List(s.Ctx, list, client.InNamespace(s.Namespace))).To(Succeed())
	notes := []string{}
	for _, each := range list.Items {
		if about := each.InvolvedObject; about.Kind == "ConfigMap" || about.Kind == "Secret" {
			notes = append(notes, each.Type+" "+each.Reason+" "+about.Kind+"/"+about.Name+": "+each.Message)
		}
	}
	slices.Sort(notes)
	return notes
}

// metric returns the value of a metric that has one label, whose value is kind. If kind is "", it returns the value of the metric without
// labels. If the metric does not exist, it returns -1.
func (s *scene) metric(name, kind string) float64 {
	s.T.Helper()
	families, err := s.registry.Gather()
	s.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			ofKind := kind == "" && len(metric.GetLabel()) == 0 || kind != "" && len(metric.GetLabel()) == 1 &&
				metric.GetLabel()[0].GetValue() == kind
			if family.GetName() == name && ofKind {
				return metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	return -1
}

// servePrometheus makes the target serve the kind Prometheus.
func (s *scene) servePrometheus() {
	s.T.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "prometheuses.yaml"))
	s.Expect(err).NotTo(HaveOccurred())
	definition := &unstructured.Unstructured{}
	s.Expect(yamlInto(content, definition)).To(Succeed())
	s.Expect(client.IgnoreAlreadyExists(s.Target.Create(s.Ctx, definition))).To(Succeed())
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "PrometheusList"})
	s.Eventually(func() error { return s.Target.List(s.Ctx, list, client.InNamespace(s.Namespace)) }).
		WithTimeout(managedresourcetest.Patience).Should(Succeed())
}

// line records the requests of a collector, except for Events and discovery, and may answer instead of the API server.
type line struct {
	mu     sync.Mutex
	seen   []string
	answer func(*http.Request) (*http.Response, error)
}

// by sets the function that answers requests: (nil, nil) forwards a request to the API server.
func (l *line) by(answer func(*http.Request) (*http.Response, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer = answer
}

func (l *line) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = nil
}

// requests lists the requests since the last run began, sorted.
func (l *line) requests() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(slices.Values(l.seen))
}

type transport struct {
	*line
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	t.mu.Lock()
	answer := t.answer
	if path := request.URL.Path; strings.Contains(path, "/namespaces/") && !strings.HasSuffix(path, "/events") {
		t.seen = append(t.seen, request.Method+" "+path)
	}
	t.mu.Unlock()
	if answer != nil {
		if response, err := answer(request); response != nil || err != nil {
			return response, err
		}
	}
	return t.next.RoundTrip(request)
}

// status returns the response of an API server to a failed request.
func status(request *http.Request, code int, reason string) *http.Response {
	return answer(request, code,
		fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"synthetic","reason":%q,"code":%d}`, reason, code))
}

func answer(request *http.Request, code int, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": []string{"application/json"}}, Body: io.NopCloser(bytes.NewBufferString(body)),
	}
}

// fail answers requests for one resource or object with 503.
func (l *line) fail(method, suffix string) {
	l.by(func(request *http.Request) (*http.Response, error) {
		if request.Method == method && strings.HasSuffix(request.URL.Path, suffix) {
			return status(request, http.StatusServiceUnavailable, "ServiceUnavailable"), nil
		}
		return nil, nil
	})
}

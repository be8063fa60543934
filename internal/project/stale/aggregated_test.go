package stale_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/projecttest"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// recovery is how long it may take until an API server notices that the other API server is available again, and the controller retries
// after repeated failures.
const recovery = 90 * time.Second

// extension is an aggregated API server for the first API server. It forwards each request to the second API server of the test run as an
// administrator, because the first has already authorized the user.
type extension struct {
	*httptest.Server
	down atomic.Bool
}

func newExtension(s *fixture, behind *rest.Config) *extension {
	s.T.Helper()
	target, err := url.Parse(behind.Host)
	s.Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TransportFor(behind)
	s.Expect(err).NotTo(HaveOccurred())
	e := &extension{}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Authorization")
		},
	}
	e.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e.down.Load() {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	s.T.Cleanup(func() {
		e.CloseClientConnections() // the API server's watches do not end on their own
		e.Close()
	})
	return e
}

func (e *extension) stop() {
	e.down.Store(true)
	e.CloseClientConnections()
}

func groupService() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("apiregistration.k8s.io/v1")
	object.SetKind("APIService")
	object.SetName("v1beta1.core.gardener.cloud")
	return object
}

// aggregate makes the extension serve the group instead of the CRDs, until the test ends.
func (s *fixture) aggregate(e *extension) {
	s.T.Helper()
	s.RemoveCRD("projects.core.gardener.cloud")
	at, err := url.Parse(e.URL)
	s.Expect(err).NotTo(HaveOccurred())
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "extension"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	s.Expect(s.Admin.Create(s.Ctx, service)).To(Succeed())
	var port int64
	_, err = fmt.Sscan(at.Port(), &port)
	s.Expect(err).NotTo(HaveOccurred())
	s.Eventually(func() error {
		registered := groupService()
		registered.Object["spec"] = map[string]any{
			"group": "core.gardener.cloud", "version": "v1beta1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(10),
			"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": s.Namespace, "name": "extension", "port": port},
		}
		return s.Admin.Create(s.Ctx, registered)
	}).Should(Succeed())
	s.T.Cleanup(func() {
		s.Stop()
		ctx := context.Background()
		s.Expect(s.Admin.Delete(ctx, groupService())).To(Succeed())
		_, err := binary.Install(ctx, s.Admin, "deploy/project-controller/crds/core.gardener.cloud_projects.yaml")
		s.Expect(err).NotTo(HaveOccurred())
		s.Eventually(func() error { return s.Admin.List(ctx, &corev1beta1.ProjectList{}) }).Should(Succeed())
		s.awaitDiscovery(s.Server)
	})
	s.available("True")
}

// awaitDiscovery waits until discovery of an API server lists the kinds of the group. The API server asks for them once a minute,
// and whenever the APIService changes.
func (s *fixture) awaitDiscovery(server *rest.Config) {
	s.T.Helper()
	discovered, err := discovery.NewDiscoveryClientForConfig(server)
	s.Expect(err).NotTo(HaveOccurred())
	admin, err := client.New(server, client.Options{Scheme: s.Admin.Scheme()})
	s.Expect(err).NotTo(HaveOccurred())
	s.Eventually(func() ([]*metav1.APIResourceList, error) {
		if err := touch(admin, groupService()); err != nil {
			return nil, err
		}
		_, lists, err := discovered.ServerGroupsAndResources()
		return lists, err
	}, recovery, 200*time.Millisecond).Should(ContainElement(HaveField("GroupVersion", corev1beta1.SchemeGroupVersion.String())))
}

// touch changes an annotation of an APIService, which makes the API server check the APIService.
func touch(admin client.Client, service *unstructured.Unstructured) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":"%d"}}}`, time.Now().UnixNano())
	return admin.Patch(context.Background(), service, client.RawPatch(types.MergePatchType, patch))
}

// available waits until the condition Available of the APIService has this status. Each attempt changes an annotation, which triggers a new
// check.
func (s *fixture) available(status string) {
	s.T.Helper()
	s.Eventually(func() string {
		found := groupService()
		s.Expect(touch(s.Admin, found)).To(Succeed())
		conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
		for _, each := range conditions {
			if condition, ok := each.(map[string]any); ok && condition["type"] == "Available" {
				return fmt.Sprint(condition["status"])
			}
		}
		return ""
	}, recovery, 500*time.Millisecond).Should(Equal(status))
}

// An aggregated API serves the kinds. While it is down, no project looks unused, no matter how much time passes.
func TestAnOutageOfAnAggregatedAPIMarksAndDeletesNothing(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true, CRDs: []string{}, Project: "staleSyncPeriod: 3s"}) // also the deadline
	servers, err := local.ForTests()
	s.Expect(err).NotTo(HaveOccurred())
	behind, err := client.New(servers.Target.Config, client.Options{Scheme: s.Admin.Scheme()})
	s.Expect(err).NotTo(HaveOccurred())
	_, err = binary.Install(s.Ctx, behind, "deploy/project-controller/crds/*.yaml")
	s.Expect(err).NotTo(HaveOccurred())
	s.awaitDiscovery(servers.Target.Config) // otherwise the first server would retry only a minute later
	e := newExtension(s, servers.Target.Config)
	s.aggregate(e)
	s.awaitDiscovery(s.Server)
	s.Start()

	p := s.project()
	s.Eventually(func() corev1beta1.ProjectPhase { return s.Get(p).Status.Phase }).Should(BeEquivalentTo("Ready"))
	s.Expect(behind.Create(s.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: *p.Spec.Namespace}})).To(Succeed())
	shoot := s.create("Shoot", *p.Spec.Namespace, "s", nil)
	s.age(p, 40*day)
	s.Eventually(func() string { s.status(p, 0, 0, 0); return s.pass(p) }).Should(Equal("used by Shoot"))

	e.stop()
	s.available("False")
	s.Expect(behind.Delete(s.Ctx, shoot)).To(Succeed()) // the controller cannot see this
	s.age(p, 1000*day)
	s.Eventually(func() string { return s.verdicts.of(p).text }).Should(Equal("undecided"))
	seen := s.verdicts.of(p).count
	s.Eventually(func() int { return s.verdicts.of(p).count }).Should(BeNumerically(">", seen+1))
	s.Expect(s.verdicts.of(p).text).To(Equal("undecided"))
	found := &corev1beta1.Project{}
	s.Expect(behind.Get(s.Ctx, client.ObjectKeyFromObject(p), found)).To(Succeed())
	s.Expect(found.DeletionTimestamp).To(BeNil())
	s.Expect(found.Status.StaleSinceTimestamp).To(BeNil())

	e.down.Store(false)
	s.available("True")
	s.Eventually(func() string { return s.verdicts.of(p).text }, recovery).Should(Equal("active"), "a Shoot was deleted")
	s.age(p, 1030*day)
	s.becomes(p, since(1030*day))
	s.Expect(s.deleted(p)).To(BeFalse())
}

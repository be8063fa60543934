package care_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/garden/care"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/crds"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/gardentest"
	"github.com/espalier-dev/espalier/test/binary"
)

// scene is an API server without controllers, a Garden, and a namespace for its components.
type scene struct {
	*gardentest.Place
	clock      *testingclock.FakePassiveClock
	reconciler *care.Reconciler
	garden     *operatorv1alpha1.Garden
}

// etcdCRD is a CRD for Etcds without a schema.
const etcdCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: etcds.druid.gardener.cloud}
spec:
  group: druid.gardener.cloud
  names: {kind: Etcd, plural: etcds}
  scope: Namespaced
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{
		Place: gardentest.New(t, binary.Servers(t).Target.Config, "care-", "deploy/crds/*.yaml"),
		clock: testingclock.NewFakePassiveClock(time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)),
	}
	s.Expect(client.IgnoreAlreadyExists(s.Admin.Create(s.Ctx, binary.Object(s, etcdCRD)))).To(Succeed())
	s.AwaitServed(&resourcesv1alpha1.ManagedResourceList{}, gardentest.List("druid.gardener.cloud/v1alpha1", "Etcd"))
	istio := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "istio-system"}}
	s.Expect(client.IgnoreAlreadyExists(s.Admin.Create(s.Ctx, istio))).To(Succeed())
	period := metav1.Duration{Duration: time.Minute}
	s.reconciler = &care.Reconciler{
		Client: s.Operator, Reader: s.Operator, Clock: s.clock, Namespace: s.Namespace,
		Virtual: func(context.Context) (rest.Interface, error) { return nil, nil }, //nolint:nilnil // there is none
		Config:  config.GardenCareController{SyncPeriod: &period},
	}
	s.garden = s.CreateGarden("{}")
	return s
}

// latest reads the Garden.
func (s *scene) latest() *operatorv1alpha1.Garden {
	s.T.Helper()
	garden := &operatorv1alpha1.Garden{}
	s.Expect(s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(s.garden), garden)).To(Succeed())
	return garden
}

// reconcile reconciles the latest version of the Garden twice, where the second time must not write. It returns the conditions as
// "<status> <reason>: <message>" by their types.
func (s *scene) reconcile() map[string]string {
	s.T.Helper()
	for _, run := range []string{"first", "second"} {
		s.Requests.Reset()
		result, err := s.reconciler.Reconcile(s.Ctx, s.latest())
		s.Expect(err).NotTo(HaveOccurred(), run)
		s.Expect(result.RequeueAfter).To(Equal(time.Minute))
	}
	s.Expect(s.Requests.Writes()).To(BeEmpty())
	conditions := map[string]string{}
	for _, each := range s.latest().Status.Conditions {
		conditions[string(each.Type)] = string(each.Status) + " " + each.Reason + ": " + each.Message
	}
	return conditions
}

const (
	available     = "VirtualGardenAPIServerAvailable"
	runtimes      = "RuntimeComponentsHealthy"
	virtual       = "VirtualComponentsHealthy"
	observability = "ObservabilityComponentsHealthy"
)

// patchStatus merges fields in JSON into the status of an object.
func (s *scene) patchStatus(object client.Object, status string) {
	s.T.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":`+status+`}`))
	s.Expect(s.Admin.Status().Patch(s.Ctx, object, patch)).To(Succeed())
}

func (s *scene) createManagedResource(namespace, name string) *resourcesv1alpha1.ManagedResource {
	s.T.Helper()
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	mr.Spec.SecretRefs = []corev1.LocalObjectReference{{Name: "a"}}
	s.Expect(s.Admin.Create(s.Ctx, mr)).To(Succeed())
	s.DeleteAtEnd(mr)
	return mr
}

// good are the conditions of a healthy ManagedResource.
const good = `{"observedGeneration":1,"conditions":[
	{"type":"ResourcesApplied","status":"True","reason":"a","message":"",
		"lastTransitionTime":"2026-01-02T03:04:05Z","lastUpdateTime":"2026-01-02T03:04:05Z"},
	{"type":"ResourcesHealthy","status":"True","reason":"a","message":"",
		"lastTransitionTime":"2026-01-02T03:04:05Z","lastUpdateTime":"2026-01-02T03:04:05Z"},
	{"type":"ResourcesProgressing","status":"False","reason":"a","message":"",
		"lastTransitionTime":"2026-01-02T03:04:05Z","lastUpdateTime":"2026-01-02T03:04:05Z"}]}`

func TestConditionsFollowRuntimeComponents(t *testing.T) {
	s := newScene(t)
	s.Expect(s.reconcile()).To(Equal(map[string]string{
		available:     "False VirtualGardenAPIServerDown: Could not reach virtual garden API server during client initialization.",
		runtimes:      `False ResourceNotFound: managedresources.resources.gardener.cloud "etcd-druid" not found`,
		virtual:       "False EtcdMissing: Missing required etcds: [virtual-garden-etcd-events virtual-garden-etcd-main]",
		observability: `False ResourceNotFound: managedresources.resources.gardener.cloud "alertmanager-garden" not found`,
	}))
	order := []string{}
	for _, each := range s.latest().Status.Conditions {
		order = append(order, string(each.Type))
	}
	s.Expect(order).To(Equal([]string{available, runtimes, virtual, observability}))

	var all []*resourcesv1alpha1.ManagedResource
	for _, name := range []string{"etcd-druid", "garden-system"} {
		all = append(all, s.createManagedResource(s.Namespace, name))
	}
	for _, name := range []string{"virtual-garden-istio", "istio-system"} {
		all = append(all, s.createManagedResource("istio-system", name))
	}
	s.Expect(s.reconcile()).To(HaveKeyWithValue(runtimes,
		"False OutdatedStatus: observed generation of managed resource '"+s.Namespace+"/etcd-druid' outdated (0/1)"))

	for _, mr := range all {
		s.patchStatus(mr, good)
	}
	s.Expect(s.reconcile()).To(HaveKeyWithValue(runtimes, "True RuntimeComponentsRunning: All runtime components are healthy."))

	s.Expect(s.Admin.Patch(s.Ctx, s.garden, client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec":{"runtimeCluster":{"settings":{"verticalPodAutoscaler":{"enabled":true}}}}}`)))).To(Succeed())
	s.Expect(s.reconcile()).To(HaveKeyWithValue(runtimes, `False ResourceNotFound: managedresources.resources.gardener.cloud "vpa" not found`))
}

// createDeployment creates a healthy Deployment of the control plane.
func (s *scene) createDeployment(name string) *appsv1.Deployment {
	s.T.Helper()
	pods := map[string]string{"app": name}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name, Labels: map[string]string{"gardener.cloud/role": "controlplane"}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: pods},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pods}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
			},
		},
	}
	s.Expect(s.Admin.Create(s.Ctx, d)).To(Succeed())
	s.patchStatus(d, `{"observedGeneration":1,"conditions":[{"type":"Available","status":"True"}]}`)
	return d
}

// etcd returns an Etcd of the control plane with a status in YAML.
func (s *scene) etcd(name, status string) *unstructured.Unstructured {
	s.T.Helper()
	return binary.Object(s, `{apiVersion: druid.gardener.cloud/v1alpha1, kind: Etcd, metadata: {namespace: `+s.Namespace+`, name: `+name+
		`, labels: {gardener.cloud/role: controlplane}}, status: `+status+`}`)
}

func TestConditionsFollowTheControlPlane(t *testing.T) {
	s := newScene(t)
	s.Expect(s.reconcile()).To(HaveKeyWithValue(virtual,
		"False EtcdMissing: Missing required etcds: [virtual-garden-etcd-events virtual-garden-etcd-main]"))
	main := s.etcd("virtual-garden-etcd-main", `{ready: false}`)
	for _, each := range []*unstructured.Unstructured{main, s.etcd("virtual-garden-etcd-events", `{ready: true}`)} {
		s.Expect(s.Admin.Create(s.Ctx, each)).To(Succeed())
	}
	s.Expect(s.reconcile()).To(HaveKeyWithValue(virtual, `False EtcdUnhealthy: `+
		`Etcd extension resource "virtual-garden-etcd-main" is unhealthy: `+
		`etcd "virtual-garden-etcd-main" is not ready yet`))
	ready := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"ready":true}}`))
	s.Expect(s.Admin.Patch(s.Ctx, main, ready)).To(Succeed())

	s.createDeployment("virtual-garden-kube-apiserver")
	s.createDeployment("virtual-garden-kube-controller-manager")
	s.Expect(s.reconcile()).To(HaveKeyWithValue(virtual,
		"False DeploymentMissing: Missing required deployments: [virtual-garden-gardener-resource-manager]"))
	s.createDeployment("virtual-garden-gardener-resource-manager")
	s.Expect(s.reconcile()).To(HaveKeyWithValue(virtual,
		`False ResourceNotFound: managedresources.resources.gardener.cloud "garden-system-virtual" not found`))
}

// The operator of VictoriaMetrics does not run here: the API server accepts its custom resource, and no Deployment is created.
func TestConditionFollowsWorkloadsOfCustomResources(t *testing.T) {
	s := newScene(t)
	kept := []string{"victoria-operator", "victoria-logs"}
	s.reconciler.Operator.VictoriaLogs = true
	s.reconciler.Operator.SkipComponents = slices.DeleteFunc(components.Skippable(), func(name string) bool {
		return slices.Contains(kept, name)
	})
	for _, name := range kept {
		s.patchStatus(s.createManagedResource(s.Namespace, name), good)
	}
	s.Expect(s.reconcile()).To(HaveKeyWithValue(observability, HavePrefix(`False ResourceNotFound: VLSingle "victoria-logs" not found`)))

	s.createDefinition(crds.VictoriaComponent, "vlsingles.operator.victoriametrics.com")
	s.AwaitServed(gardentest.List("operator.victoriametrics.com/v1", "VLSingle"))
	single := binary.Object(s, `{apiVersion: operator.victoriametrics.com/v1, kind: VLSingle, metadata: {name: victoria-logs, namespace: `+
		s.Namespace+`}}`)
	s.Expect(s.Admin.Create(s.Ctx, single)).To(Succeed())
	missing := `False ResourceNotFound: Deployment "vlsingle-victoria-logs" not found`
	s.Expect(s.reconcile()).To(HaveKeyWithValue(observability, HavePrefix(missing)))
	s.patchStatus(single, `{"updateStatus":"failed","reason":"bad image"}`)
	s.Expect(s.reconcile()).To(HaveKeyWithValue(observability, `False VLSingleUnhealthy: VLSingle "victoria-logs" is unhealthy: bad image`))
	s.patchStatus(single, `{"updateStatus":"operational"}`)
	d := s.createDeployment("vlsingle-victoria-logs")
	s.Expect(s.reconcile()).To(HaveKeyWithValue(observability, HavePrefix("True ObservabilityComponentsRunning: ")))
	s.patchStatus(d, `{"conditions":[{"type":"Available","status":"False"}]}`)
	s.Expect(s.reconcile()).To(HaveKeyWithValue(observability, HavePrefix(`False DeploymentUnhealthy: Deployment "vlsingle-victoria-logs" `)))
}

// createDefinition creates one of the definitions of a component.
func (s *scene) createDefinition(of component.Component, name string) {
	s.T.Helper()
	definitions, err := of.Definitions()
	s.Expect(err).NotTo(HaveOccurred())
	i := slices.IndexFunc(definitions, func(each *unstructured.Unstructured) bool { return each.GetName() == name })
	s.Expect(client.IgnoreAlreadyExists(s.Admin.Create(s.Ctx, definitions[i]))).To(Succeed())
}

func TestConditionFollowsTheHealthOfPrometheus(t *testing.T) {
	s := newScene(t)
	s.reconciler.Operator.SkipComponents, s.reconciler.Operator.PrometheusHealthChecks = components.Skippable(), true
	const skipped = "True ObservabilityComponentsSkipped: "
	s.Expect(s.reconcile()).To(HaveKeyWithValue(observability, HavePrefix(skipped)), "the kind is not served")

	up := "1"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Expect(r.Host).To(Equal("prometheus-garden-0.prometheus-operated." + s.Namespace + ".svc:9090"))
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[
			{"metric":{"__name__":"healthcheck:up"},"value":[1,"` + up + `"]},
			{"metric":{"__name__":"healthcheck","task":"target:down","job":"etcd"},"value":[1,"1"]}]}}`))
	}))
	t.Cleanup(server.Close)
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}
	s.reconciler.Prometheus = &http.Client{Transport: &http.Transport{DialContext: dial}}
	s.createDefinition(crds.MonitoringComponent, "prometheuses.monitoring.coreos.com")
	s.AwaitServed(gardentest.List("monitoring.coreos.com/v1", "Prometheus"))
	for name, label := range map[string]string{"garden": "gardener-operator", "seed": "gardenlet"} {
		s.Expect(s.Admin.Create(s.Ctx, binary.Object(s, `{apiVersion: monitoring.coreos.com/v1, kind: Prometheus, metadata: {name: `+name+
			`, namespace: `+s.Namespace+`, labels: {health-check-by: `+label+`}}, spec: {replicas: 1}}`))).To(Succeed())
	}
	s.Expect(s.reconcile()).To(HaveKeyWithValue(observability, HavePrefix(skipped)))
	up = "0"
	s.Expect(s.reconcile()).To(HaveKeyWithValue(observability, HavePrefix(skipped)), "a fault must last for a period")
	s.clock.SetTime(s.clock.Now().Add(time.Minute))
	s.Expect(s.reconcile()).To(HaveKeyWithValue(observability,
		`False PrometheusHealthCheckDown: Prometheus Pod "prometheus-garden-0" is unhealthy: {job="etcd", task="target:down"}`))
	up = "1"
	s.Expect(s.reconcile()).To(HaveKeyWithValue(observability, HavePrefix(skipped)))
}

func TestConditionOfTheAPIServer(t *testing.T) {
	s := newScene(t)
	status, body := http.StatusOK, "ok"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Expect(r.URL.Path).To(Equal("/healthz"))
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	connect := func(address string) rest.Interface {
		c, err := rest.UnversionedRESTClientFor(&rest.Config{
			Host: address, ContentConfig: rest.ContentConfig{NegotiatedSerializer: clientgoscheme.Codecs.WithoutConversion()},
		})
		s.Expect(err).NotTo(HaveOccurred())
		return c
	}
	s.reconciler.Virtual = func(context.Context) (rest.Interface, error) { return connect(server.URL), nil }
	s.Expect(s.reconcile()).To(HaveKeyWithValue(available,
		"True HealthzRequestSucceeded: API server /healthz endpoint responded with success status code."))

	status, body = http.StatusInternalServerError, "etcd failed"
	s.Expect(s.reconcile()).To(HaveKeyWithValue(available,
		"False HealthzRequestError: API server /healthz endpoint check returned a non ok status code 500. (etcd failed)"))

	s.reconciler.Virtual = func(context.Context) (rest.Interface, error) { return connect("http://127.0.0.1:1"), nil }
	s.Expect(s.reconcile()).To(HaveKeyWithValue(available,
		HavePrefix("False HealthzRequestFailed: Request to API server /healthz endpoint failed. [response_time:0ms] (Get ")))

	s.reconciler.Virtual = func(context.Context) (rest.Interface, error) { return nil, errors.New("no kubeconfig") }
	s.Expect(s.reconcile()).To(HaveKeyWithValue(available,
		"False VirtualGardenAPIServerDown: Could not reach virtual garden API server during client initialization."))
}

func TestThresholdDelaysFailure(t *testing.T) {
	s := newScene(t)
	s.reconciler.Config.ConditionThresholds = []config.ConditionThreshold{{Type: runtimes, Duration: metav1.Duration{Duration: time.Minute}}}
	at := s.clock.Now().UTC().Format(time.RFC3339)
	s.patchStatus(s.garden, `{"conditions":[{"type":"RuntimeComponentsHealthy","status":"True","reason":"a","message":"",
		"lastTransitionTime":"`+at+`","lastUpdateTime":"`+at+`"}]}`)

	s.Expect(s.reconcile()).To(HaveKeyWithValue(runtimes, HavePrefix("Progressing ResourceNotFound: ")))
	s.clock.SetTime(s.clock.Now().Add(time.Minute))
	s.Expect(s.reconcile()).To(HaveKeyWithValue(runtimes, HavePrefix("Progressing ResourceNotFound: ")))
	s.clock.SetTime(s.clock.Now().Add(time.Second))
	s.Expect(s.reconcile()).To(HaveKeyWithValue(runtimes, HavePrefix("False ResourceNotFound: ")))
	s.Expect(s.reconcile()).To(HaveKeyWithValue(runtimes, HavePrefix("False ResourceNotFound: ")), "with the same reason")
	s.createManagedResource(s.Namespace, "etcd-druid")
	s.Expect(s.reconcile()).To(HaveKeyWithValue(runtimes, HavePrefix("Progressing OutdatedStatus: ")), "with another reason")

	// Without a threshold, failures show at once.
	s.Expect(s.reconcile()).To(HaveKeyWithValue(observability, HavePrefix("False ")))
}

func TestForeignConditionsAndFieldsSurvive(t *testing.T) {
	s := newScene(t)
	s.patchStatus(s.garden, `{"observedGeneration":7,"conditions":[{"type":"Foreign","status":"True","reason":"a","message":"b",
		"lastTransitionTime":"2026-01-02T03:04:05Z","lastUpdateTime":"2026-01-02T03:04:05Z"}]}`)
	s.Expect(s.reconcile()).To(HaveKeyWithValue("Foreign", "True a: b"))
	s.Expect(s.latest().Status.ObservedGeneration).To(Equal(int64(7)))
	s.Expect(s.latest().Status.Conditions[0].Type).To(Equal(corev1beta1.ConditionType("Foreign")))
}

// Writes of other clients to the status after the Garden was read are not lost, and the conflict is returned.
func TestConcurrentWritesAreNotOverwritten(t *testing.T) {
	s := newScene(t)
	stale := s.latest()
	s.patchStatus(s.garden, `{"lastOperation":{"type":"Reconcile","state":"Processing","progress":50,"description":"d",
		"lastUpdateTime":"2026-01-02T03:04:05Z"},
		"conditions":[{"type":"Foreign","status":"True","reason":"a","message":"b",
		"lastTransitionTime":"2026-01-02T03:04:05Z","lastUpdateTime":"2026-01-02T03:04:05Z"}]}`)
	_, err := s.reconciler.Reconcile(s.Ctx, stale)
	s.Expect(apierrors.IsConflict(errors.Unwrap(err))).To(BeTrue(), "%v", err)
	s.Expect(s.latest().Status.Conditions).To(HaveLen(1))
	s.Expect(s.reconcile()).To(HaveKey("Foreign"))
	s.Expect(s.latest().Status.LastOperation.Progress).To(Equal(int32(50)))
}

func TestPatchHasOwnFieldsOnly(t *testing.T) {
	s := newScene(t)
	recording := s.Requests.Record()
	_, err := s.reconciler.Reconcile(s.Ctx, s.latest())
	s.Expect(err).NotTo(HaveOccurred())
	sent := recording.RequestsTo("PATCH", "/apis/operator.gardener.cloud/v1alpha1/gardens/"+s.garden.Name+"/status")
	s.Expect(sent).To(HaveLen(1))
	s.Expect(sent[0].Body).To(And(HaveLen(2), HaveKey("metadata"), HaveKey("status")))
	s.Expect(sent[0].Body["metadata"]).To(HaveLen(1))
	s.Expect(sent[0].Body["status"]).To(And(HaveLen(1), HaveKey("conditions")))
}

func TestChecksThatFailAreUnknown(t *testing.T) {
	s := newScene(t)
	s.Requests.SetHook(func(request *http.Request) error {
		if request.Method == http.MethodGet && request.URL.Path == "/apis/druid.gardener.cloud/v1alpha1/namespaces/"+s.Namespace+"/etcds" {
			return errors.New("cut off")
		}
		return nil
	})
	s.Expect(s.reconcile()).To(And(
		HaveKeyWithValue(
			virtual, And(HavePrefix("Unknown ConditionCheckError: list etcds of the control plane: "), ContainSubstring("cut off")),
		),
		HaveKeyWithValue(runtimes, HavePrefix("False ResourceNotFound: ")),
	))
}

// timed is a client that stores the deadline of the last patch of a status.
type timed struct {
	client.Client
	deadline *time.Time
}

func (c timed) Status() client.SubResourceWriter { return timedStatus{c.Client.Status(), c.deadline} }

type timedStatus struct {
	client.SubResourceWriter
	deadline *time.Time
}

func (s timedStatus) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	*s.deadline, _ = ctx.Deadline()
	return s.SubResourceWriter.Patch(ctx, o, patch, options...)
}

func TestChecksLeaveTimeToWriteTheirResult(t *testing.T) {
	s := newScene(t)
	var check, write time.Time
	s.reconciler.Client = timed{s.reconciler.Client, &write}
	s.reconciler.Virtual = func(ctx context.Context) (rest.Interface, error) {
		check, _ = ctx.Deadline()
		return nil, errors.New("no kubeconfig")
	}
	_, err := s.reconciler.Reconcile(s.Ctx, s.latest())
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(check).NotTo(BeZero())
	s.Expect(write.Sub(check)).To(BeNumerically(">", 20*time.Second), "of a minute")
}

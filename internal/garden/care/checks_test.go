package care

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/fluentbit"
	"github.com/espalier-dev/espalier/internal/garden/component/victorialogs"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

const (
	apiServerAvailable   = operatorv1alpha1.VirtualGardenAPIServerAvailable
	runtimeHealthy       = operatorv1alpha1.RuntimeComponentsHealthy
	virtualHealthy       = operatorv1alpha1.VirtualComponentsHealthy
	observabilityHealthy = operatorv1alpha1.ObservabilityComponentsHealthy
)

// names are the ManagedResources of a Garden without vertical pod autoscaler.
var names = map[string][]string{
	"garden": {
		"etcd-druid", "garden-system",
		"garden-system-virtual", "gardener-admission-controller-runtime", "gardener-admission-controller-virtual", "gardener-apiserver-runtime",
		"gardener-apiserver-virtual", "gardener-controller-manager-runtime", "gardener-controller-manager-virtual", "gardener-scheduler-runtime",
		"gardener-scheduler-virtual", "shoot-core-gardener-resource-manager", "shoot-core-gardeneraccess", "shoot-core-kube-controller-manager",
		"global-monitoring-virtual", "fluent-bit", "fluent-operator", "fluent-operator-custom-resources-garden",
		"gardener-metrics-exporter-runtime", "gardener-metrics-exporter-virtual", "plutono", "vali",
		"prometheus-operator", "kube-state-metrics-runtime", "alertmanager-garden", "prometheus-garden", "prometheus-garden-target",
		"prometheus-longterm", "blackbox-exporter",
		"virtual-garden-istio-basic-auth-server", "observability-exposure",
	},
	"istio-system": {"virtual-garden-istio", "istio-system"},
}

// observabilityFrom is the position in names of the first ManagedResource of an observability component.
var observabilityFrom = slices.Index(names["garden"], "fluent-bit")

func managedResource(namespace, name string) resourcesv1alpha1.ManagedResource {
	return resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 1},
		Status: resourcesv1alpha1.ManagedResourceStatus{ObservedGeneration: 1, Conditions: []corev1beta1.Condition{
			{Type: "ResourcesApplied", Status: "True"}, {Type: "ResourcesHealthy", Status: "True"}, {Type: "ResourcesProgressing", Status: "False"},
		}},
	}
}

func deployment(name string) appsv1.Deployment {
	return appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 1, Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
		}},
	}
}

// healthy are the facts of a healthy Garden.
func healthy() facts {
	f := facts{namespace: "garden", healthz: healthz{connected: true, status: 200, body: "ok"}, prometheus: verdict{healthy: true}}
	for _, namespace := range []string{"istio-system", "garden"} {
		for _, name := range names[namespace] {
			f.managedResources = append(f.managedResources, managedResource(namespace, name))
		}
	}
	for _, name := range []string{
		"virtual-garden-kube-controller-manager", "virtual-garden-kube-apiserver", "virtual-garden-gardener-resource-manager",
	} {
		f.deployments = append(f.deployments, deployment(name))
	}
	f.etcds = []etcd{{name: "virtual-garden-etcd-main", ready: true}, {name: "virtual-garden-etcd-events", ready: true}}
	f.workloads = map[component.Object]string{}
	for _, each := range workloads(f.values, observabilityHealthy) {
		f.workloads[each] = ""
	}
	return f
}

// workload returns a function that changes the state of a workload.
func workload(kind, name, problem string) func(*facts) {
	return func(f *facts) { f.workloads[component.Workload(kind, name)] = problem }
}

// victoria makes the Garden want VictoriaLogs, which runs.
func victoria(f *facts) {
	f.values.VictoriaLogs = true
	for _, each := range workloads(f.values, observabilityHealthy) {
		f.workloads[each] = ""
	}
	for _, name := range []string{"victoria-operator", "victoria-logs"} {
		f.managedResources = append(f.managedResources, managedResource("garden", name))
	}
}

// change changes the ManagedResource of a name.
func change(name string, how func(*resourcesv1alpha1.ManagedResource)) func(*facts) {
	return func(f *facts) {
		for i := range f.managedResources {
			if f.managedResources[i].Name == name {
				how(&f.managedResources[i])
			}
		}
	}
}

func remove(names ...string) func(*facts) {
	return func(f *facts) {
		f.managedResources = slices.DeleteFunc(f.managedResources, func(mr resourcesv1alpha1.ManagedResource) bool {
			return slices.Contains(names, mr.Name)
		})
	}
}

func setCondition(kind, status string) func(*resourcesv1alpha1.ManagedResource) {
	return func(mr *resourcesv1alpha1.ManagedResource) {
		for i := range mr.Status.Conditions {
			if string(mr.Status.Conditions[i].Type) == kind {
				mr.Status.Conditions[i] = corev1beta1.Condition{
					Type: corev1beta1.ConditionType(kind), Status: corev1beta1.ConditionStatus(status), Reason: kind + "Reason",
					Message: kind + " message",
				}
			}
		}
	}
}

func outdated(mr *resourcesv1alpha1.ManagedResource) { mr.Generation = 2 }

func TestChecks(t *testing.T) {
	fails := setCondition("ResourcesHealthy", "False")
	failure := verdict{reason: "ResourcesHealthyReason", message: "ResourcesHealthy message"}
	notFound := func(name string) verdict {
		return unhealthy("ResourceNotFound", `managedresources.resources.gardener.cloud "`+name+`" not found`)
	}
	for sentence, tc := range map[string]struct {
		change []func(*facts)
		want   map[corev1beta1.ConditionType]verdict // those that are not healthy
	}{
		"all is healthy": {},

		// API server
		"no client": {
			change: []func(*facts){func(f *facts) { f.healthz = healthz{} }},
			want: map[corev1beta1.ConditionType]verdict{apiServerAvailable: unhealthy("VirtualGardenAPIServerDown",
				"Could not reach virtual garden API server during client initialization.")},
		},
		"no answer": {
			change: []func(*facts){func(f *facts) {
				f.healthz = healthz{connected: true, err: errors.New("refused"), took: 1234567 * time.Microsecond}
			}},
			want: map[corev1beta1.ConditionType]verdict{apiServerAvailable: unhealthy("HealthzRequestFailed",
				"Request to API server /healthz endpoint failed. [response_time:1234ms] (refused)")},
		},
		"another answer": {
			change: []func(*facts){func(f *facts) { f.healthz = healthz{connected: true, status: 500, body: "etcd failed"} }},
			want: map[corev1beta1.ConditionType]verdict{apiServerAvailable: unhealthy("HealthzRequestError",
				"API server /healthz endpoint check returned a non ok status code 500. (etcd failed)")},
		},

		// Deployments
		"no Deployments": {
			change: []func(*facts){func(f *facts) { f.deployments = nil }},
			want: map[corev1beta1.ConditionType]verdict{virtualHealthy: unhealthy("DeploymentMissing", "Missing required deployments: "+
				"[virtual-garden-gardener-resource-manager virtual-garden-kube-apiserver virtual-garden-kube-controller-manager]")},
		},
		"a missing Deployment": {
			change: []func(*facts){func(f *facts) { f.deployments = f.deployments[1:] }},
			want: map[corev1beta1.ConditionType]verdict{virtualHealthy: unhealthy("DeploymentMissing",
				"Missing required deployments: [virtual-garden-kube-controller-manager]")},
		},
		"an outdated Deployment": {
			change: []func(*facts){func(f *facts) { f.deployments[1].Generation = 2 }},
			want: map[corev1beta1.ConditionType]verdict{virtualHealthy: unhealthy("DeploymentUnhealthy",
				`Deployment "virtual-garden-kube-apiserver" is unhealthy: observed generation outdated (1/2)`)},
		},
		"a Deployment without condition, after one that is not available": {
			change: []func(*facts){func(f *facts) {
				f.deployments[0].Status.Conditions = nil
				f.deployments[1].Status.Conditions = []appsv1.DeploymentCondition{{Type: "Available", Status: "False", Reason: "R", Message: "m"}}
			}},
			want: map[corev1beta1.ConditionType]verdict{virtualHealthy: unhealthy("DeploymentUnhealthy",
				`Deployment "virtual-garden-kube-apiserver" is unhealthy: condition "Available" has invalid status False (expected True) due to R: m`)},
		},
		"a part of gardener-resource-manager": {
			change: []func(*facts){func(f *facts) {
				f.deployments = append(f.deployments, deployment("virtual-garden-gardener-resource-manager-tokens"))
				f.deployments[3].Status.Conditions = nil
			}},
			want: map[corev1beta1.ConditionType]verdict{virtualHealthy: unhealthy("DeploymentUnhealthy",
				`Deployment "virtual-garden-gardener-resource-manager" is unhealthy: virtual-garden-gardener-resource-manager-tokens: `+
					`condition "Available" is missing`)},
		},

		// Etcds
		"no Etcds": {
			change: []func(*facts){func(f *facts) { f.etcds = nil }},
			want: map[corev1beta1.ConditionType]verdict{virtualHealthy: unhealthy("EtcdMissing",
				"Missing required etcds: [virtual-garden-etcd-events virtual-garden-etcd-main]")},
		},
		"Etcds that are not ready": {
			change: []func(*facts){func(f *facts) { f.etcds[0].ready, f.etcds[1].ready = false, false }},
			want: map[corev1beta1.ConditionType]verdict{virtualHealthy: unhealthy("EtcdUnhealthy",
				`Etcd extension resource "virtual-garden-etcd-events" is unhealthy: etcd "virtual-garden-etcd-events" is not ready yet`)},
		},
		"an Etcd without backup, with an error": {
			change: []func(*facts){func(f *facts) {
				f.etcds[0].hasBackupFailure, f.etcds[0].backupFailure, f.etcds[0].lastError = true, "no bucket", "boom"
			}},
			want: map[corev1beta1.ConditionType]verdict{virtualHealthy: unhealthy("EtcdUnhealthy",
				`Etcd extension resource "virtual-garden-etcd-main" is unhealthy: backup for etcd "virtual-garden-etcd-main" is reported as unready: `+
					`no bucket (boom)`)},
		},
		"a ready Etcd with an error": {change: []func(*facts){func(f *facts) { f.etcds[0].lastError = "boom" }}},
		"Etcds come before Deployments, and those before ManagedResources": {
			change: []func(*facts){func(f *facts) { f.deployments, f.etcds = nil, nil }, remove("gardener-apiserver-runtime")},
			want: map[corev1beta1.ConditionType]verdict{virtualHealthy: unhealthy("EtcdMissing",
				"Missing required etcds: [virtual-garden-etcd-events virtual-garden-etcd-main]")},
		},
		"a backup without bucket": {
			change: []func(*facts){func(f *facts) { f.backup = "no bucket" }},
			want:   map[corev1beta1.ConditionType]verdict{virtualHealthy: unhealthy("BackupIncomplete", "no bucket")},
		},

		// ManagedResources
		"no ManagedResources": {
			change: []func(*facts){func(f *facts) { f.managedResources = nil }},
			want: map[corev1beta1.ConditionType]verdict{
				runtimeHealthy: notFound("etcd-druid"), virtualHealthy: notFound("garden-system-virtual"),
				observabilityHealthy: notFound("alertmanager-garden"),
			},
		},
		"no vertical pod autoscaler": {
			change: []func(*facts){func(f *facts) { f.values.VerticalPodAutoscaler = true }},
			want:   map[corev1beta1.ConditionType]verdict{runtimeHealthy: notFound("vpa")},
		},
		"missing Istio": {
			change: []func(*facts){remove("istio-system")}, want: map[corev1beta1.ConditionType]verdict{runtimeHealthy: notFound("istio-system")},
		},
		"ManagedResources without status": {
			change: []func(*facts){
				change("etcd-druid", func(mr *resourcesv1alpha1.ManagedResource) { mr.Status = resourcesv1alpha1.ManagedResourceStatus{} }),
			},
			want: map[corev1beta1.ConditionType]verdict{runtimeHealthy: unhealthy("OutdatedStatus",
				"observed generation of managed resource 'garden/etcd-druid' outdated (0/1)")},
		},
		"an outdated ManagedResource that cannot be applied": {
			change: []func(*facts){change("vali", outdated), change("vali", func(mr *resourcesv1alpha1.ManagedResource) {
				mr.Status.Conditions[0] = corev1beta1.Condition{Type: "ResourcesApplied", Status: "False", Reason: "ApplyFailed", Message: "m"}
			})},
			want: map[corev1beta1.ConditionType]verdict{observabilityHealthy: unhealthy("ApplyFailed", "m")},
		},
		"an outdated ManagedResource that failed otherwise": {
			change: []func(*facts){change("vali", outdated), change("vali", setCondition("ResourcesApplied", "False"))},
			want: map[corev1beta1.ConditionType]verdict{observabilityHealthy: unhealthy("OutdatedStatus",
				"observed generation of managed resource 'garden/vali' outdated (1/2)")},
		},
		"not applied comes before not healthy": {
			change: []func(*facts){change("vali", setCondition("ResourcesApplied", "Unknown")), change("vali", fails)},
			want:   map[corev1beta1.ConditionType]verdict{observabilityHealthy: unhealthy("ResourcesAppliedReason", "ResourcesApplied message")},
		},
		"not healthy": {
			change: []func(*facts){change("vali", fails)}, want: map[corev1beta1.ConditionType]verdict{observabilityHealthy: failure},
		},
		"health is unknown": {
			change: []func(*facts){change("vali", setCondition("ResourcesHealthy", "Unknown"))},
			want:   map[corev1beta1.ConditionType]verdict{observabilityHealthy: failure},
		},
		"being applied": {change: []func(*facts){change("vali", setCondition("ResourcesApplied", "Progressing"))}},
		"rolling out": {
			change: []func(*facts){change("vali", setCondition("ResourcesProgressing", "True"))},
			want: map[corev1beta1.ConditionType]verdict{
				observabilityHealthy: unhealthy("ResourcesProgressingReason", "ResourcesProgressing message"),
			},
		},
		"perhaps rolling out": {
			change: []func(*facts){change("vali", setCondition("ResourcesProgressing", "Unknown"))},
			want: map[corev1beta1.ConditionType]verdict{
				observabilityHealthy: unhealthy("ResourcesProgressingReason", "ResourcesProgressing message"),
			},
		},
		"missing conditions": {
			change: []func(*facts){change("vali", func(mr *resourcesv1alpha1.ManagedResource) { mr.Status.Conditions = mr.Status.Conditions[2:] })},
			want: map[corev1beta1.ConditionType]verdict{observabilityHealthy: unhealthy("MissingManagedResourceCondition",
				"ManagedResource vali is missing the following condition(s), [ResourcesApplied ResourcesHealthy]")},
		},
		"the first of several by namespace and name": {
			change: []func(*facts){change("istio-system", fails), change("garden-system", outdated)},
			want: map[corev1beta1.ConditionType]verdict{runtimeHealthy: unhealthy("OutdatedStatus",
				"observed generation of managed resource 'garden/garden-system' outdated (1/2)")},
		},
		"a foreign one with a class": {
			change: []func(*facts){
				add("foreign", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = ptr.To("seed") }), change("foreign", fails),
			},
			want: map[corev1beta1.ConditionType]verdict{runtimeHealthy: failure},
		},
		"a foreign one without a class": {
			change: []func(*facts){add("foreign", func(*resourcesv1alpha1.ManagedResource) {}), change("foreign", fails)},
			want:   map[corev1beta1.ConditionType]verdict{virtualHealthy: failure},
		},
		"a foreign one with a label": {
			change: []func(*facts){add("foreign", labelled("ObservabilityComponentsHealthy")), change("foreign", fails)},
			want:   map[corev1beta1.ConditionType]verdict{observabilityHealthy: failure},
		},
		"a required one with the label of another condition": {
			change: []func(*facts){change("fluent-operator", labelled("RuntimeComponentsHealthy")), change("fluent-operator", fails)},
			want:   map[corev1beta1.ConditionType]verdict{runtimeHealthy: failure},
		},
		"a label with another condition": {
			change: []func(*facts){change("vali", labelled("VirtualGardenAPIServerAvailable")), change("vali", fails)},
			want:   map[corev1beta1.ConditionType]verdict{observabilityHealthy: failure},
		},
		"the name of a required one in another namespace": {
			change: []func(*facts){func(f *facts) {
				other := managedResource("istio-system", "vali")
				fails(&other)
				f.managedResources = append(f.managedResources, other)
			}},
			want: map[corev1beta1.ConditionType]verdict{virtualHealthy: failure},
		},

		// workloads of custom resources
		"a StatefulSet that prometheus-operator does not make": {
			change: []func(*facts){func(f *facts) { delete(f.workloads, component.Workload("StatefulSet", "prometheus-garden")) }},
			want: map[corev1beta1.ConditionType]verdict{observabilityHealthy: unhealthy("ResourceNotFound",
				`StatefulSet "prometheus-garden" not found: see the log of the operator that makes it of a custom resource`)},
		},
		"a StatefulSet that is not healthy": {
			change: []func(*facts){workload("StatefulSet", "alertmanager-garden", "not enough ready replicas (1/2)")},
			want: map[corev1beta1.ConditionType]verdict{observabilityHealthy: unhealthy("StatefulSetUnhealthy",
				`StatefulSet "alertmanager-garden" is unhealthy: not enough ready replicas (1/2)`)},
		},
		"a DaemonSet that is not healthy": {
			change: []func(*facts){workload("DaemonSet", fluentbit.ObjectName(false), "too many unavailable pods")},
			want: map[corev1beta1.ConditionType]verdict{observabilityHealthy: unhealthy("DaemonSetUnhealthy",
				`DaemonSet "`+fluentbit.ObjectName(false)+`" is unhealthy: too many unavailable pods`)},
		},
		"VictoriaLogs runs": {change: []func(*facts){victoria}},
		"a VLSingle that its operator cannot apply, before its Deployment": {
			change: []func(*facts){
				victoria, workload("Deployment", "vlsingle-victoria-logs", "boom"),
				func(f *facts) {
					f.workloads[component.Object{GroupVersionKind: victorialogs.Kind, Name: "victoria-logs"}] = "bad image"
				},
			},
			want: map[corev1beta1.ConditionType]verdict{observabilityHealthy: unhealthy("VLSingleUnhealthy",
				`VLSingle "victoria-logs" is unhealthy: bad image`)},
		},
		"a workload of a component that the Garden does not want": {
			change: []func(*facts){workload("Deployment", "vlsingle-victoria-logs", "boom")},
		},
		"ManagedResources come before workloads": {
			change: []func(*facts){change("vali", fails), func(f *facts) { f.workloads = nil }},
			want:   map[corev1beta1.ConditionType]verdict{observabilityHealthy: failure},
		},
		"workloads that cannot be read": {
			change: []func(*facts){func(f *facts) { f.workloadsErr = errors.New("e") }},
			want:   map[corev1beta1.ConditionType]verdict{observabilityHealthy: {err: errors.New("e")}},
		},

		"a Prometheus that is not healthy": {
			change: []func(*facts){func(f *facts) { f.prometheus = unhealthy("PrometheusHealthCheckDown", "m") }},
			want:   map[corev1beta1.ConditionType]verdict{observabilityHealthy: unhealthy("PrometheusHealthCheckDown", "m")},
		},

		// skipped components
		"a skipped component that is not deployed": {
			change: []func(*facts){skip("vali"), remove("vali")},
			want: map[corev1beta1.ConditionType]verdict{observabilityHealthy: {
				healthy: true, reason: "ObservabilityComponentsRunning",
				message: "All other observability components are healthy. The configuration of the operator skips: vali.",
			}},
		},
		"a skipped component that still exists": {
			change: []func(*facts){skip("vali"), change("vali", fails)},
			want:   map[corev1beta1.ConditionType]verdict{observabilityHealthy: failure},
		},
		"a component that waits for its successor": {
			change: []func(*facts){victoria, func(f *facts) { f.values.RemoveVali = true }},
			want: map[corev1beta1.ConditionType]verdict{observabilityHealthy: {
				healthy: true, reason: "ObservabilityComponentsRunning",
				message: "All observability components are healthy. vali stays until VictoriaLogs has run for 15 days.",
			}},
		},
		"web UIs that the gateway would not protect": {
			change: []func(*facts){
				skip("virtual-garden-istio-basic-auth-server"), remove("virtual-garden-istio-basic-auth-server", "observability-exposure"),
			},
			want: map[corev1beta1.ConditionType]verdict{observabilityHealthy: {
				healthy: true, reason: "ObservabilityComponentsRunning",
				message: "All other observability components are healthy. The configuration of the operator skips: " +
					"virtual-garden-istio-basic-auth-server. Web UIs are not exposed, because the gateway cannot ask for a password: use kubectl " +
					"port-forward, for example kubectl -n garden port-forward service/prometheus-garden 9090:80. Components that need a skipped " +
					"one are not deployed either: observability-exposure.",
			}},
		},
		"web UIs without exposure, and a server that stays": {
			change: []func(*facts){skip("observability-exposure", "prometheus-garden", "prometheus-longterm", "alertmanager-garden"), remove(
				"observability-exposure", "prometheus-garden", "prometheus-garden-target", "prometheus-longterm", "alertmanager-garden")},
			want: map[corev1beta1.ConditionType]verdict{observabilityHealthy: {
				healthy: true, reason: "ObservabilityComponentsRunning",
				message: "All other observability components are healthy. The configuration of the operator skips: alertmanager-garden, " +
					"observability-exposure, prometheus-garden, prometheus-longterm. virtual-garden-istio-basic-auth-server stays while one of " +
					"these exists: ManagedResource observability-exposure. Web UIs are not exposed, because the configuration of the operator " +
					"skips observability-exposure: use kubectl port-forward, for example kubectl -n garden port-forward service/plutono 3000. " +
					"Components that need a skipped one are not deployed either: blackbox-exporter.",
			}},
		},
		"a component that the release deploys is missing": {
			change: []func(*facts){skip("vali"), remove("vali", "kube-state-metrics-runtime")},
			want: map[corev1beta1.ConditionType]verdict{observabilityHealthy: unhealthy("ResourceNotFound",
				`managedresources.resources.gardener.cloud "kube-state-metrics-runtime" not found`)},
		},
		"components that need a skipped one": {
			change: []func(*facts){skip("prometheus-operator", "vali"), remove("prometheus-operator", "alertmanager-garden", "prometheus-garden",
				"prometheus-garden-target", "prometheus-longterm", "blackbox-exporter", "vali")},
			want: map[corev1beta1.ConditionType]verdict{observabilityHealthy: {
				healthy: true, reason: "ObservabilityComponentsRunning",
				message: "All other observability components are healthy. The configuration of the operator skips: prometheus-operator, vali. " +
					"Components that need a skipped one are not deployed either: alertmanager-garden, blackbox-exporter, prometheus-garden, " +
					"prometheus-longterm.",
			}},
		},
		"a skipped component that gardenlet needs": {
			change: []func(*facts){skip(components.Skippable()...), remove(slices.DeleteFunc(slices.Clone(names["garden"][observabilityFrom:]),
				func(name string) bool { return name == "prometheus-operator" })...)},
			want: map[corev1beta1.ConditionType]verdict{observabilityHealthy: {
				healthy: true, reason: "ObservabilityComponentsRunning",
				message: "All other observability components are healthy. The configuration of the operator skips: " +
					strings.Join(components.Skippable(), ", ") + ". prometheus-operator stays while one of these exists: Deployment gardenlet, " +
					"ManagedResource alertmanager-garden, ManagedResource prometheus-garden, ManagedResource prometheus-longterm.",
			}},
		},
		"all are skipped": {
			change: []func(*facts){skip(components.Skippable()...), remove(names["garden"][observabilityFrom:]...)},
			want: map[corev1beta1.ConditionType]verdict{observabilityHealthy: {
				healthy: true, reason: "ObservabilityComponentsSkipped",
				message: "No observability components are deployed. The configuration of the operator skips: " +
					strings.Join(components.Skippable(), ", ") + ".",
			}},
		},

		// errors
		"lists that fail": {
			change: []func(*facts){func(f *facts) { f.managedResourcesErr, f.deploymentsErr = errors.New("a"), errors.New("b") }},
			want: map[corev1beta1.ConditionType]verdict{
				runtimeHealthy: {err: errors.New("a")}, virtualHealthy: {err: errors.New("b")}, observabilityHealthy: {err: errors.New("a")},
			},
		},
		"a list of Etcds that fails": {
			change: []func(*facts){func(f *facts) { f.etcdsErr = errors.New("c") }},
			want:   map[corev1beta1.ConditionType]verdict{virtualHealthy: {err: errors.New("c")}},
		},
		"a list of Extensions that fails": {
			change: []func(*facts){func(f *facts) { f.backupErr = errors.New("d") }},
			want:   map[corev1beta1.ConditionType]verdict{virtualHealthy: {err: errors.New("d")}},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			f := healthy()
			for _, each := range tc.change {
				each(&f)
			}
			want := map[corev1beta1.ConditionType]verdict{
				apiServerAvailable: {
					healthy: true, reason: "HealthzRequestSucceeded", message: "API server /healthz endpoint responded with success status code.",
				},
				runtimeHealthy:       {healthy: true, reason: "RuntimeComponentsRunning", message: "All runtime components are healthy."},
				virtualHealthy:       {healthy: true, reason: "VirtualComponentsRunning", message: "All virtual garden components are healthy."},
				observabilityHealthy: {healthy: true, reason: "ObservabilityComponentsRunning", message: "All observability components are healthy."},
			}
			maps.Copy(want, tc.want)
			g.Expect(check(f)).To(Equal(want))
		})
	}
}

func skip(names ...string) func(*facts) { return func(f *facts) { f.values.SkipComponents = names } }

func add(name string, how func(*resourcesv1alpha1.ManagedResource)) func(*facts) {
	return func(f *facts) {
		mr := managedResource("garden", name)
		how(&mr)
		f.managedResources = append(f.managedResources, mr)
	}
}

func labelled(value string) func(*resourcesv1alpha1.ManagedResource) {
	return func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Labels = map[string]string{"care.gardener.cloud/condition-type": value}
	}
}

func TestProblemOfACustomResourceIsInItsStatus(t *testing.T) {
	single := func(status map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		o.SetGroupVersionKind(victorialogs.Kind)
		return o
	}
	g := NewWithT(t)
	g.Expect(problemOf(single(nil))).To(BeEmpty())
	g.Expect(problemOf(single(map[string]any{"updateStatus": "expanding", "reason": "b"}))).To(BeEmpty())
	g.Expect(problemOf(single(map[string]any{"updateStatus": "failed", "reason": "b"}))).To(Equal("b"))
	g.Expect(problemOf(single(map[string]any{"updateStatus": "failed"}))).NotTo(BeEmpty())
}

// Each kind of workload has a reason and a type, so that no condition is without a reason.
func TestKindsOfWorkloadsAreKnown(t *testing.T) {
	g := NewWithT(t)
	all := workloads(values.Values{Operator: values.Operator{OpenTelemetryCollector: true, VictoriaLogs: true}}, observabilityHealthy)
	g.Expect(len(all)).To(BeNumerically(">=", 7))
	for _, each := range all {
		g.Expect(workloadReasons).To(HaveKey(each.Kind), each.Name)
		_, isCustom := newWorkload(each).(*unstructured.Unstructured)
		g.Expect(isCustom).To(Equal(each.Group != appsv1.GroupName), each.Name)
	}
}

func TestEtcdOf(t *testing.T) {
	for sentence, tc := range map[string]struct {
		status string
		want   etcd
	}{
		"no status": {status: `{}`, want: etcd{name: "a"}},
		"ready":     {status: `{ready: true}`, want: etcd{name: "a", ready: true}},
		"an error": {
			status: `{ready: false, lastError: boom, lastErrors: [{description: other}]}`, want: etcd{name: "a", lastError: "boom"},
		},
		"errors": {
			status: `{lastErrors: [{code: A, description: boom}, {description: bang}, 5]}`, want: etcd{name: "a", lastError: "boom; bang"},
		},
		"a backup":          {status: `{conditions: [{type: BackupReady, status: "True", message: m}]}`, want: etcd{name: "a"}},
		"an unknown backup": {status: `{conditions: [{type: BackupReady, status: Unknown, message: m}]}`, want: etcd{name: "a"}},
		"no backup": {
			status: `{conditions: [{type: Ready, status: "False"}, {type: BackupReady, status: "False", message: m}]}`,
			want:   etcd{name: "a", hasBackupFailure: true, backupFailure: "m"},
		},
		"fields of other types": {status: `{ready: 1, lastError: 2, lastErrors: 3, conditions: {}}`, want: etcd{name: "a"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			object := &unstructured.Unstructured{}
			content, err := yaml.YAMLToJSON(
				[]byte(`{apiVersion: druid.gardener.cloud/v1alpha1, kind: Etcd, metadata: {name: a}, status: ` + tc.status + `}`),
			)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(object.UnmarshalJSON(content)).To(Succeed())
			g.Expect(etcdOf(object)).To(Equal(tc.want))
		})
	}
}

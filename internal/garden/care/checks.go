package care

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/health"
)

// healthz is the answer of the API server of the virtual cluster to a request for /healthz.
type healthz struct {
	// connected is false if there is no client for the virtual cluster.
	connected bool
	// err is why there is no answer.
	err    error
	took   time.Duration
	status int
	body   string
}

// etcd is an Etcd of etcd-druid.
type etcd struct {
	name  string
	ready bool
	// backupFailure is the message of a condition BackupReady that is False, which hasBackupFailure says.
	backupFailure    string
	hasBackupFailure bool
	// lastError is the last error of etcd-druid, "" if there is none.
	lastError string
}

// facts are what the checks judge. Lists that could not be read have an error.
type facts struct {
	namespace string // of the Garden
	vpa       bool   // whether the operator deploys the vertical pod autoscaler
	backup    string // what is missing in the backup of the Garden; "" if nothing

	healthz healthz

	managedResources    []resourcesv1alpha1.ManagedResource
	managedResourcesErr error
	deployments         []appsv1.Deployment // of the control plane
	deploymentsErr      error
	etcds               []etcd // of the control plane
	etcdsErr            error
}

// check judges all conditions.
func check(f facts) map[corev1beta1.ConditionType]verdict {
	return map[corev1beta1.ConditionType]verdict{
		operatorv1alpha1.VirtualGardenAPIServerAvailable: checkAPIServer(f.healthz),
		operatorv1alpha1.RuntimeComponentsHealthy: firstFailure(
			verdict{healthy: true, reason: "RuntimeComponentsRunning", message: "All runtime components are healthy."},
			checkManagedResources(f, operatorv1alpha1.RuntimeComponentsHealthy),
		),
		operatorv1alpha1.VirtualComponentsHealthy: firstFailure(
			verdict{healthy: true, reason: "VirtualComponentsRunning", message: "All virtual garden components are healthy."},
			checkEtcds(f), checkDeployments(f), checkBackup(f), checkManagedResources(f, operatorv1alpha1.VirtualComponentsHealthy),
		),
		operatorv1alpha1.ObservabilityComponentsHealthy: firstFailure(
			verdict{healthy: true, reason: "ObservabilityComponentsRunning", message: "All observability components are healthy."},
			checkManagedResources(f, operatorv1alpha1.ObservabilityComponentsHealthy),
		),
	}
}

// firstFailure returns the first verdict that is not healthy, or success.
func firstFailure(success verdict, verdicts ...verdict) verdict {
	if i := slices.IndexFunc(verdicts, func(v verdict) bool { return !v.healthy }); i >= 0 {
		return verdicts[i]
	}
	return success
}

func checkAPIServer(h healthz) verdict {
	const longestBody = 1024
	switch {
	case !h.connected:
		return unhealthy("VirtualGardenAPIServerDown", "Could not reach virtual garden API server during client initialization.")
	case h.err != nil:
		return unhealthy("HealthzRequestFailed", fmt.Sprintf(
			"Request to API server /healthz endpoint failed. [response_time:%dms] (%v)", h.took.Milliseconds(), h.err))
	case h.status != http.StatusOK:
		return unhealthy("HealthzRequestError", fmt.Sprintf(
			"API server /healthz endpoint check returned a non ok status code %d. (%s)", h.status, excerpt.Of(h.body, longestBody)))
	}
	return verdict{
		healthy: true, reason: "HealthzRequestSucceeded", message: "API server /healthz endpoint responded with success status code.",
	}
}

// Names of the control plane of the virtual cluster.
const (
	resourceManager       = "virtual-garden-gardener-resource-manager"
	kubeAPIServer         = "virtual-garden-kube-apiserver"
	kubeControllerManager = "virtual-garden-kube-controller-manager"
	etcdEvents            = "virtual-garden-etcd-events"
	etcdMain              = "virtual-garden-etcd-main"
)

func checkDeployments(f facts) verdict {
	if f.deploymentsErr != nil {
		return verdict{err: f.deploymentsErr}
	}
	sorted := slices.SortedFunc(slices.Values(f.deployments), func(a, b appsv1.Deployment) int { return cmp.Compare(a.Name, b.Name) })
	names := make([]string, 0, len(sorted))
	for i := range sorted {
		names = append(names, sorted[i].Name)
	}
	if missing := without([]string{resourceManager, kubeAPIServer, kubeControllerManager}, names); len(missing) > 0 {
		return unhealthy("DeploymentMissing", fmt.Sprintf("Missing required deployments: %s", missing))
	}
	for i := range sorted {
		if cause := health.Judge(&sorted[i]).Unhealthy; cause != "" {
			return unhealthy("DeploymentUnhealthy", deploymentMessage(sorted[i].Name, cause))
		}
	}
	return verdict{healthy: true}
}

// deploymentMessage names gardener-resource-manager, as users of Gardener know it, if one of the Deployments that are part of it here is
// not healthy.
func deploymentMessage(name, cause string) string {
	if strings.HasPrefix(name, resourceManager+"-") {
		name, cause = resourceManager, name+": "+cause
	}
	return fmt.Sprintf("Deployment %q is unhealthy: %s", name, cause)
}

func checkEtcds(f facts) verdict {
	if f.etcdsErr != nil {
		return verdict{err: f.etcdsErr}
	}
	sorted := slices.SortedFunc(slices.Values(f.etcds), func(a, b etcd) int { return cmp.Compare(a.name, b.name) })
	names := make([]string, 0, len(sorted))
	for _, each := range sorted {
		names = append(names, each.name)
	}
	if missing := without([]string{etcdEvents, etcdMain}, names); len(missing) > 0 {
		return unhealthy("EtcdMissing", fmt.Sprintf("Missing required etcds: %s", missing))
	}
	for _, each := range sorted {
		var cause string
		switch {
		case !each.ready:
			cause = fmt.Sprintf("etcd %q is not ready yet", each.name)
		case each.hasBackupFailure:
			cause = fmt.Sprintf("backup for etcd %q is reported as unready: %s", each.name, each.backupFailure)
		default:
			continue
		}
		if each.lastError != "" {
			cause += fmt.Sprintf(" (%s)", each.lastError)
		}
		return unhealthy("EtcdUnhealthy", fmt.Sprintf("Etcd extension resource %q is unhealthy: %s", each.name, cause))
	}
	return verdict{healthy: true}
}

func checkBackup(f facts) verdict {
	if f.backup != "" {
		return unhealthy("BackupIncomplete", f.backup)
	}
	return verdict{healthy: true}
}

// without returns the wanted names that are not in the list, in their order.
func without(wanted, names []string) []string {
	return slices.DeleteFunc(slices.Clone(wanted), func(name string) bool { return slices.Contains(names, name) })
}

// istioSystem is the namespace of the ManagedResources for Istio.
const istioSystem = "istio-system"

// required returns the ManagedResources that must exist for a condition. Other ones count by their labels.
func required(f facts, condition corev1beta1.ConditionType) []types.NamespacedName {
	var names []string
	switch condition {
	case operatorv1alpha1.RuntimeComponentsHealthy:
		names = []string{"etcd-druid", "garden-system"}
		if f.vpa {
			names = append(names, "vpa")
		}
	case operatorv1alpha1.VirtualComponentsHealthy:
		names = []string{
			"garden-system-virtual",
			"gardener-admission-controller-runtime", "gardener-admission-controller-virtual",
			"gardener-apiserver-runtime", "gardener-apiserver-virtual",
			"gardener-controller-manager-runtime", "gardener-controller-manager-virtual",
			"gardener-scheduler-runtime", "gardener-scheduler-virtual",
			"shoot-core-gardener-resource-manager", "shoot-core-gardeneraccess", "shoot-core-kube-controller-manager",
		}
	case operatorv1alpha1.ObservabilityComponentsHealthy:
		names = []string{
			"fluent-bit", "fluent-operator", "fluent-operator-custom-resources-garden", "gardener-metrics-exporter-runtime",
			"gardener-metrics-exporter-virtual", "kube-state-metrics-runtime", "plutono", "vali",
		}
	}
	var keys []types.NamespacedName
	for _, name := range names {
		keys = append(keys, types.NamespacedName{Namespace: f.namespace, Name: name})
	}
	if condition == operatorv1alpha1.RuntimeComponentsHealthy {
		keys = append(keys, types.NamespacedName{Namespace: istioSystem, Name: "virtual-garden-istio"},
			types.NamespacedName{Namespace: istioSystem, Name: "istio-system"})
	}
	return keys
}

// labelConditionType is a label on ManagedResources: the type of the condition that they count for.
const labelConditionType = "care.gardener.cloud/condition-type"

// conditionOf returns the type of the condition that a ManagedResource counts for: by its label, else by its name, else by its class, as
// only those for the virtual cluster have none.
func conditionOf(f facts, mr *resourcesv1alpha1.ManagedResource) corev1beta1.ConditionType {
	if labelled := corev1beta1.ConditionType(mr.Labels[labelConditionType]); slices.Contains(managed, labelled) {
		return labelled
	}
	key := types.NamespacedName{Namespace: mr.Namespace, Name: mr.Name}
	for _, condition := range managed {
		if slices.Contains(required(f, condition), key) {
			return condition
		}
	}
	if ptr.Deref(mr.Spec.Class, "") == "" {
		return operatorv1alpha1.VirtualComponentsHealthy
	}
	return operatorv1alpha1.RuntimeComponentsHealthy
}

// managed are the types of the conditions that judge ManagedResources.
var managed = []corev1beta1.ConditionType{
	operatorv1alpha1.RuntimeComponentsHealthy, operatorv1alpha1.VirtualComponentsHealthy, operatorv1alpha1.ObservabilityComponentsHealthy,
}

// checkManagedResources judges the ManagedResources of a condition that exist, sorted by namespace and name, and then looks for required
// ones that do not.
func checkManagedResources(f facts, condition corev1beta1.ConditionType) verdict {
	if f.managedResourcesErr != nil {
		return verdict{err: f.managedResourcesErr}
	}
	sorted := slices.SortedFunc(slices.Values(f.managedResources), func(a, b resourcesv1alpha1.ManagedResource) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for i := range sorted {
		if conditionOf(f, &sorted[i]) != condition {
			continue
		}
		if v := checkManagedResource(&sorted[i]); !v.healthy {
			return v
		}
	}
	for _, key := range required(f, condition) {
		if !slices.ContainsFunc(sorted, func(mr resourcesv1alpha1.ManagedResource) bool {
			return mr.Namespace == key.Namespace && mr.Name == key.Name
		}) {
			resource := schema.GroupResource{Group: resourcesv1alpha1.GroupName, Resource: "managedresources"}
			return unhealthy("ResourceNotFound", apierrors.NewNotFound(resource, key.Name).Error())
		}
	}
	return verdict{healthy: true}
}

// judgedConditions are the types of the conditions of ManagedResources that are judged.
var judgedConditions = [...]corev1beta1.ConditionType{
	resourcesv1alpha1.ResourcesApplied, resourcesv1alpha1.ResourcesHealthy, resourcesv1alpha1.ResourcesProgressing,
}

func checkManagedResource(mr *resourcesv1alpha1.ManagedResource) verdict {
	conditions := map[corev1beta1.ConditionType]corev1beta1.Condition{}
	for _, each := range mr.Status.Conditions {
		conditions[each.Type] = each
	}
	applied := conditions[resourcesv1alpha1.ResourcesApplied]
	if mr.Generation != mr.Status.ObservedGeneration {
		if applied.Status == corev1beta1.ConditionFalse && applied.Reason == resourcesv1alpha1.ConditionApplyFailed {
			return unhealthy(applied.Reason, applied.Message)
		}
		return unhealthy("OutdatedStatus", fmt.Sprintf("observed generation of managed resource '%s/%s' outdated (%d/%d)",
			mr.Namespace, mr.Name, mr.Status.ObservedGeneration, mr.Generation))
	}
	for _, each := range []corev1beta1.Condition{applied, conditions[resourcesv1alpha1.ResourcesHealthy]} {
		if each.Status == corev1beta1.ConditionFalse || each.Status == corev1beta1.ConditionUnknown {
			return unhealthy(each.Reason, each.Message)
		}
	}
	progressing := conditions[resourcesv1alpha1.ResourcesProgressing]
	if progressing.Status == corev1beta1.ConditionTrue || progressing.Status == corev1beta1.ConditionUnknown {
		return unhealthy(progressing.Reason, progressing.Message)
	}
	var missing []corev1beta1.ConditionType
	for _, wanted := range judgedConditions {
		if _, ok := conditions[wanted]; !ok {
			missing = append(missing, wanted)
		}
	}
	if len(missing) > 0 {
		return unhealthy("MissingManagedResourceCondition",
			fmt.Sprintf("ManagedResource %s is missing the following condition(s), %v", mr.Name, missing))
	}
	return verdict{healthy: true}
}

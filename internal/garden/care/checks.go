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
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/health"
	"github.com/espalier-dev/espalier/internal/rollout"
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
	// backupFailure is the message of the condition BackupReady of the Etcd, if this condition is False; otherwise it is empty.
	// hasBackupFailure is true if the condition is False.
	backupFailure    string
	hasBackupFailure bool
	// lastError is the last error of etcd-druid, "" if there is none.
	lastError string
}

// facts are the observations that the checks judge. If a list could not be read, its error is set.
type facts struct {
	namespace string // of the Garden
	// values decide which components the Garden wants.
	values values.Values
	backup string // the settings that the backup of the Garden lacks; "" if it lacks none

	healthz healthz

	managedResources    []resourcesv1alpha1.ManagedResource
	managedResourcesErr error
	deployments         []appsv1.Deployment // of the control plane
	deploymentsErr      error
	etcds               []etcd // of the control plane
	etcdsErr            error
	backupErr           error
	// workloads say why the workloads of the components are not healthy, "" if they are. A workload that does not exist is absent.
	workloads    map[component.Object]string
	workloadsErr error
	// prometheus is the verdict of the instances of Prometheus about themselves; healthy if they are not asked.
	prometheus verdict
}

// check returns the verdict about each condition.
func check(f facts) map[corev1beta1.ConditionType]verdict {
	return map[corev1beta1.ConditionType]verdict{
		operatorv1alpha1.VirtualGardenAPIServerAvailable: checkAPIServer(f.healthz),
		operatorv1alpha1.RuntimeComponentsHealthy: firstFailure(
			verdict{healthy: true, reason: reasonRuntimeRunning, message: "All runtime components are healthy."},
			checkManagedResources(f, operatorv1alpha1.RuntimeComponentsHealthy),
		),
		operatorv1alpha1.VirtualComponentsHealthy: firstFailure(
			verdict{healthy: true, reason: reasonVirtualRunning, message: "All virtual garden components are healthy."},
			checkEtcds(f), checkDeployments(f), checkBackup(f), checkManagedResources(f, operatorv1alpha1.VirtualComponentsHealthy),
		),
		operatorv1alpha1.ObservabilityComponentsHealthy: firstFailure(
			observabilityRunning(f),
			checkManagedResources(f, operatorv1alpha1.ObservabilityComponentsHealthy),
			checkWorkloads(f, operatorv1alpha1.ObservabilityComponentsHealthy), f.prometheus,
		),
	}
}

// checkWorkloads judges the workloads of the components of a condition, in the order of the rows.
func checkWorkloads(f facts, condition corev1beta1.ConditionType) verdict {
	if f.workloadsErr != nil {
		return verdict{err: f.workloadsErr}
	}
	for _, each := range workloads(f.values, condition) {
		switch cause, exists := f.workloads[each]; {
		case !exists:
			return unhealthy(reasonResourceNotFound, fmt.Sprintf("%s %q not found: see the log of the operator that makes it of a custom resource",
				each.Kind, each.Name))
		case cause != "":
			return unhealthy(workloadReasons[each.Kind], fmt.Sprintf("%s %q is unhealthy: %s", each.Kind, each.Name, cause))
		}
	}
	return verdict{healthy: true}
}

// workloadReasons are the reasons for workloads that are not healthy, by their kinds.
var workloadReasons = map[string]string{
	"Deployment": reasonDeploymentUnhealthy, "StatefulSet": reasonStatefulSetUnhealthy, "DaemonSet": reasonDaemonSetUnhealthy,
	"VLSingle": reasonVLSingleUnhealthy,
}

// workloads returns the workloads of the components that a Garden wants, for a condition.
func workloads(v values.Values, condition corev1beta1.ConditionType) []component.Object {
	var all []component.Object
	for _, row := range components.All() {
		if row.Condition == condition && row.Workloads != nil && row.Unwanted(v) == "" {
			all = append(all, row.Workloads(v)...)
		}
	}
	return all
}

// observabilityRunning returns the verdict for the case that all observability components are healthy. The message names the components
// that the configuration skips, the components that need a skipped component, and components that stay although they are not wanted any
// more. If the web UIs are not exposed, the message says how to reach them.
func observabilityRunning(f facts) verdict {
	var skipped, follow, stay []string
	var runs bool
	for _, row := range components.All() {
		exists := slices.ContainsFunc(row.Sets, func(set component.Set) bool { return f.exists(f.key(set)) })
		unwanted := row.Unwanted(f.values) != ""
		switch {
		case row.Condition != operatorv1alpha1.ObservabilityComponentsHealthy:
			continue
		case unwanted && exists && len(row.Users) > 0:
			runs = true
			if f.skips(row.Name) {
				skipped = append(skipped, row.Name)
			}
			stay = append(stay, fmt.Sprintf(" %s stays while one of these exists: %s.", row.Name, strings.Join(named(row.Users), ", ")))
		case unwanted && exists && row.Stays != "" && !f.skips(row.Name):
			runs = true
			stay = append(stay, " "+row.Stays)
		case f.skips(row.Name):
			skipped = append(skipped, row.Name)
		case slices.ContainsFunc(row.Requires, f.skips):
			follow = append(follow, row.Name)
		case unwanted:
			continue
		default:
			runs = true
		}
	}
	slices.Sort(skipped)
	slices.Sort(follow)
	v := verdict{healthy: true, reason: reasonObservabilityRunning, message: "All observability components are healthy."}
	switch {
	case !runs:
		v.reason, v.message = reasonObservabilitySkipped, "No observability components are deployed."
	case len(skipped)+len(follow) > 0:
		v.message = "All other observability components are healthy."
	}
	if len(skipped) > 0 {
		v.message += " The configuration of the operator skips: " + strings.Join(skipped, ", ") + "."
	}
	v.message += strings.Join(stay, "")
	if hidden := observability.Hidden(f.values, f.namespace); hidden != "" {
		v.message += " " + hidden
	}
	if len(follow) > 0 {
		v.message += " Components that need a skipped one are not deployed either: " + strings.Join(follow, ", ") + "."
	}
	return v
}

// named returns the kinds and names of objects.
func named(objects []component.Object) []string {
	names := make([]string, 0, len(objects))
	for _, each := range objects {
		names = append(names, each.Kind+" "+each.Name)
	}
	return names
}

// skips reports whether the configuration of the operator skips a component.
func (f facts) skips(name string) bool { return slices.Contains(f.values.SkipComponents, name) }

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
		return unhealthy(reasonAPIServerDown, "Could not reach virtual garden API server during client initialization.")
	case h.err != nil:
		return unhealthy(reasonHealthzFailed, fmt.Sprintf(
			"Request to API server /healthz endpoint failed. [response_time:%dms] (%v)", h.took.Milliseconds(), h.err))
	case h.status != http.StatusOK:
		return unhealthy(reasonHealthzError, fmt.Sprintf(
			"API server /healthz endpoint check returned a non ok status code %d. (%s)", h.status, excerpt.Of(h.body, longestBody)))
	}
	return verdict{
		healthy: true, reason: reasonHealthzSucceeded, message: "API server /healthz endpoint responded with success status code.",
	}
}

func checkDeployments(f facts) verdict {
	if f.deploymentsErr != nil {
		return verdict{err: f.deploymentsErr}
	}
	sorted := slices.SortedFunc(slices.Values(f.deployments), func(a, b appsv1.Deployment) int { return cmp.Compare(a.Name, b.Name) })
	names := make([]string, 0, len(sorted))
	for i := range sorted {
		names = append(names, sorted[i].Name)
	}
	if missing := without(required(f, func(row component.Component) []string { return row.Deployments }), names); len(missing) > 0 {
		return unhealthy(reasonDeploymentMissing, fmt.Sprintf("Missing required deployments: %s", missing))
	}
	for i := range sorted {
		if cause := health.Judge(&sorted[i]).Unhealthy; cause != "" {
			return unhealthy(reasonDeploymentUnhealthy, deploymentMessage(sorted[i].Name, cause))
		}
	}
	return verdict{healthy: true}
}

// deploymentMessage returns the message about a Deployment that is not healthy. For a Deployment of the resource manager, the message names
// gardener-resource-manager, which users of Gardener know.
func deploymentMessage(name, cause string) string {
	if strings.HasPrefix(name, resourcemanager.VirtualName+"-") {
		name, cause = resourcemanager.VirtualName, name+": "+cause
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
	if missing := without(required(f, func(row component.Component) []string { return row.Etcds }), names); len(missing) > 0 {
		return unhealthy(reasonEtcdMissing, fmt.Sprintf("Missing required etcds: %s", missing))
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
		return unhealthy(reasonEtcdUnhealthy, fmt.Sprintf("Etcd extension resource %q is unhealthy: %s", each.name, cause))
	}
	return verdict{healthy: true}
}

func checkBackup(f facts) verdict {
	if f.backupErr != nil {
		return verdict{err: f.backupErr}
	}
	if f.backup != "" {
		return unhealthy(reasonBackupIncomplete, f.backup)
	}
	return verdict{healthy: true}
}

// without returns the wanted names that are not in the list, in their order.
func without(wanted, names []string) []string {
	return slices.DeleteFunc(slices.Clone(wanted), func(name string) bool { return slices.Contains(names, name) })
}

// wanted returns the rows of the components that the Garden wants.
func wanted(f facts) []component.Component {
	return slices.DeleteFunc(components.All(), func(row component.Component) bool { return row.Unwanted(f.values) != "" })
}

// required returns the sorted names of objects that the components of the Garden must have.
func required(f facts, names func(component.Component) []string) []string {
	rows := wanted(f)
	all := make([]string, 0, len(rows))
	for _, row := range rows {
		all = append(all, names(row)...)
	}
	slices.Sort(all)
	return all
}

// requiredSets returns the ManagedResources that must exist for a condition: first the ManagedResources in the namespace of the Garden,
// sorted by name, then the ManagedResources in other namespaces. They belong to components that the operator deploys. Optional
// ManagedResources are left out.
func requiredSets(f facts, condition corev1beta1.ConditionType) []types.NamespacedName {
	var sets []component.Set
	for _, row := range wanted(f) {
		if row.Condition == condition && row.Deploy.Name != "" {
			sets = append(sets, slices.DeleteFunc(slices.Clone(row.Sets), func(set component.Set) bool { return set.Optional })...)
		}
	}
	slices.SortFunc(sets, func(a, b component.Set) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	keys := make([]types.NamespacedName, 0, len(sets))
	for _, set := range sets {
		keys = append(keys, f.key(set))
	}
	return keys
}

// key returns the namespace and name of a ManagedResource of a component.
func (f facts) key(set component.Set) types.NamespacedName {
	return types.NamespacedName{Namespace: cmp.Or(set.Namespace, f.namespace), Name: set.Name}
}

// exists reports whether a ManagedResource exists.
func (f facts) exists(key types.NamespacedName) bool {
	return slices.ContainsFunc(f.managedResources, func(mr resourcesv1alpha1.ManagedResource) bool {
		return mr.Namespace == key.Namespace && mr.Name == key.Name
	})
}

// conditionOf returns the type of the condition of the Garden that a ManagedResource counts for. The label rollout.LabelConditionType of
// the ManagedResource decides. If it names no such condition, because an earlier release did not set the label, the component of the
// ManagedResource decides. If the ManagedResource belongs to no component, its class decides: only ManagedResources for the virtual
// cluster have no class.
func conditionOf(f facts, mr *resourcesv1alpha1.ManagedResource) corev1beta1.ConditionType {
	if labelled := corev1beta1.ConditionType(mr.Labels[rollout.LabelConditionType]); slices.Contains(managed, labelled) {
		return labelled
	}
	key := types.NamespacedName{Namespace: mr.Namespace, Name: mr.Name}
	for _, row := range components.All() {
		if slices.ContainsFunc(row.Sets, func(set component.Set) bool { return f.key(set) == key }) {
			return row.Condition
		}
	}
	if ptr.Deref(mr.Spec.Class, "") == "" {
		return operatorv1alpha1.VirtualComponentsHealthy
	}
	return operatorv1alpha1.RuntimeComponentsHealthy
}

// managed are the types of the conditions of a Garden that depend on ManagedResources.
var managed = []corev1beta1.ConditionType{
	operatorv1alpha1.RuntimeComponentsHealthy, operatorv1alpha1.VirtualComponentsHealthy, operatorv1alpha1.ObservabilityComponentsHealthy,
}

// checkManagedResources judges the existing ManagedResources of a condition, sorted by namespace and name, and returns the verdict about
// the first one that is not healthy. If all of them are healthy, it checks that the required ManagedResources exist.
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
	for _, key := range requiredSets(f, condition) {
		if !f.exists(key) {
			resource := schema.GroupResource{Group: resourcesv1alpha1.GroupName, Resource: "managedresources"}
			return unhealthy(reasonResourceNotFound, apierrors.NewNotFound(resource, key.Name).Error())
		}
	}
	return verdict{healthy: true}
}

// judgedConditions are the types of the conditions of a ManagedResource that the checks read.
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
		return unhealthy(reasonOutdatedStatus, fmt.Sprintf("observed generation of managed resource '%s/%s' outdated (%d/%d)",
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
		return unhealthy(reasonConditionMissing,
			fmt.Sprintf("ManagedResource %s is missing the following condition(s), %v", mr.Name, missing))
	}
	return verdict{healthy: true}
}

package criticalcomponents

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// facts are everything that the checks need to know about a waiting Node.
type facts struct {
	node *corev1.Node
	// required are the DaemonSets that must exist, by configuration.
	required []types.NamespacedName
	// daemonSets are the DaemonSets whose metadata has the label of critical components, in all namespaces that the caches cover.
	daemonSets []appsv1.DaemonSet
	// pods are the Pods on the Node that have the label.
	pods []corev1.Pod
	// csiNode is the CSINode of the Node; nil if it does not exist, or if no Pod waits for a driver.
	csiNode *storagev1.CSINode
}

// cause is the reason why a Node keeps its taint, as the value of a metric's label.
type cause string

const (
	missing      cause = "daemonsets_missing"
	unscheduled  cause = "daemonsets_unscheduled"
	unready      cause = "pods_unready"
	unregistered cause = "csi_drivers_unregistered"
	// failed: a check or the removal of the taint failed.
	failed cause = "error"
)

// causes returns all causes.
func causes() []cause { return []cause{missing, unscheduled, unready, unregistered, failed} }

// finding names the objects or drivers that a Node waits for. Exactly one of objects and drivers is set.
type finding struct {
	cause   cause
	objects []types.NamespacedName
	drivers []string
}

type check func(facts) *finding

// judge returns the first thing for which the Node waits; nil if it waits for nothing.
func judge(f facts) *finding {
	for _, check := range []check{requiredExist, daemonsScheduled, podsReady, driversRegistered} {
		if found := check(f); found != nil {
			return found
		}
	}
	return nil
}

// requiredExist returns the required DaemonSets that do not exist, or lack one of the labels.
func requiredExist(f facts) *finding {
	critical := map[types.NamespacedName]bool{}
	for i := range f.daemonSets {
		critical[client.ObjectKeyFromObject(&f.daemonSets[i])] = labelled(f.daemonSets[i].Spec.Template.Labels)
	}
	return findingOf(missing, slices.DeleteFunc(slices.Clone(f.required), func(name types.NamespacedName) bool { return critical[name] }))
}

// daemonsScheduled returns the DaemonSets with both labels that should run on the Node and control no labelled Pod there.
func daemonsScheduled(f facts) *finding {
	present := map[types.UID]bool{}
	for i := range f.pods {
		if owner := controllerOf(&f.pods[i]); owner != "" {
			present[owner] = true
		}
	}
	var without []types.NamespacedName
	for i := range f.daemonSets {
		if each := &f.daemonSets[i]; labelled(each.Spec.Template.Labels) && !present[each.UID] && shouldRunOn(f.node, each) {
			without = append(without, client.ObjectKeyFromObject(each))
		}
	}
	return findingOf(unscheduled, without)
}

// controllerOf returns the UID of the DaemonSet that controls the Pod, or "".
func controllerOf(pod *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.APIVersion == "apps/v1" && owner.Kind == "DaemonSet" {
		return owner.UID
	}
	return ""
}

// podsReady returns the Pods without the condition Ready=True, whatever their phase is.
func podsReady(f facts) *finding {
	var waiting []types.NamespacedName
	for i := range f.pods {
		if !ready(&f.pods[i]) {
			waiting = append(waiting, client.ObjectKeyFromObject(&f.pods[i]))
		}
	}
	return findingOf(unready, waiting)
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// driversRegistered returns the drivers that a Pod waits for and that the CSINode does not list.
func driversRegistered(f facts) *finding {
	drivers := missingDrivers(requiredDrivers(f.pods), f.csiNode)
	if len(drivers) == 0 {
		return nil
	}
	return &finding{cause: unregistered, drivers: drivers}
}

// findingOf returns nil if there are no objects. It sorts them, so that the same finding always has the same text.
func findingOf(why cause, objects []types.NamespacedName) *finding {
	if len(objects) == 0 {
		return nil
	}
	slices.SortFunc(objects, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return &finding{cause: why, objects: objects}
}

func labelled(labels map[string]string) bool {
	return labels[resourcesv1alpha1.CriticalComponent] == resourcesv1alpha1.CriticalComponentValue
}

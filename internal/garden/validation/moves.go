package validation

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// resourceNames judges the resources that kube-apiserver stores in the etcd for events. Their names become part of an argument of
// kube-apiserver. In this argument, a comma begins the next resource, and a number sign begins the servers of a resource, so names must
// not contain these characters.
func resourceNames(path *field.Path, resources []operatorv1alpha1.GroupResource) field.ErrorList {
	var found field.ErrorList
	for i, each := range resources {
		for _, problem := range utilvalidation.IsDNS1123Subdomain(each.Group) {
			found = append(found, field.Invalid(path.Index(i).Child("group"), each.Group, problem))
		}
		for _, problem := range utilvalidation.IsDNS1123Label(each.Resource) {
			found = append(found, field.Invalid(path.Index(i).Child("resource"), each.Resource, problem))
		}
	}
	return found
}

// resourceMoves forbids to move resources between the etcds of a Garden that the operator has begun to work on, unless the user confirms
// the loss of their objects.
func resourceMoves(path *field.Path, updated, old *operatorv1alpha1.Garden) field.ErrorList {
	if old.Status.ObservedGeneration == 0 && old.Status.LastOperation == nil {
		return nil
	}
	path = path.Child("kubernetes", "kubeAPIServer", "resourcesToStoreInETCDEvents")
	// Another rule refuses entries that are not names. They are left out here, because the user cannot confirm them.
	before := slices.DeleteFunc(slices.Clone(resourcesInETCDEvents(old)), func(each operatorv1alpha1.GroupResource) bool {
		return len(resourceNames(path, []operatorv1alpha1.GroupResource{each})) > 0
	})
	if problem := UnconfirmedMoves(before, resourcesInETCDEvents(updated), ConfirmedLostResources(updated)); problem != "" {
		return field.ErrorList{field.Forbidden(path, problem)}
	}
	return nil
}

// UnconfirmedMoves names the resources that move between the etcds of the virtual cluster without a confirmation of the user, and the
// remedy, in one sentence. It returns "" if there are none. Before and after contain the resources in the etcd for events, without the
// resource events itself.
func UnconfirmedMoves(before, after []operatorv1alpha1.GroupResource, confirmed []string) string {
	moved := namesOf(before).SymmetricDifference(namesOf(after)).Delete(confirmed...)
	if moved.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("existing objects would stay in the other etcd and be lost for the virtual cluster; restore the former entries, or "+
		"confirm the loss with the annotation %s=%s", operatorv1alpha1.AnnotationConfirmLostResources, strings.Join(sets.List(moved), ","))
}

func namesOf(resources []operatorv1alpha1.GroupResource) sets.Set[string] {
	names := sets.New[string]()
	for _, each := range resources {
		names.Insert(strings.TrimSuffix(each.Resource+"."+each.Group, "."))
	}
	return names
}

func resourcesInETCDEvents(g *operatorv1alpha1.Garden) []operatorv1alpha1.GroupResource {
	return ptr.Deref(g.Spec.VirtualCluster.Kubernetes.KubeAPIServer, operatorv1alpha1.KubeAPIServer{}).ResourcesToStoreInETCDEvents
}

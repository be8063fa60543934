package view

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/health"
)

// ID identifies an object.
type ID struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace is empty for cluster-scoped objects.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns the kind and the name, as in "Deployment shop/web".
func (id ID) String() string {
	if id.Namespace == "" {
		return id.Kind + " " + id.Name
	}
	return id.Kind + " " + id.Namespace + "/" + id.Name
}

// ObjectState is the state of an object in one word.
type ObjectState string

// States of objects.
const (
	// ObjectMissing means that the object does not exist.
	ObjectMissing ObjectState = "Missing"
	// ObjectUnreadable means that the user may not read the object, or that reading it failed.
	ObjectUnreadable ObjectState = "Unreadable"
	// ObjectDeleting means that the object is being deleted.
	ObjectDeleting ObjectState = "Deleting"
	// ObjectUnhealthy means that the object violates the health rule of its kind.
	ObjectUnhealthy ObjectState = "Unhealthy"
	// ObjectRollingOut means that the object is healthy and not rolled out yet.
	ObjectRollingOut ObjectState = "RollingOut"
	// ObjectHealthy means that the object satisfies the health rule of its kind.
	ObjectHealthy ObjectState = "Healthy"
	// ObjectPresent means that the object exists, and its kind has no health rule.
	ObjectPresent ObjectState = "Present"
)

// Object is an object of a set.
type Object struct {
	ID    `json:",inline"`
	State ObjectState `json:"state"`
	// Detail says why the object has its state.
	Detail string `json:"detail,omitempty"`
}

// Tree is a set with its objects.
type Tree struct {
	Set     Set      `json:"set"`
	Objects []Object `json:"objects"`
	// OnDeletion says which objects the deletion of the set deletes; empty if the set is being deleted or has no objects.
	OnDeletion string `json:"onDeletion,omitempty"`
	// NeededBy are the sets that depend on the set, as far as the user may read them.
	NeededBy []string `json:"neededBy,omitempty"`
	// Remarks name information that the user may not read.
	Remarks []string `json:"remarks,omitempty"`
}

// Observed is the result of reading an object.
type Observed struct {
	// Object is the object; nil if it could not be read. Objects of kinds without a health rule have only metadata.
	Object *unstructured.Unstructured
	// Missing is true if the object does not exist.
	Missing bool
	// Unreadable says why the object could not be read.
	Unreadable string
}

// IDOf returns the identity of an object in a status.
func IDOf(ref resourcesv1alpha1.ObjectReference) ID {
	return ID{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}
}

// TreeOf returns the tree of a set. The elements of observed are in the order of status.resources. The argument sets contains all sets
// that the user may read, and remarks name the sets that the user may not read.
func TreeOf(
	mr *resourcesv1alpha1.ManagedResource, observed []Observed, sets []resourcesv1alpha1.ManagedResource, remarks []string,
) Tree {
	tree := Tree{Set: SetOf(mr), Objects: make([]Object, 0, len(observed)), OnDeletion: onDeletion(mr, observed), Remarks: remarks}
	for i, each := range observed {
		state, detail := each.judge()
		tree.Objects = append(tree.Objects, Object{ID: IDOf(mr.Status.Resources[i]), State: state, Detail: detail})
	}
	self := types.NamespacedName{Namespace: mr.Namespace, Name: mr.Name}
	for _, each := range sets {
		if slices.Contains(resourcesv1alpha1.ParseDependsOn(each.Annotations[resourcesv1alpha1.DependsOn], each.Namespace), self) {
			tree.NeededBy = append(tree.NeededBy, each.Namespace+"/"+each.Name)
		}
	}
	return tree
}

// onDeletion says which objects the deletion of a set deletes.
func onDeletion(mr *resourcesv1alpha1.ManagedResource, observed []Observed) string {
	existing, kept := 0, 0
	for i, each := range observed {
		if each.Missing {
			continue
		}
		existing++
		annotations := mr.Status.Resources[i].Annotations
		if each.Object != nil {
			annotations = each.Object.GetAnnotations()
		}
		if merge.Truthy(annotations[resourcesv1alpha1.KeepObject]) {
			kept++
		}
	}
	switch {
	case mr.DeletionTimestamp != nil || existing == 0:
		return ""
	case ptr.Deref(mr.Spec.KeepObjects, false):
		return fmt.Sprintf("all objects stay (spec.keepObjects): %d", existing)
	case kept > 0:
		return fmt.Sprintf("objects that are deleted: %d; objects that stay (annotation %s): %d", existing-kept,
			resourcesv1alpha1.KeepObject, kept)
	}
	return fmt.Sprintf("all objects are deleted: %d", existing)
}

func (o Observed) judge() (state ObjectState, detail string) {
	switch {
	case o.Missing:
		return ObjectMissing, ""
	case o.Object == nil:
		return ObjectUnreadable, o.Unreadable
	case o.Object.GetDeletionTimestamp() != nil:
		return ObjectDeleting, "finalizers: " + strings.Join(o.Object.GetFinalizers(), ", ")
	}
	verdict := health.Judge(o.Object)
	switch {
	case verdict.Failed != "":
		return ObjectUnhealthy, verdict.Failed
	case verdict.Unhealthy != "":
		return ObjectUnhealthy, verdict.Unhealthy
	case verdict.Progressing != "":
		return ObjectRollingOut, verdict.Progressing
	case verdict.Checked:
		return ObjectHealthy, ""
	}
	return ObjectPresent, ""
}

func (s ObjectState) cell() cell {
	switch s {
	case ObjectHealthy, ObjectPresent:
		return cell{string(s), green}
	case ObjectMissing, ObjectUnhealthy:
		return cell{string(s), red}
	default:
		return cell{string(s), yellow}
	}
}

// Text implements Answer.
func (t Tree) Text(p *Printer) {
	t.Set.Text(p)
	p.fact("on deletion", text(t.OnDeletion))
	p.fact("needed by", text(strings.Join(t.NeededBy, ", ")))
	for _, remark := range t.Remarks {
		p.fact("not read", cell{remark, yellow})
	}
	rows := make([][]cell, 0, len(t.Objects))
	for i, o := range t.Objects {
		branch := "├─ "
		if i == len(t.Objects)-1 {
			branch = "└─ "
		}
		rows = append(rows, []cell{text(branch + o.String()), o.State.cell(), text(o.APIVersion), p.brief(o.Detail)})
	}
	if len(rows) == 0 {
		fmt.Fprintln(p, "The set has no objects.")
		return
	}
	p.table([]string{"OBJECT", "STATE", "+API VERSION", "DETAIL"}, rows)
}

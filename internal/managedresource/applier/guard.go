package applier

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
)

// Limits restrict the sets that are applied and the objects that they may contain. A nil list does not restrict, an empty one allows
// nothing.
type Limits struct {
	// SetNamespaces are the namespaces of the source whose sets are applied.
	SetNamespaces *[]string
	// SetSelector selects further such namespaces by their labels; nil selects none. With neither of the two, sets of all
	// namespaces are applied.
	SetSelector *metav1.LabelSelector
	// ObjectNamespaces are the namespaces of the target that sets may write into.
	ObjectNamespaces *[]string
	// ClusterScoped allows objects without a namespace.
	ClusterScoped bool
	// TargetNamespaces are the namespaces of the target that the process can read; empty means all.
	TargetNamespaces []string
}

// guard refuses objects that a set must not write.
func (r *Reconciler) guard(p *pass, key inventory.Key, resource apply.Resource) error {
	if err := apply.CheckName(key.Namespace, key.Name); err != nil {
		return refuse("%w", err)
	}
	if p.sameCluster && r.isOwnSource(p, key) {
		return refuse("refused: a set must not contain itself or a Secret that it is read from")
	}
	if !resource.Namespaced {
		if !r.Limits.ClusterScoped {
			return refuse("refused: sets may not contain cluster-scoped objects (espalier.managedResource.namespaces.clusterScoped)")
		}
		return nil
	}
	if allowed := r.Limits.ObjectNamespaces; allowed != nil && !slices.Contains(*allowed, key.Namespace) {
		return refuse("refused: sets may not write into namespace %q (espalier.managedResource.namespaces.objects)", key.Namespace)
	}
	if seen := r.Limits.TargetNamespaces; len(seen) > 0 && !slices.Contains(seen, key.Namespace) {
		return refuse("refused: namespace %q is not one of targetClientConnection.namespaces", key.Namespace)
	}
	return nil
}

// isOwnSource reports whether an object is the set in work or one of its Secrets.
func (r *Reconciler) isOwnSource(p *pass, key inventory.Key) bool {
	if key.Namespace != p.name.Namespace {
		return false
	}
	if key.Group == resourcesv1alpha1.GroupName && key.Kind == "ManagedResource" {
		return key.Name == p.name.Name
	}
	return key.Group == "" && key.Kind == "Secret" && references(p.mr, key.Name)
}

// protectedReason returns why an object must never be deleted, "" if it may be. Protected are the set in work, the Secrets that it
// references, its namespace, the namespace of the controller, and the CustomResourceDefinition of sets.
func (r *Reconciler) protectedReason(p *pass, key inventory.Key) string {
	if !p.sameCluster {
		return ""
	}
	switch {
	case r.isOwnSource(p, key):
		return "the set is read from it"
	case key.Group == "" && key.Kind == "Namespace" && (key.Name == r.OwnNamespace || key.Name == p.name.Namespace):
		return "the controller or the set lives in it"
	case key.Group == "apiextensions.k8s.io" && key.Kind == "CustomResourceDefinition" && key.Name == "managedresources."+resourcesv1alpha1.GroupName:
		return "it defines the kind of the set"
	}
	return ""
}

func references(mr *resourcesv1alpha1.ManagedResource, secret string) bool {
	for _, ref := range mr.Spec.SecretRefs {
		if ref.Name == secret {
			return true
		}
	}
	return false
}

// refusedError means that the controller sends no request to write an object.
type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }

func refuse(format string, args ...any) error { return &refusedError{fmt.Errorf(format, args...)} }

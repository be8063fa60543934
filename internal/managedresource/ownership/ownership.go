// Package ownership decides which objects a set (a ManagedResource) may write, delete and release. The configuration may forbid an object,
// the set itself may depend on the object, such as on its own Secret, and the object may belong to another set. The package writes nothing.
package ownership

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
)

// Owner is a set, as the owner of its objects. The methods do not change the set.
type Owner struct {
	// Set is the set. The methods of Owner use its metadata and its specification, but not its status.
	Set *resourcesv1alpha1.ManagedResource
	// ClusterID, if not empty, is part of the origin annotation of each object of the set.
	ClusterID string
	// SameCluster is true if source and target are one cluster, or may be; OwnNamespace is the namespace of the process.
	SameCluster  bool
	OwnNamespace string
	Limits       Limits
	// Users lists the sets that contain an object, as far as this process knows.
	Users func(inventory.Key) []types.NamespacedName
}

// Origin is the value of the origin annotation of the objects of the set.
func (o Owner) Origin() string {
	return resourcesv1alpha1.Origin{ClusterID: o.ClusterID, Namespace: o.Set.Namespace, Name: o.Set.Name}.String()
}

// Refusal returns why the set must not write an object, nil if it may.
func (o Owner) Refusal(key inventory.Key, resource apply.Resource) error {
	if err := apply.CheckName(key.Namespace, key.Name); err != nil {
		return &RefusedError{err}
	}
	if o.SameCluster && o.isOwnSource(key) {
		return &RefusedError{errors.New("refused: a set must not contain itself or a Secret that it is read from")}
	}
	if reason := o.Limits.refuseObject(key.Namespace, resource.Namespaced); reason != "" {
		return &RefusedError{errors.New(reason)}
	}
	return nil
}

// RefusedError means that the controller sends no request to write an object.
type RefusedError struct{ error }

func (e *RefusedError) Unwrap() error { return e.error }

// isOwnSource reports whether an object is the set or one of its Secrets.
func (o Owner) isOwnSource(key inventory.Key) bool {
	if key.Namespace != o.Set.Namespace {
		return false
	}
	if key.Group == resourcesv1alpha1.GroupName && key.Kind == "ManagedResource" {
		return key.Name == o.Set.Name
	}
	return key.Group == "" && key.Kind == "Secret" && slices.ContainsFunc(o.Set.Spec.SecretRefs, func(ref corev1.LocalObjectReference) bool {
		return ref.Name == key.Name
	})
}

// Protection returns why an object must never be deleted, "" if it may be deleted. If source and target may be one cluster, these objects
// are protected: the set itself, the Secrets that the set references, the namespace of the set, the namespace of the controller, and the
// CustomResourceDefinition of ManagedResources. In other cases, no object is protected.
func (o Owner) Protection(key inventory.Key) string {
	if !o.SameCluster {
		return ""
	}
	switch {
	case o.isOwnSource(key):
		return "the set is read from it"
	case key.Group == "" && key.Kind == "Namespace" && (key.Name == o.OwnNamespace || key.Name == o.Set.Namespace):
		return "the controller or the set lives in it"
	case key.Group == "apiextensions.k8s.io" && key.Kind == "CustomResourceDefinition" &&
		key.Name == "managedresources."+resourcesv1alpha1.GroupName:
		return "it defines the kind of the set"
	}
	return ""
}

package v1alpha1

import (
	"fmt"
	"strings"
)

// Origin says which ManagedResource an object belongs to: it is the value of the annotation OriginAnnotation. Origins that differ in their
// cluster ID are of different ManagedResources, unless the annotation ClusterIDs of the ManagedResource records the former ID. Without that
// annotation, the former ID is the empty one.
type Origin struct {
	// ClusterID is the identity of the cluster in which the ManagedResource is; empty if the controller is configured with none.
	ClusterID string
	// Namespace is the namespace of the ManagedResource.
	Namespace string
	// Name is the name of the ManagedResource.
	Name string
}

// String returns "<namespace>/<name>", or "<clusterID>:<namespace>/<name>" if there is a cluster ID.
func (o Origin) String() string {
	key := o.Namespace + "/" + o.Name
	if o.ClusterID == "" {
		return key
	}
	return o.ClusterID + ":" + key
}

// ParseOrigin parses a value that String returned. It fails if the value has neither of the two forms, or if one of its parts is empty.
func ParseOrigin(value string) (Origin, error) {
	clusterID, key, hasID := strings.Cut(value, ":")
	if !hasID {
		clusterID, key = "", value
	}
	namespace, name, hasName := strings.Cut(key, "/")
	switch {
	case hasID && clusterID == "",
		strings.Contains(key, ":"),
		!hasName, namespace == "", name == "", strings.Contains(name, "/"):
		return Origin{}, fmt.Errorf("parse origin %q: want <namespace>/<name> or <cluster ID>:<namespace>/<name>", value)
	}
	return Origin{ClusterID: clusterID, Namespace: namespace, Name: name}, nil
}

package v1alpha1

import (
	"fmt"
	"strings"
)

// Origin says which ManagedResource an object belongs to: it is the value of the annotation OriginAnnotation.
// Two origins belong to the same instance only if their cluster IDs are equal; none is not a wildcard.
type Origin struct {
	// ClusterID is the identity of the cluster that holds the ManagedResource; empty if none is configured.
	ClusterID string
	// Namespace of the ManagedResource.
	Namespace string
	// Name of the ManagedResource.
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

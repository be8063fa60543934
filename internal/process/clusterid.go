package process

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errNoIdentity means that the ConfigMap exists, but its entry cluster-identity is missing or empty. <default> then stands for no ID, and
// <cluster> is an error.
var errNoIdentity = errors.New("no cluster-identity entry")

// ResolveClusterID returns the cluster ID for the value of controllers.clusterID; empty means no ID. For the special values <cluster> and
// <default>, it reads the ID from ConfigMap kube-system/cluster-identity of the source. If the ConfigMap or its entry does not exist,
// <default> means no ID, and <cluster> is an error. Pass a reader without cache (GetAPIReader), because a cache may be restricted to other
// namespaces. An ID that contains ':' or '/' is an error, because origin annotations with such an ID could not be parsed.
func ResolveClusterID(ctx context.Context, reader client.Reader, value string) (string, error) {
	id := value
	if value == "<cluster>" || value == "<default>" {
		var err error
		id, err = readIdentity(ctx, reader)
		if value == "<default>" && (errors.Is(err, errNoIdentity) || apierrors.IsNotFound(err)) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("unable to determine cluster id: cannot determine cluster identity from configmap: %w", err)
		}
	}
	if strings.ContainsAny(id, ":/") {
		return "", fmt.Errorf("unable to determine cluster id: %q must not contain ':' or '/'", id)
	}
	return id, nil
}

func readIdentity(ctx context.Context, reader client.Reader) (string, error) {
	configMap := &corev1.ConfigMap{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "cluster-identity"}, configMap); err != nil {
		return "", err
	}
	if id := configMap.Data["cluster-identity"]; id != "" {
		return id, nil
	}
	return "", errNoIdentity
}

package gardenlets

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/chart"
)

const (
	// release is the name of the release of the chart, of its Deployment and of the container.
	release = "gardenlet"
	// priorityClass is the PriorityClass of gardenlet and of components of Seeds. It has no labels, and an existing one is used.
	priorityClass = "gardener-system-critical"
	// secretPrefix is the prefix of the Secrets with kubeconfigs of gardenlet for the virtual cluster.
	secretPrefix = "gardenlet-kubeconfig"
	// selfHosted is the prefix of Gardenlets of self-hosted Shoots. The operator has no part in them.
	selfHosted = "self-hosted-shoot-"
)

// roles are the names of the ClusterRoles of the chart, of their ClusterRoleBindings, and of a Role. Only roles with these names may give
// rights that the operator does not have itself. The ClusterRole of the operator contains these names, too.
var roles = []string{
	"gardener.cloud:system:gardenlet", "gardener.cloud:system:gardenlet:apiserver-sni", "gardener.cloud:system:gardenlet:managed-istio",
}

// policyOf returns the policy for the chart. The namespace of the release is shared, because it also contains the credentials of the
// virtual cluster. The chart must not contain the Secret kubeconfig, which gardenlet itself writes.
func policyOf(kubeconfig client.ObjectKey) chart.Policy {
	return chart.Policy{
		Shared: true, TrustedRoles: roles, ClusterKinds: []string{"PriorityClass.scheduling.k8s.io"},
		Reserved: []string{"Secret/" + kubeconfig.Name},
	}
}

// objectsOf returns the objects of a chart in the order in which they are written: workloads last, so that all objects exist to which the
// workloads refer. It returns an error if an object without a namespace does not have the name of an object of gardenlet.
func objectsOf(manifests chart.Manifests) ([]*unstructured.Unstructured, error) {
	var first, last []*unstructured.Unstructured
	for _, manifest := range manifests {
		for _, content := range manifest.Objects {
			object := &unstructured.Unstructured{Object: content}
			isOfGardenlet := slices.Contains(roles, object.GetName())
			if object.GetKind() == "PriorityClass" {
				isOfGardenlet = object.GetName() == priorityClass
			}
			if object.GetNamespace() == "" && !isOfGardenlet {
				return nil, fmt.Errorf("%s %s in %s is not an object of gardenlet; allowed are PriorityClass %s, and ClusterRoles and "+
					"ClusterRoleBindings %s", object.GetKind(), object.GetName(), manifest.Template, priorityClass, strings.Join(roles, ", "))
			}
			if _, isWorkload, _ := unstructured.NestedMap(object.Object, "spec", "template"); isWorkload {
				last = append(last, object)
			} else {
				first = append(first, object)
			}
		}
	}
	return append(first, last...), nil
}

// isOfGardenlet reports whether an existing object is part of gardenlet, so that the chart may replace it. The labels app and role decide:
// gardenlet keeps them when it upgrades itself. The PriorityClass has no labels, so its name decides.
func isOfGardenlet(live client.Object) bool {
	labels := live.GetLabels()
	return labels["app"] == "gardener" && labels["role"] == release || live.GetName() == priorityClass && live.GetNamespace() == ""
}

// keyOf returns the key of a Secret.
func keyOf(r *corev1.SecretReference) client.ObjectKey {
	return client.ObjectKey{Namespace: r.Namespace, Name: r.Name}
}

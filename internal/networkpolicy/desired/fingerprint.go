package desired

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Owner returns the Service that the labels of a policy name, and whether the policy has both labels: for the name and for the namespace
// of the Service.
func Owner(policy metav1.Object) (types.NamespacedName, bool) {
	name, named := policy.GetLabels()[resourcesv1alpha1.NetworkingServiceName]
	namespace, placed := policy.GetLabels()[resourcesv1alpha1.NetworkingServiceNamespace]
	return types.NamespacedName{Namespace: namespace, Name: name}, named && placed
}

// Instance returns the instance of the controller that keeps a policy; empty for one without a name.
func Instance(policy *networkingv1.NetworkPolicy) string {
	return policy.Labels[resourcesv1alpha1.NetworkingInstance]
}

// Fingerprint is the same for policies that are equal in the fields that the controller decides: the spec, the labels that name the
// Service and the instance, and the existence of a description. Other controllers that maintain the same policies use other
// descriptions. The policy must have the defaults of the API server.
func Fingerprint(policy *networkingv1.NetworkPolicy) string {
	digest := sha256.New()
	owner, _ := Owner(policy)
	described := policy.Annotations[resourcesv1alpha1.GardenerDescription] != ""
	_, _ = fmt.Fprintf(digest, "%s\x00%t\x00", owner, described) // a digest never fails
	_, _ = digest.Write([]byte(Instance(policy)))
	_, _ = digest.Write(specBytes(policy.Spec))
	return hex.EncodeToString(digest.Sum(nil)[:16])
}

// IsUnlabelledCopy reports whether a policy that lacks the labels of a Service still counts as a policy of the controller: it has exactly
// the desired spec, or it has the desired description, and this description is not empty.
func IsUnlabelledCopy(found, want *networkingv1.NetworkPolicy) bool {
	const key = resourcesv1alpha1.GardenerDescription
	return bytes.Equal(specBytes(found.Spec), specBytes(want.Spec)) ||
		found.Annotations[key] != "" && found.Annotations[key] == want.Annotations[key]
}

// specBytes returns the spec in protobuf: there, missing and empty lists are the same, and maps are sorted.
func specBytes(spec networkingv1.NetworkPolicySpec) []byte {
	data, err := spec.Marshal()
	if err != nil {
		return nil // cannot happen for a NetworkPolicySpec
	}
	return data
}

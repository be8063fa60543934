package desired

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Owner returns the Service that a policy's labels name, and whether it has both.
func Owner(policy *networkingv1.NetworkPolicy) (types.NamespacedName, bool) {
	name, named := policy.Labels[resourcesv1alpha1.NetworkingServiceName]
	namespace, placed := policy.Labels[resourcesv1alpha1.NetworkingServiceNamespace]
	return types.NamespacedName{Namespace: namespace, Name: name}, named && placed
}

// Fingerprint is the same for policies that are equal in what the controller decides: spec, the labels that name the
// Service, and that there is a description. Other controllers that keep the same policies word it otherwise. Defaults of
// the API server must be filled in.
func Fingerprint(policy *networkingv1.NetworkPolicy) string {
	digest := sha256.New()
	owner, _ := Owner(policy)
	described := policy.Annotations[resourcesv1alpha1.GardenerDescription] != ""
	_, _ = fmt.Fprintf(digest, "%s\x00%t\x00", owner, described) // a digest never fails
	_, _ = digest.Write(specBytes(policy.Spec))
	return hex.EncodeToString(digest.Sum(nil)[:16])
}

// SameSpec tells whether two policies allow the same in the same words.
func SameSpec(a, b *networkingv1.NetworkPolicy) bool {
	return bytes.Equal(specBytes(a.Spec), specBytes(b.Spec))
}

// specBytes is the wire format: missing and empty lists are the same in it, and maps are sorted.
func specBytes(spec networkingv1.NetworkPolicySpec) []byte {
	data, err := spec.Marshal()
	if err != nil {
		return nil // it fails only for what cannot be in a NetworkPolicySpec
	}
	return data
}

// SameDescription tells whether two policies have the same description, and have one.
func SameDescription(a, b *networkingv1.NetworkPolicy) bool {
	const key = resourcesv1alpha1.GardenerDescription
	return a.Annotations[key] != "" && a.Annotations[key] == b.Annotations[key]
}

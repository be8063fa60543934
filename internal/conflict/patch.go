package conflict

import "sigs.k8s.io/controller-runtime/pkg/client"

// MergeFrom returns a merge patch for the object in the parameter before. The patch fails with a conflict if the object has changed, or
// was deleted and created again, since it was read into this parameter.
func MergeFrom(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

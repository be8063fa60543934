package conflict

import "sigs.k8s.io/controller-runtime/pkg/client"

// MergeFrom returns a merge patch that fails with a conflict if the object has changed, or was deleted and created again, since before was
// read.
func MergeFrom(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

package rules

import (
	"slices"

	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// Offers reports whether one of the Extensions reconciles objects of a kind and type that belong to the Garden. An Extension that is being
// deleted offers nothing.
func Offers(all []operatorv1alpha1.Extension, kind, typ string) bool {
	return slices.ContainsFunc(all, func(e operatorv1alpha1.Extension) bool {
		return e.DeletionTimestamp == nil && slices.ContainsFunc(e.Spec.Resources, func(r operatorv1alpha1.ExtensionResource) bool {
			forGardens := kind != operatorv1alpha1.KindExtension || slices.Contains(r.ClusterCompatibility, operatorv1alpha1.ClusterTypeGarden)
			return r.Kind == kind && r.Type == typ && ptr.Deref(r.Primary, true) && forGardens
		})
	})
}

// OffersBackups reports whether the Extensions reconcile BackupBuckets and BackupEntries of a type.
func OffersBackups(all []operatorv1alpha1.Extension, typ string) bool {
	return Offers(all, "BackupBucket", typ) && Offers(all, "BackupEntry", typ)
}

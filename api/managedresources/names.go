package managedresources

// Set by this package on the ManagedResources that it creates.
const (
	// LabelKeyOrigin is a label. CreateForShoot and the operator set it on the ManagedResources that they create. Value: the program that
	// created them, such as LabelValueGardener. Missing: the creator is not known.
	LabelKeyOrigin = "origin"
	// LabelValueGardener is the value of LabelKeyOrigin on ManagedResources that belong to Gardener itself.
	LabelValueGardener = "gardener"
	// LabelKeyRole is a label on the ManagedResources of CreateForSeed. Value: RoleSeedSystemComponent. Missing: the health of the
	// ManagedResource does not count for the health of the seed.
	LabelKeyRole = "gardener.cloud/role"
	// RoleSeedSystemComponent is the value of LabelKeyRole on the system components of a seed.
	RoleSeedSystemComponent = "seed-system-component"
	// ClassSeed is the class of ManagedResources whose objects are created in the seed itself.
	ClassSeed = "seed"
	// SecretPrefix is the beginning of the name of a Secret, if the caller requests a prefix.
	SecretPrefix = "managedresource-"
)

// Set by this package in spec.injectLabels, and from there on every object of the set.
const (
	// LabelKeyNoCleanup is a label on objects in a shoot. Value: "true". Missing: when the shoot is cleaned up, the object is deleted before
	// the ManagedResource that it belongs to.
	LabelKeyNoCleanup = "shoot.gardener.cloud/no-cleanup"
)

const shootNamespacePrefix = "shoot-"

// SecretName returns the name of the Secret of a ManagedResource, before it is made unique: the name of the ManagedResource, with
// SecretPrefix in front if withPrefix is true.
func SecretName(name string, withPrefix bool) string {
	if withPrefix {
		return SecretPrefix + name
	}
	return name
}

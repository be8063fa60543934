package secrets

// The manager sets these labels on each Secret that it manages. It owns all labels of these Secrets: it removes labels that it did not set.
const (
	// LabelName is the logical name, for example "ca".
	LabelName = "name"
	// LabelManagedBy has the value ManagedBy.
	LabelManagedBy = "managed-by"
	// LabelManagerIdentity separates managers of one namespace. A manager never changes or deletes Secrets of another identity.
	LabelManagerIdentity = "manager-identity"
	// LabelConfigChecksum is the decimal hash of the description of the content.
	LabelConfigChecksum = "checksum-of-config"
	// LabelSigningCAChecksum is the checksum of the data of the signing CA, cut to 63 characters. Only signed certificates have it.
	LabelSigningCAChecksum = "checksum-of-signing-ca"
	// LabelLastRotation is the time of the last rotation in Unix seconds. It is empty if there was none, and never missing.
	LabelLastRotation = "last-rotation-initiation-time"
	// LabelIssuedAt is the time of the creation of the content in Unix seconds. For certificates it is the start of the validity.
	LabelIssuedAt = "issued-at-time"
	// LabelValidUntil is the end of the validity in Unix seconds. It is missing if the content does not expire.
	LabelValidUntil = "valid-until-time"
	// LabelPersist has the value "true" on Secrets that are to be kept in a backup of the state of the landscape.
	LabelPersist = "persist"
	// LabelBundleFor is the logical name of the secret that a bundle belongs to. Only bundles have it.
	LabelBundleFor = "bundle-for"
)

// LabelUseDataFor is a label that users set on a Secret of their own. Its value is a logical name. When the managed Secret for that name
// is created, the manager copies the data of the user's Secret into it. The user must remove the label before the first rotation: the
// manager refuses a rotation that would copy the same data again.
const LabelUseDataFor = "secrets-manager-use-data-for-name"

// These are the labels of kept Secrets. A kept Secret is a copy of a managed Secret, and stays when the managed Secret is deleted. It has
// none of the labels of managed Secrets, so no manager deletes it.
const (
	// LabelKeptCredential is the logical name of the managed Secret.
	LabelKeptCredential = "espalier.dev/kept-credential"
	// LabelKeptFrom is the origin of the managed Secret, for example the UID of the object to which the Secret belonged. If the same data is
	// kept for several origins, the value is the last origin.
	LabelKeptFrom = "espalier.dev/kept-from"
	// LabelKeptGeneration is KeptCurrent or KeptEarlier.
	LabelKeptGeneration = "espalier.dev/kept-generation"
)

// Values of LabelKeptGeneration.
const (
	// KeptCurrent is on the Secret of the last rotation, one per logical name and origin.
	KeptCurrent = "current"
	// KeptEarlier is on its predecessors.
	KeptEarlier = "earlier"
)

// ManagedBy is the value of LabelManagedBy.
const ManagedBy = "secrets-manager"

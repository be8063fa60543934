package v1beta1

// Names by which extensions get further rights in the garden cluster.
const (
	// LabelCustomExtensionsPermissions has the value true on ClusterRoles that the ServiceAccounts of extensions get. Set by
	// the user who installs an extension; with any other value, or without it, no ServiceAccount gets the role.
	LabelCustomExtensionsPermissions = "authorization.gardener.cloud/custom-extensions-permissions"
	// AnnotationExtensionsServiceAccountSelector is on ClusterRoles with that label, and holds a label selector as JSON:
	// which ServiceAccounts get the role. It is required; {} selects all ServiceAccounts of all seeds.
	AnnotationExtensionsServiceAccountSelector = "authorization.gardener.cloud/extensions-serviceaccount-selector"
	// SeedNamespacePrefix starts the names of the namespaces that belong to seeds.
	SeedNamespacePrefix = "seed-"
)

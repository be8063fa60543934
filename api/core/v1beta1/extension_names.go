package v1beta1

// Names by which extensions get further permissions in the garden cluster.
const (
	// LabelCustomExtensionsPermissions is a label with the value true on ClusterRoles that are bound to the ServiceAccounts of extensions. The
	// user who installs an extension sets it. With any other value, or without the label, no ServiceAccount gets the role.
	LabelCustomExtensionsPermissions = "authorization.gardener.cloud/custom-extensions-permissions"
	// AnnotationExtensionsServiceAccountSelector is an annotation on ClusterRoles with LabelCustomExtensionsPermissions. Its value is a label
	// selector in JSON for the ServiceAccounts that get the role. It is required; {} selects all ServiceAccounts of all seeds.
	AnnotationExtensionsServiceAccountSelector = "authorization.gardener.cloud/extensions-serviceaccount-selector"
	// SeedNamespacePrefix is the beginning of the names of namespaces that belong to seeds.
	SeedNamespacePrefix = "seed-"
)

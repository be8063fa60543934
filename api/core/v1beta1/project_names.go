package v1beta1

// Roles of project members.
const (
	// ProjectMemberAdmin may do in the project's namespace what the ClusterRole gardener.cloud:system:project-member says,
	// and read, change and delete the project, but for its owner and human members.
	ProjectMemberAdmin = "admin"
	// ProjectMemberOwner is the role of the subject in spec.owner.
	ProjectMemberOwner = "owner"
	// ProjectMemberViewer may do in the project's namespace what the ClusterRole gardener.cloud:system:project-viewer says,
	// which as shipped is to read some kinds, without Secrets; and read the project.
	ProjectMemberViewer = "viewer"
	// ProjectMemberUserAccessManager may read and change the project with all of its members, himself included; nothing in its
	// namespace.
	ProjectMemberUserAccessManager = "uam"
	// ProjectMemberServiceAccountManager may manage ServiceAccounts in the project's namespace, and get tokens for them.
	ProjectMemberServiceAccountManager = "serviceaccountmanager"
	// ProjectMemberExtensionPrefix is followed by the name of an extension's role.
	ProjectMemberExtensionPrefix = "extension:"
)

// Namespaces that have a meaning of their own.
const (
	// GardenNamespace is the namespace of the garden's own project.
	GardenNamespace = "garden"
	// ProjectNamespacePrefix starts the name of every other project's namespace.
	ProjectNamespacePrefix = "garden-"
)

// GardenerFinalizer is on a Project as long as its namespace is not released. The project controller sets and removes it.
const GardenerFinalizer = "gardener"

// ProtectedToleration is the key of the taint of seeds for the garden's own project, which always tolerates it.
const ProtectedToleration = "seed.gardener.cloud/protected"

// Labels and annotations of a project's namespace. The project controller sets them but for the last, and removes them from a
// namespace that outlives its project.
const (
	// LabelRole has the value project on a namespace that belongs to a project, or may be adopted by one.
	LabelRole = "gardener.cloud/role"
	// RoleProject is the value of LabelRole on namespaces of projects.
	RoleProject = "project"
	// LabelProjectName has the name of the project that the namespace belongs to, or may be adopted by.
	LabelProjectName = "project.gardener.cloud/name"
	// AnnotationNamespaceProject has the UID of the project that the namespace belongs to.
	AnnotationNamespaceProject = "namespace.gardener.cloud/project"
	// AnnotationNamespaceCreatedByController is on namespaces that the controller has created. Any value counts.
	AnnotationNamespaceCreatedByController = "namespace.gardener.cloud/created-by-project-controller"
	// AnnotationNamespaceKeep with a true value keeps the namespace when its project is deleted. The controller sets it on
	// namespaces that it has adopted; operators may set it on others.
	AnnotationNamespaceKeep = "namespace.gardener.cloud/keep-after-project-deletion"
	// AnnotationSkipStaleCheck with a true value keeps the project from being found stale. Set by operators.
	AnnotationSkipStaleCheck = "project.gardener.cloud/skip-stale-check"
)

// LabelSecretBindingReference is on Secrets and Quotas that a SecretBinding refers to; its value is true.
const LabelSecretBindingReference = "reference.gardener.cloud/secretbinding"

// LabelCredentialsBindingReference is on Secrets and Quotas that a CredentialsBinding refers to; its value is true. Gardener sets
// it. An object without it is used all the same, but its changes are no activity.
const LabelCredentialsBindingReference = "reference.gardener.cloud/credentialsbinding"

// RoleExtensionProject is the value of LabelRole on the roles that belong to extension:<name> members.
const RoleExtensionProject = "extension-project-role"

// LabelAggregateToExtensionRole is on ClusterRoles whose rules members with the role extension:<value> get. Set by
// extensions.
const LabelAggregateToExtensionRole = "rbac.gardener.cloud/aggregate-to-extension-role"

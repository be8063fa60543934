package v1beta1

// Roles of project members.
const (
	// ProjectMemberAdmin gives a member the rights of the ClusterRole gardener.cloud:system:project-member in the project's namespace, and the
	// right to read, change and delete the project, except for its owner and human members.
	ProjectMemberAdmin = "admin"
	// ProjectMemberOwner is the role of the subject in spec.owner.
	ProjectMemberOwner = "owner"
	// ProjectMemberViewer gives a member the rights of the ClusterRole gardener.cloud:system:project-viewer in the project's namespace (as
	// shipped: to read some kinds, Secrets not among them), and the right to read the project.
	ProjectMemberViewer = "viewer"
	// ProjectMemberUserAccessManager gives a member the right to read and change the project and all of its members, including the member's
	// own entry. It gives no rights in the project's namespace.
	ProjectMemberUserAccessManager = "uam"
	// ProjectMemberServiceAccountManager gives a member the right to manage ServiceAccounts in the project's namespace, and to request tokens
	// for them.
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

// GardenerFinalizer is a finalizer that the project controller sets on a Project, and removes when it has released the project's namespace.
const GardenerFinalizer = "gardener"

// ProtectedToleration is the key of the taint of seeds for the garden's own project, which always tolerates it.
const ProtectedToleration = "seed.gardener.cloud/protected"

// Labels and annotations of a project's namespace. The project controller sets all of them except AnnotationSkipStaleCheck, and removes
// them from a namespace that outlives its project.
const (
	// LabelRole is a label with the value RoleProject on a namespace that belongs to a project, or that a project may adopt.
	LabelRole = "gardener.cloud/role"
	// RoleProject is the value of LabelRole on namespaces of projects.
	RoleProject = "project"
	// LabelProjectName is the name of the project that the namespace belongs to, or that may adopt it.
	LabelProjectName = "project.gardener.cloud/name"
	// AnnotationNamespaceProject is the UID of the project that the namespace belongs to.
	AnnotationNamespaceProject = "namespace.gardener.cloud/project"
	// AnnotationNamespaceCreatedByController is on namespaces that the controller has created. Any value counts.
	AnnotationNamespaceCreatedByController = "namespace.gardener.cloud/created-by-project-controller"
	// AnnotationNamespaceKeep with a true value keeps the namespace when its project is deleted. The controller sets it on
	// namespaces that it has adopted; operators may set it on others.
	AnnotationNamespaceKeep = "namespace.gardener.cloud/keep-after-project-deletion"
	// AnnotationSkipStaleCheck with a true value makes the stale check treat the project as used. Operators set it.
	AnnotationSkipStaleCheck = "project.gardener.cloud/skip-stale-check"
)

// LabelSecretBindingReference is on Secrets and Quotas that a SecretBinding refers to; its value is true.
const LabelSecretBindingReference = "reference.gardener.cloud/secretbinding"

// LabelCredentialsBindingReference is on Secrets and Quotas that a CredentialsBinding refers to; its value is true. Gardener sets it. The
// project controller counts an object without the label as used, too, but does not count changes of the object as activity of the project.
const LabelCredentialsBindingReference = "reference.gardener.cloud/credentialsbinding"

// RoleExtensionProject is the value of LabelRole on the roles that belong to extension:<name> members.
const RoleExtensionProject = "extension-project-role"

// LabelAggregateToExtensionRole is a label that extensions set on ClusterRoles. Members with the role extension:<value> get the rules of
// these ClusterRoles.
const LabelAggregateToExtensionRole = "rbac.gardener.cloud/aggregate-to-extension-role"

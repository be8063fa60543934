package v1beta1

// Roles of project members.
const (
	// ProjectMemberAdmin gives a member the permissions of the ClusterRole gardener.cloud:system:project-member in the project's namespace,
	// and the permission to read, change and delete the project. The member may not change the owner and human members.
	ProjectMemberAdmin = "admin"
	// ProjectMemberOwner is the role of the subject in spec.owner.
	ProjectMemberOwner = "owner"
	// ProjectMemberViewer gives a member the permissions of the ClusterRole gardener.cloud:system:project-viewer in the project's namespace
	// (as shipped: to read some kinds, Secrets not among them), and the permission to read the project.
	ProjectMemberViewer = "viewer"
	// ProjectMemberUserAccessManager gives a member the permission to read and change the project and all of its members, including the
	// member's own entry. It gives no permissions in the project's namespace.
	ProjectMemberUserAccessManager = "uam"
	// ProjectMemberServiceAccountManager gives a member the permission to manage ServiceAccounts in the project's namespace, and to request
	// tokens for them.
	ProjectMemberServiceAccountManager = "serviceaccountmanager"
	// ProjectMemberExtensionPrefix is followed by the name of an extension's role.
	ProjectMemberExtensionPrefix = "extension:"
)

// Names of namespaces with a special meaning.
const (
	// GardenNamespace is the namespace of the garden's own project.
	GardenNamespace = "garden"
	// ProjectNamespacePrefix is the beginning of the names of the namespaces of all other projects.
	ProjectNamespacePrefix = "garden-"
)

// GardenerFinalizer is a finalizer that the project controller sets on a Project, and removes when it has released the project's namespace.
const GardenerFinalizer = "gardener"

// ProtectedToleration is the key of a taint of seeds. The garden's own project always tolerates this taint.
const ProtectedToleration = "seed.gardener.cloud/protected"

// Labels and annotations of a project's namespace. The project controller sets all of them except AnnotationSkipStaleCheck, and removes
// them from a namespace that stays when its project is deleted.
const (
	// LabelRole is a label with the value RoleProject on a namespace that belongs to a project, or that a project may adopt.
	LabelRole = "gardener.cloud/role"
	// RoleProject is the value of LabelRole on namespaces of projects.
	RoleProject = "project"
	// LabelProjectName is the name of the project that the namespace belongs to, or that may adopt it.
	LabelProjectName = "project.gardener.cloud/name"
	// AnnotationNamespaceProject is the UID of the project that the namespace belongs to.
	AnnotationNamespaceProject = "namespace.gardener.cloud/project"
	// AnnotationNamespaceCreatedByController marks namespaces that the controller has created. Its value has no meaning.
	AnnotationNamespaceCreatedByController = "namespace.gardener.cloud/created-by-project-controller"
	// AnnotationNamespaceKeep with a true value keeps the namespace when its project is deleted. The controller sets it on
	// namespaces that it has adopted; operators may set it on others.
	AnnotationNamespaceKeep = "namespace.gardener.cloud/keep-after-project-deletion"
	// AnnotationSkipStaleCheck with a true value makes the stale check treat the project as used. Operators set it.
	AnnotationSkipStaleCheck = "project.gardener.cloud/skip-stale-check"
)

// LabelSecretBindingReference is a label, with the value true, of Secrets and Quotas that a SecretBinding refers to.
const LabelSecretBindingReference = "reference.gardener.cloud/secretbinding"

// LabelCredentialsBindingReference is a label, with the value true, of Secrets and Quotas that a CredentialsBinding refers to. Gardener
// sets it. The project controller counts an object without the label as used, too, but does not count changes of the object as activity of
// the project.
const LabelCredentialsBindingReference = "reference.gardener.cloud/credentialsbinding"

// RoleExtensionProject is the value of LabelRole on the ClusterRoles and RoleBindings for members with the role extension:<name>.
const RoleExtensionProject = "extension-project-role"

// LabelAggregateToExtensionRole is a label that extensions set on ClusterRoles. Members with the role extension:<value> get the rules of
// these ClusterRoles.
const LabelAggregateToExtensionRole = "rbac.gardener.cloud/aggregate-to-extension-role"

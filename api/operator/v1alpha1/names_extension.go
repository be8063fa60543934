package v1alpha1

import corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"

// Types of the conditions of an Extension.
const (
	// ExtensionInstalled reports whether the parts of the Extension that it has now are deployed.
	ExtensionInstalled corev1beta1.ConditionType = "Installed"
	// ExtensionRequiredRuntime reports whether the Garden, or an object of class garden, needs the extension in the runtime cluster.
	ExtensionRequiredRuntime corev1beta1.ConditionType = "RequiredRuntime"
	// ExtensionRequiredVirtual reports whether a Seed needs the extension.
	ExtensionRequiredVirtual corev1beta1.ConditionType = "RequiredVirtual"
	// ControllerInstallationsHealthy reports whether the extension is healthy in all Seeds. An Extension has this condition only while
	// `RequiredVirtual` is True.
	ControllerInstallationsHealthy corev1beta1.ConditionType = "ControllerInstallationsHealthy"
	// ExtensionRuntimeHealthy reports whether the extension is healthy in the runtime cluster. An Extension has this condition only while
	// `RequiredRuntime` is True.
	ExtensionRuntimeHealthy corev1beta1.ConditionType = "RuntimeHealthy"
	// ExtensionAdmissionHealthy reports whether the admission controllers are healthy. Only an Extension with an admission has this condition.
	ExtensionAdmissionHealthy corev1beta1.ConditionType = "AdmissionHealthy"
)

// Reasons of the condition Installed of an Extension.
const (
	// ReasonExtensionReconciled goes with Installed=True: all parts are deployed and healthy. The message names parts of the charts that have
	// no effect, such as hooks.
	ReasonExtensionReconciled = "ReconcileSuccessful"
	// ReasonExtensionInRuntime goes with Installed=True: the Garden is being deleted, and still needs the extension in the runtime cluster.
	ReasonExtensionInRuntime = "InstalledInRuntime"
	// ReasonExtensionPending goes with Installed=Progressing: the objects of a part are written, and are not applied or healthy yet.
	ReasonExtensionPending = "ReconcilePending"
	// ReasonExtensionFailed goes with Installed=False: a part cannot be deployed, or the Garden is not reconciled yet. The message says why.
	ReasonExtensionFailed = "ReconcileFailed"
	// ReasonExtensionNoGarden goes with Installed=False: there is no Garden.
	ReasonExtensionNoGarden = "NoGardenFound"
	// ReasonExtensionDeleting goes with Installed=False: parts are being deleted. The message names them.
	ReasonExtensionDeleting = "DeletePending"
	// ReasonExtensionDeleteFailed goes with Installed=False: a part cannot be deleted.
	ReasonExtensionDeleteFailed = "DeleteFailed"
	// ReasonExtensionDeleted goes with Installed=False: nothing of the extension is left in the clusters of the Garden.
	ReasonExtensionDeleted = "DeleteSuccessful"
)

// Reasons of the conditions RequiredRuntime and RequiredVirtual of an Extension.
const (
	// ReasonExtensionRequired goes with RequiredRuntime=True: the message names the kinds of the objects that need the extension.
	ReasonExtensionRequired = "ExtensionRequired"
	// ReasonExtensionNotRequired goes with RequiredRuntime=False: no object needs the extension.
	ReasonExtensionNotRequired = "ExtensionNotRequired"
	// ReasonInstallationRequired goes with RequiredVirtual=True: a ControllerInstallation of the extension is required.
	ReasonInstallationRequired = "RequiredControllerInstallation"
	// ReasonNoInstallationRequired goes with RequiredVirtual=False: no ControllerInstallation of the extension is required.
	ReasonNoInstallationRequired = "NoRequiredControllerInstallation"
)

// Reasons of the health conditions of an Extension.
const (
	// ReasonInstallationsRunning goes with ControllerInstallationsHealthy=True: the extension is healthy in all Seeds.
	ReasonInstallationsRunning = "ControllerInstallationsRunning"
	// ReasonInstallationsNotRunning goes with ControllerInstallationsHealthy=False: the message names the ControllerInstallation.
	ReasonInstallationsNotRunning = "ControllerInstallationsNotRunning"
	// ReasonExtensionRunning goes with RuntimeHealthy=True: the ManagedResource of the extension is healthy.
	ReasonExtensionRunning = "ExtensionComponentsRunning"
	// ReasonExtensionNotRunning goes with RuntimeHealthy=False: the message says why.
	ReasonExtensionNotRunning = "ExtensionComponentsNotRunning"
	// ReasonAdmissionRunning goes with AdmissionHealthy=True: the ManagedResources of the admission controllers are healthy.
	ReasonAdmissionRunning = "ExtensionAdmissionComponentsRunning"
	// ReasonAdmissionNotRunning goes with AdmissionHealthy=False: the message says why.
	ReasonAdmissionNotRunning = "ExtensionAdmissionComponentsNotRunning"
)

// ExtensionName is the name of an Extension: an annotation of the namespace of its admission controllers in the virtual cluster, and a
// label of its ManagedResources. The operator sets it.
const ExtensionName = "extensions.operator.gardener.cloud/name"

// AnnotationPodSecurityEnforce is an annotation of Extensions: the Pod Security Standard that the namespaces of the extension enforce, for
// example baseline or privileged. Users set it. Missing: the default of the cluster.
const AnnotationPodSecurityEnforce = "security.gardener.cloud/pod-security-enforce"

// Values of LabelRole on Secrets and ConfigMaps that Extensions refer to. Users set them, so that the operator notices a new content at
// once. The copies of these objects in the virtual cluster have them, too.
const (
	// RolePullSecret is on Secrets with credentials for a registry.
	RolePullSecret = "helm-pull-secret"
	// RoleCABundle is on Secrets with the certificate authorities of a registry.
	RoleCABundle = "oci-ca-bundle"
	// RoleResourceReference is on Secrets and ConfigMaps for values.
	RoleResourceReference = "resource-reference"
)

// Keys of Secrets that Extensions refer to.
const (
	// DataKeyCABundle contains certificates in PEM.
	DataKeyCABundle = "bundle.crt"
)

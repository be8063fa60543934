package v1beta1

// Set by the controllers that install extensions.
const (
	// FinalizerControllerInstallation is a finalizer on ControllerInstallations. The controller that installs the extension sets it before it
	// creates the first object, and removes it when all of them are gone. Missing: nothing was installed.
	FinalizerControllerInstallation = "core.gardener.cloud/controllerinstallation"
	// LabelControllerRegistrationName is a label on the namespaces of extensions in seeds, and on the ServiceAccounts of extensions in the
	// garden. Value: the name of the ControllerRegistration. Missing: the object does not belong to an extension.
	LabelControllerRegistrationName = "controllerregistration.core.gardener.cloud/name"
	// LabelManagedResourceInstallation is a label on the ManagedResources that install extensions. Value: the name of the
	// ControllerInstallation. Missing: the ManagedResource does not install an extension.
	LabelManagedResourceInstallation = "controllerinstallation-name"
	// LabelManagedResourceRegistration is a label on the same ManagedResources. Value: the name of the ControllerRegistration.
	LabelManagedResourceRegistration = "controllerregistration-name"
	// InstallationNamespacePrefix is the beginning of the names of the namespaces of extensions in seeds; the name of the
	// ControllerInstallation follows. The ServiceAccounts of extensions in the garden have the same names.
	InstallationNamespacePrefix = "extension-"
)

// AnnotationPodSecurityEnforce is an annotation on ControllerInstallations, which gardener-controller-manager copies from the
// ControllerRegistration. Value: the Pod Security Standard that the namespace of the extension enforces. Missing: it enforces none.
const AnnotationPodSecurityEnforce = "security.gardener.cloud/pod-security-enforce"

// Condition types in the status of ControllerInstallations. Missing: not judged yet.
const (
	// ControllerInstallationValid is True if the chart of the extension can be rendered.
	ControllerInstallationValid ConditionType = "Valid"
	// ControllerInstallationInstalled is True if the objects of the extension are applied.
	ControllerInstallationInstalled ConditionType = "Installed"
	// ControllerInstallationHealthy is True if the objects of the extension are healthy.
	ControllerInstallationHealthy ConditionType = "Healthy"
	// ControllerInstallationProgressing is False if the objects of the extension are rolled out.
	ControllerInstallationProgressing ConditionType = "Progressing"
	// ControllerInstallationRequired is True if objects exist in the seed that the extension is responsible for.
	ControllerInstallationRequired ConditionType = "Required"
)

// Set by users and by gardener-operator on Seeds.
const (
	// SeedOperation is an annotation on Seeds that requests an operation. Values: the SeedOperation constants. The program that is responsible
	// for the Seed removes the annotation when the operation is done. Missing: there is nothing to do.
	SeedOperation = "gardener.cloud/operation"
	// SeedOperationRenewGardenAccess requests new tokens in all Secrets of the class garden in the cluster of the Seed.
	SeedOperationRenewGardenAccess = "renew-garden-access-secrets"
	// SeedOperationRenewWorkloadIdentity requests new tokens in all Secrets for workload identities in the cluster of the Seed.
	SeedOperationRenewWorkloadIdentity = "renew-workload-identity-tokens"
	// SeedOperationRenewKubeconfig requests a new client certificate for the program that is responsible for the Seed.
	SeedOperationRenewKubeconfig = "renew-kubeconfig"
	// SeedOperationReconcile requests a reconciliation of the Seed.
	SeedOperationReconcile = "reconcile"
)

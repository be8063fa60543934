package v1alpha1

import corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"

// Finalizers of a Garden. Both must be absent when a Garden is created.
const (
	// FinalizerOperator is on every Garden that the operator has begun to reconcile. The operator removes it when all objects of the Garden
	// are deleted.
	FinalizerOperator = "gardener.cloud/operator"
	// FinalizerReferenceProtection is on a Garden that refers to Secrets or ConfigMaps, and on those Secrets and ConfigMaps. The operator sets
	// it, and removes it when the Garden no longer refers to the object or is being deleted.
	FinalizerReferenceProtection = "gardener.cloud/reference-protection"
)

// Annotations of a Garden. The annotation for operations is resources/v1alpha1.GardenerOperation.
const (
	// AnnotationConfirmDeletion allows the deletion of a Garden if its value is one that strconv.ParseBool reads as true. Users
	// set it. The webhook denies a deletion without it.
	AnnotationConfirmDeletion = "confirmation.gardener.cloud/deletion"
	// AnnotationGenericTokenKubeconfig is the name of the current Secret with the generic kubeconfig in the namespace garden. The
	// operator sets it.
	AnnotationGenericTokenKubeconfig = "generic-token-kubeconfig.secret.gardener.cloud/name"
	// AnnotationPausedUntil stops the reconciliation of the Garden until a time in RFC 3339, or without an end for the value
	// "true". Users set it. Health checks continue.
	AnnotationPausedUntil = "espalier.dev/paused-until"
	// AnnotationNextRotation is the next operation on credentials that a user must request: the time from which on it is due, the cause and
	// the operation. The operator sets it.
	AnnotationNextRotation = "espalier.dev/next-rotation"
	// AnnotationAbortRotation names credentials whose rotation leads back to the former credential, separated by commas:
	// certificate-authorities, encryption-key, service-account-key and workload-identity-key. Users set it, before a rotation
	// completes; the operator removes it when it has begun to abort the rotations, or has refused to. Missing: no rotation is aborted.
	AnnotationAbortRotation = "espalier.dev/abort-rotation"
	// AnnotationSkippedChecks names checks that do not keep the operator from changing or deleting the virtual cluster, separated
	// by commas: deprecated-apis, etcd-backup, etcd-quota, etcds, kubernetes-version, rollouts, seeds and seeds-and-shoots; seeds/NAME is
	// the check seeds for one Seed. Users set it. Missing: none is skipped.
	AnnotationSkippedChecks = "espalier.dev/skipped-checks"
	// AnnotationAbandonVirtualCluster makes the deletion of a Garden leave the objects in the virtual cluster as they are, for a virtual
	// cluster whose API server can no longer start. The operator then also keeps the volumes of its etcds and its keys. Users set
	// it. It has an effect only if its value is spec.virtualCluster.gardener.clusterIdentity, which names the virtual cluster that the user
	// gives up.
	AnnotationAbandonVirtualCluster = "espalier.dev/abandon-virtual-cluster"
	// AnnotationConfirmLostResources names resources of the virtual cluster whose objects may be lost, separated by commas, for example
	// leases.coordination.k8s.io. They may be lost if a resource moves between the etcds, or if the virtual cluster does not serve an
	// encrypted resource. Users set it. Missing: the operator refuses such a step.
	AnnotationConfirmLostResources = "espalier.dev/confirm-lost-resources"
	// AnnotationConfirmLostBackups is the name of the BackupBucket that the operator created for the Garden, and whose backups may be lost.
	// Users set it to complete the deletion of the Garden. Missing: the operator keeps the bucket, and the deletion waits.
	AnnotationConfirmLostBackups = "espalier.dev/confirm-lost-backups"
	// AnnotationConfirmLostLogs is vali if vali may be removed before its successor has all log lines that vali keeps. Users set it. Missing:
	// with feature gate RemoveVali, the operator waits until then.
	AnnotationConfirmLostLogs = "espalier.dev/confirm-lost-logs"
	// AnnotationConfirmLostKeys names Secrets with keys or certificate authorities that are lost for ever, separated by commas, so that the
	// operator generates them again. Users set it; the operator removes it after the next reconciliation that succeeds. Missing: a
	// reconciliation stops at a Secret that was lost.
	AnnotationConfirmLostKeys = "espalier.dev/confirm-lost-keys"
	// AnnotationConfirmLeftovers names objects of a former garden that the operator removes when it takes the garden over, by the digests
	// that `garden-operator plan --take-over` prints, separated by commas. Users set it; the operator removes it after the next
	// reconciliation that succeeds. The annotation must name all such objects of a cluster: otherwise the reconciliation stops before it
	// removes an object of this cluster. Missing: the objects stay.
	AnnotationConfirmLeftovers = "espalier.dev/confirm-leftovers"
	// AnnotationRestoring is on a Garden that the subcommand restore of the operator has begun to restore, together with
	// AnnotationPausedUntil. The subcommand sets it, and removes it when the Garden is complete. Its value is the beginning of a digest of the
	// Garden in the file, and the value that AnnotationPausedUntil gets then. It pauses the Garden, also without AnnotationPausedUntil.
	// Missing: no restoration is going on.
	AnnotationRestoring = "espalier.dev/restoring"
)

// LabelCreatedBy is a label on the objects that the operator created in the runtime cluster, with the value CreatedByOperator. When the
// Garden is deleted, the operator deletes only objects with this label.
const (
	LabelCreatedBy    = "espalier.dev/created-by"
	CreatedByOperator = "garden-operator"
)

// LabelRole is a label on a Secret with a wildcard certificate for the domains of the ingress (*.<domain>). Users set it, with one of these
// values. There must be at most one such Secret in the namespace garden.
const (
	LabelRole = "gardener.cloud/role"
	// RoleWildcardCertificate is the value since Gardener 1.111.
	RoleWildcardCertificate = "garden-cert"
	// RoleFormerWildcardCertificate is the value that Gardener up to 1.110 expected. It has the same meaning.
	RoleFormerWildcardCertificate = "controlplane-cert"
)

// Operation is a value of the annotation gardener.cloud/operation on a Garden. The annotation may contain several operations, separated by
// OperationSeparator. The operator removes each operation that it has handled.
type Operation string

// OperationSeparator separates operations in the annotation. Spaces around it have no meaning.
const OperationSeparator = ";"

// Operations that users can ask for.
const (
	// OperationReconcile reconciles the Garden at once.
	OperationReconcile Operation = "reconcile"
	// OperationRotateCAStart starts the rotation of the certificate authorities.
	OperationRotateCAStart Operation = "rotate-ca-start"
	// OperationRotateCAComplete completes the rotation of the certificate authorities.
	OperationRotateCAComplete Operation = "rotate-ca-complete"
	// OperationRotateServiceAccountKeyStart starts the rotation of the key that signs tokens of ServiceAccounts.
	OperationRotateServiceAccountKeyStart Operation = "rotate-serviceaccount-key-start"
	// OperationRotateServiceAccountKeyComplete completes the rotation of the key that signs tokens of ServiceAccounts.
	OperationRotateServiceAccountKeyComplete Operation = "rotate-serviceaccount-key-complete"
	// OperationRotateETCDEncryptionKey rotates the key that encrypts data in etcd, from start to completion.
	OperationRotateETCDEncryptionKey Operation = "rotate-etcd-encryption-key"
	// OperationRotateETCDEncryptionKeyStart starts the rotation of the key that encrypts data in etcd. Allowed for virtual clusters
	// below Kubernetes 1.34.
	OperationRotateETCDEncryptionKeyStart Operation = "rotate-etcd-encryption-key-start"
	// OperationRotateETCDEncryptionKeyComplete completes the rotation of the key that encrypts data in etcd. Allowed for virtual
	// clusters below Kubernetes 1.34.
	OperationRotateETCDEncryptionKeyComplete Operation = "rotate-etcd-encryption-key-complete"
	// OperationRotateWorkloadIdentityKeyStart starts the rotation of the key that signs tokens of workload identities.
	OperationRotateWorkloadIdentityKeyStart Operation = "rotate-workload-identity-key-start"
	// OperationRotateWorkloadIdentityKeyComplete completes the rotation of the key that signs tokens of workload identities.
	OperationRotateWorkloadIdentityKeyComplete Operation = "rotate-workload-identity-key-complete"
	// OperationRotateObservabilityCredentials replaces the passwords of observability components.
	OperationRotateObservabilityCredentials Operation = "rotate-observability-credentials"
	// OperationRotateCredentialsStart starts the rotation of all credentials.
	OperationRotateCredentialsStart Operation = "rotate-credentials-start"
	// OperationRotateCredentialsComplete completes the rotation of all credentials that have a second step.
	OperationRotateCredentialsComplete Operation = "rotate-credentials-complete"
)

// Types of the conditions of a Garden, in the order in which the status lists them. The care reconciler sets them.
const (
	// VirtualGardenAPIServerAvailable reports whether the API server of the virtual cluster answers.
	VirtualGardenAPIServerAvailable corev1beta1.ConditionType = "VirtualGardenAPIServerAvailable"
	// RuntimeComponentsHealthy reports whether the ManagedResources of the runtime cluster are applied and healthy.
	RuntimeComponentsHealthy corev1beta1.ConditionType = "RuntimeComponentsHealthy"
	// VirtualComponentsHealthy reports whether all required Deployments, Etcds and ManagedResources of the virtual cluster and of Gardener's
	// control plane exist and are healthy, and whether the backup settings of the Garden are complete.
	VirtualComponentsHealthy corev1beta1.ConditionType = "VirtualComponentsHealthy"
	// ObservabilityComponentsHealthy reports whether the ManagedResources of logging and monitoring are applied and healthy.
	ObservabilityComponentsHealthy corev1beta1.ConditionType = "ObservabilityComponentsHealthy"
)

// ReconciliationPaused is True while the annotation `espalier.dev/paused-until`, or a restoration that has not ended, stops reconciliation
// and deletion. A Garden has this condition only then.
const ReconciliationPaused corev1beta1.ConditionType = "ReconciliationPaused"

// Reasons of the condition ReconciliationPaused.
const (
	// ReasonPausedByUser goes with ReconciliationPaused=True: the value of the annotation is a time in the future, or "true"; or a
	// restoration has begun and has not ended.
	ReasonPausedByUser = "PausedByUser"
	// ReasonPauseInvalid goes with ReconciliationPaused=True: the value of the annotation is neither a time nor "true". The Garden stays
	// paused, because the user wanted a pause.
	//
	// Remedy: correct or remove the annotation.
	ReasonPauseInvalid = "PauseInvalid"
)

// CertificateAuthoritiesExpire is True while certificate authorities that only a rotation replaces expire in less than 180 days. The
// message names these certificate authorities and the end of their validity. Otherwise, a Garden does not have this condition.
const CertificateAuthoritiesExpire corev1beta1.ConditionType = "CertificateAuthoritiesExpire"

// ReasonRotationRequired goes with CertificateAuthoritiesExpire=True: a rotation replaces the certificate authorities.
//
// Remedy: start it with the operation `rotate-ca-start`.
const ReasonRotationRequired = "RotationRequired"

// RotationOverdue is True while a rotation of credentials is overdue: credentials are older than the maximum age in the configuration of
// the operator, or a rotation is prepared for longer than the configuration allows. The message names the operations to request. A Garden
// has this condition only then.
const RotationOverdue corev1beta1.ConditionType = "RotationOverdue"

// ReasonOperationNotRequested goes with RotationOverdue=True: the operations in the message were not requested in time.
//
// Remedy: request them, or correct `espalier.garden.rotation` in the configuration of the operator.
const ReasonOperationNotRequested = "OperationNotRequested"

// ClocksDiffer is True while the clock of the operator differs from the clock of the API server of the runtime cluster by more than a
// minute. A Garden has this condition only then.
const ClocksDiffer corev1beta1.ConditionType = "ClocksDiffer"

// Reasons of the condition ClocksDiffer.
const (
	// ReasonClockAhead goes with ClocksDiffer=True: the clock of the operator is ahead.
	ReasonClockAhead = "ClockAhead"
	// ReasonClockBehind goes with ClocksDiffer=True: the clock of the operator is behind.
	ReasonClockBehind = "ClockBehind"
)

// RotationUnproven is True while a rotation stays in phase Preparing or Completing because Pods have not shown that they use the new
// credentials, or refuse the former ones. The message names them. A Garden has this condition only then.
const RotationUnproven corev1beta1.ConditionType = "RotationUnproven"

// ReasonProofMissing goes with RotationUnproven=True: a proof is missing.
//
// Remedy: repair the Pods, or skip the check `rotation-proof`.
const ReasonProofMissing = "ProofMissing"

// BackupRestorable reports whether the last scheduled backup of the Garden can be restored. The message names the file. A Garden has this
// condition only if `espalier.garden.backup` is configured.
const BackupRestorable corev1beta1.ConditionType = "BackupRestorable"

// Reasons of the condition BackupRestorable.
const (
	// ReasonDrillSucceeded goes with BackupRestorable=True: the operator has decrypted the last file and checked it. With restoreData, it
	// has also restored the last snapshot, and read all objects with the keys in the file.
	ReasonDrillSucceeded = "DrillSucceeded"
	// ReasonDrillFailed goes with BackupRestorable=False: the last file is damaged, lacks keys, has other keys than the Garden, the
	// operator cannot decrypt it, or the last snapshot of etcd main cannot be restored and read with the keys in the file.
	//
	// Remedy: repair the storage of the folder, and keep older files. The operator writes another file at once if it cannot read the last one.
	// If the message is about the snapshot, make a full snapshot, and keep older ones.
	ReasonDrillFailed = "DrillFailed"
	// ReasonBackupFailed goes with BackupRestorable=False: a backup that is due could not be written.
	//
	// Remedy: remove the cause in the message.
	ReasonBackupFailed = "BackupFailed"
	// ReasonBackupTooOld goes with BackupRestorable=False: the last file is older than two intervals.
	ReasonBackupTooOld = "BackupTooOld"
)

// AnnotationKubernetesVersion is an annotation of Deployment virtual-garden-kube-apiserver in the namespace garden: the version of
// Kubernetes that the Deployment runs. The operator sets it. Missing: the operator takes the version from the tag of the image.
const AnnotationKubernetesVersion = "espalier.dev/kubernetes-version"

// AnnotationRuntimeNetworks is an annotation of Namespace garden with the networks of the runtime cluster that the Garden listed at its
// last reconciliation, in JSON. The operator sets it, because no other object in the cluster lists these networks separately. Missing: the
// operator does not know the earlier networks.
const AnnotationRuntimeNetworks = "espalier.dev/runtime-networks"

// AnnotationTokenKey is an annotation of a Secret with a token of a ServiceAccount. Its value is the name of the Secret with the signing
// key that was current when the operator last requested a new token because of a rotation of that key. Missing: the operator has never
// requested a new token because of a rotation.
const AnnotationTokenKey = "espalier.dev/token-key"

// AnnotationSeedRenewal is the beginning of the names of annotations on Seeds. The rest of a name is the operation that the operator
// requests of the Seed while a rotation is being prepared, for example espalier.dev/renew-kubeconfig. The value is the name of the Secret
// with the new credential, and the progress: "<Secret> requested" or "<Secret> renewed". The operator sets it. Missing: the operator has
// never requested the operation of that Seed.
const AnnotationSeedRenewal = "espalier.dev/"

// AnnotationEncryptionKey is an annotation of the Deployment of an API server. Its value is the name of the Secret with the encryption key
// that the rotation annotations of the Deployment refer to. The operator sets it. Missing: the rotation annotations refer to the current
// key.
const AnnotationEncryptionKey = "espalier.dev/encryption-key"

// LabelEvictionRequirements is a label on VerticalPodAutoscalers whose eviction requirements the operator sets, with the value
// EvictionRequirementsManaged. The operator and gardenlet set the label, on the VerticalPodAutoscalers of etcds. Missing: the operator does
// not change the eviction requirements.
const (
	LabelEvictionRequirements   = "autoscaling.gardener.cloud/eviction-requirements"
	EvictionRequirementsManaged = "managed-by-controller"
)

// AnnotationDownscaleRestriction is an annotation on VerticalPodAutoscalers with LabelEvictionRequirements: when Pods may be evicted only
// to take CPU or memory away. The client that sets the label also sets the annotation, to one of these values. The operator leaves a
// VerticalPodAutoscaler without the annotation, or with another value, as it is.
const (
	AnnotationDownscaleRestriction = "eviction-requirements.autoscaling.gardener.cloud/downscale-restriction"
	// DownscaleNever never allows it.
	DownscaleNever = "never"
	// DownscaleInMaintenanceWindow allows it in the window of AnnotationMaintenanceWindow.
	DownscaleInMaintenanceWindow = "in-maintenance-window-only"
)

// AnnotationMaintenanceWindow is an annotation on VerticalPodAutoscalers with the restriction DownscaleInMaintenanceWindow: the begin and
// the end of the maintenance window of the Garden or of the Shoot, for example 220000+0100,230000+0100. The client that sets the
// restriction sets it. Missing or wrong: the same as DownscaleNever.
const AnnotationMaintenanceWindow = "shoot.gardener.cloud/maintenance-window"

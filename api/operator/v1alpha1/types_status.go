package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// GardenStatus is the state of a Garden that the operator has observed, and the progress of its operations.
type GardenStatus struct {
	// Gardener identifies the operator process that last reconciled or deleted the Garden.
	// +optional
	Gardener *OperatorIdentity `json:"gardener,omitempty"`
	// Conditions are the results of health checks, at most one of each type.
	// +optional
	Conditions []corev1beta1.Condition `json:"conditions,omitempty"`
	// LastOperation is the current or last reconciliation or deletion.
	// +optional
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
	// Tasks are the steps of the last operation in their order.
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Tasks []Task `json:"tasks,omitempty"`
	// ObservedGeneration is the generation that the last operation works on. It is set when the operation begins.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Credentials are the states of credentials.
	// +optional
	Credentials *Credentials `json:"credentials,omitempty"`
	// AdvertisedAddresses are the addresses of the virtual cluster.
	// +optional
	AdvertisedAddresses []AdvertisedAddress `json:"advertisedAddresses,omitempty"`
	// EncryptedResources is the field that Gardener 1.86 to 1.138 used in place of credentials.encryptionAtRest.resources. The operator reads
	// it as long as credentials.encryptionAtRest is not set.
	//
	// Deprecated: use credentials.encryptionAtRest.
	// +optional
	EncryptedResources []string `json:"encryptedResources,omitempty"`
}

// EncryptionAtRest returns the resources that the API servers encrypt in etcd in addition to the resources that they always encrypt. It
// reads credentials.encryptionAtRest, or the older field encryptedResources if credentials.encryptionAtRest is not set. The type of the
// provider is aescbc if the status does not name one.
func (s GardenStatus) EncryptionAtRest() EncryptionAtRest {
	current := EncryptionAtRest{Resources: s.EncryptedResources}
	if s.Credentials != nil && s.Credentials.EncryptionAtRest != nil {
		current = *s.Credentials.EncryptionAtRest
	}
	if current.Provider == nil || current.Provider.Type == "" {
		current.Provider = &EncryptionProviderStatus{Type: EncryptionProviderAESCBC}
	}
	return current
}

// OperatorIdentity identifies a process of the operator.
type OperatorIdentity struct {
	// ID is the identifier of its container, or random characters.
	ID string `json:"id"`
	// Name is the name of its host.
	Name string `json:"name"`
	// Version is the version of the operator.
	Version string `json:"version"`
}

// LastOperation is the current or last reconciliation or deletion of a Garden.
type LastOperation struct {
	// Type is Reconcile or Delete.
	Type LastOperationType `json:"type"`
	// State is Processing, Succeeded or Error.
	State LastOperationState `json:"state"`
	// Progress is the share of tasks that have succeeded, in percent.
	Progress int32 `json:"progress"`
	// Description is the current step of the operator, or the reason of a failure, for people.
	Description string `json:"description"`
	// LastUpdateTime is the time at which one of the fields last changed.
	LastUpdateTime metav1.Time `json:"lastUpdateTime"`
}

// LastOperationType is the kind of an operation.
type LastOperationType string

// Types of operations.
const (
	// LastOperationReconcile creates or updates everything that belongs to the Garden.
	LastOperationReconcile LastOperationType = "Reconcile"
	// LastOperationDelete deletes everything that belongs to the Garden.
	LastOperationDelete LastOperationType = "Delete"
)

// LastOperationState is the progress of an operation.
type LastOperationState string

// States of operations.
const (
	// LastOperationProcessing means that the operation is going on.
	LastOperationProcessing LastOperationState = "Processing"
	// LastOperationSucceeded means that the operation has ended as desired.
	LastOperationSucceeded LastOperationState = "Succeeded"
	// LastOperationError means that the operation failed. The operator retries it.
	LastOperationError LastOperationState = "Error"
)

// Task is a step of an operation.
type Task struct {
	// Name is the name of the task, unique within the list.
	Name string `json:"name"`
	// State is Pending, Running, Succeeded, Failed or Skipped.
	// +kubebuilder:validation:Enum=Pending;Running;Succeeded;Failed;Skipped
	State TaskState `json:"state"`
	// Since is the time at which the task entered its state.
	Since metav1.Time `json:"since"`
	// WaitingFor is one sentence for people: the missing condition that a running task waits for, or the reason of a failure. It is empty for
	// finished tasks.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	WaitingFor string `json:"waitingFor,omitempty"`
}

// Bounds of status.tasks, which the schema enforces and writers must keep.
const (
	// MaxTasks is the largest number of tasks in a status.
	MaxTasks = 100
	// MaxWaitingFor is the largest number of characters in the field waitingFor of a task.
	MaxWaitingFor = 1024
)

// TaskState is the progress of a task. A printer column of the Garden relies on the alphabetical order of these names.
type TaskState string

// States of tasks.
const (
	// TaskPending means that the task has not begun.
	TaskPending TaskState = "Pending"
	// TaskRunning means that the task has begun.
	TaskRunning TaskState = "Running"
	// TaskFailed means that the task failed. The next operation repeats it.
	TaskFailed TaskState = "Failed"
	// TaskSucceeded means that the task has ended as desired.
	TaskSucceeded TaskState = "Succeeded"
	// TaskSkipped means that the task has nothing to do in this operation.
	TaskSkipped TaskState = "Skipped"
)

// AdvertisedAddress is an address of the virtual cluster.
type AdvertisedAddress struct {
	// Name is the name of the endpoint, for example virtual-garden.
	Name string `json:"name"`
	// URL is the address.
	URL string `json:"url"`
}

// Credentials are the states of credentials.
type Credentials struct {
	// Rotation are the states of rotations.
	// +optional
	Rotation *CredentialsRotation `json:"rotation,omitempty"`
	// EncryptionAtRest lists the resources that are encrypted in etcd, and names the encryption provider.
	// +optional
	EncryptionAtRest *EncryptionAtRest `json:"encryptionAtRest,omitempty"`
}

// EncryptionAtRest lists the resources that are encrypted in etcd, and names the encryption provider.
type EncryptionAtRest struct {
	// Resources are the encrypted resources of both API servers, without the resources that are always encrypted.
	// +optional
	Resources []string `json:"resources,omitempty"`
	// Provider is the encryption provider. Nil means aescbc.
	// +optional
	Provider *EncryptionProviderStatus `json:"provider,omitempty"`
}

// EncryptionProviderStatus is the encryption provider of the data in etcd.
type EncryptionProviderStatus struct {
	// Type is the encryption provider. Empty means aescbc.
	Type EncryptionProviderType `json:"type"`
}

// CredentialsRotation are the states of rotations. A field is nil as long as its credentials were never rotated.
type CredentialsRotation struct {
	// CertificateAuthorities is the rotation of the certificate authorities.
	// +optional
	CertificateAuthorities *Rotation `json:"certificateAuthorities,omitempty"`
	// ServiceAccountKey is the rotation of the key that signs tokens of ServiceAccounts.
	// +optional
	ServiceAccountKey *Rotation `json:"serviceAccountKey,omitempty"`
	// ETCDEncryptionKey is the rotation of the key that encrypts data in etcd.
	// +optional
	ETCDEncryptionKey *ETCDEncryptionKeyRotation `json:"etcdEncryptionKey,omitempty"`
	// Observability is the rotation of passwords of observability components.
	// +optional
	Observability *ObservabilityRotation `json:"observability,omitempty"`
	// WorkloadIdentityKey is the rotation of the key that signs tokens of workload identities.
	// +optional
	WorkloadIdentityKey *Rotation `json:"workloadIdentityKey,omitempty"`
}

// RotationPhase is the progress of a rotation in two steps. Empty means that there was no rotation yet.
type RotationPhase string

// Phases of a rotation, in their order.
const (
	// RotationPreparing means that new credentials are being created and distributed beside the old ones.
	RotationPreparing RotationPhase = "Preparing"
	// RotationPrepared means that old and new credentials are valid. The user updates clients and completes the rotation.
	RotationPrepared RotationPhase = "Prepared"
	// RotationCompleting means that the old credentials are being removed.
	RotationCompleting RotationPhase = "Completing"
	// RotationCompleted means that only the new credentials are valid.
	RotationCompleted RotationPhase = "Completed"
)

// Rotation is the state of a rotation in two steps.
type Rotation struct {
	// Phase is Preparing, Prepared, Completing or Completed.
	Phase RotationPhase `json:"phase"`
	// LastInitiationTime is the time at which the last rotation was started.
	// +optional
	LastInitiationTime *metav1.Time `json:"lastInitiationTime,omitempty"`
	// LastInitiationFinishedTime is the time at which the first step of the current rotation ended.
	// +optional
	LastInitiationFinishedTime *metav1.Time `json:"lastInitiationFinishedTime,omitempty"`
	// LastCompletionTriggeredTime is the time at which the second step of the current rotation was started.
	// +optional
	LastCompletionTriggeredTime *metav1.Time `json:"lastCompletionTriggeredTime,omitempty"`
	// LastCompletionTime is the time at which the last rotation was completed.
	// +optional
	LastCompletionTime *metav1.Time `json:"lastCompletionTime,omitempty"`
	// AbortedInitiationTime is set if the user has aborted a rotation: the time at which that rotation was started. The last rotation then
	// leads back to the credential from before that time. It was started at LastInitiationTime, has the same phases, and completes by itself.
	// The operator removes AbortedInitiationTime when the next rotation starts.
	// +optional
	AbortedInitiationTime *metav1.Time `json:"abortedInitiationTime,omitempty"`
}

// ETCDEncryptionKeyRotation is the state of the rotation of the key that encrypts data in etcd.
type ETCDEncryptionKeyRotation struct {
	// Rotation is the state of the rotation.
	Rotation `json:",inline"`

	// AutoCompleteAfterPrepared is true if the operator completes the rotation by itself.
	// +optional
	AutoCompleteAfterPrepared *bool `json:"autoCompleteAfterPrepared,omitempty"`
}

// ObservabilityRotation is the state of a rotation in one step.
type ObservabilityRotation struct {
	// LastInitiationTime is the time at which the last rotation was started.
	// +optional
	LastInitiationTime *metav1.Time `json:"lastInitiationTime,omitempty"`
	// LastCompletionTime is the time at which the last rotation was completed.
	// +optional
	LastCompletionTime *metav1.Time `json:"lastCompletionTime,omitempty"`
}

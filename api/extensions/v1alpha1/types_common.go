package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// Class is the part of a landscape that an object belongs to. A controller reconciles the objects of its own classes only.
type Class string

// Classes of objects.
const (
	// ClassShoot is the class of objects that belong to a Shoot, and of objects without a class.
	ClassShoot Class = "shoot"
	// ClassSeed is the class of objects that belong to a Seed.
	ClassSeed Class = "seed"
	// ClassGarden is the class of objects that belong to a Garden.
	ClassGarden Class = "garden"
)

// DefaultSpec are the fields that the specifications of all kinds have.
type DefaultSpec struct {
	// Type is the name of the extension whose controller reconciles the object, for example local.
	Type string `json:"type"`
	// Class is the part of the landscape that the object belongs to. Nil means shoot.
	// +optional
	Class *Class `json:"class,omitempty"`
	// ProviderConfig is the configuration for the controller, of a kind that the extension defines.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
}

// SecretReference names a Secret.
type SecretReference struct {
	// Name is the name of the Secret.
	// +optional
	Name string `json:"name,omitempty"`
	// Namespace is the namespace of the Secret.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// DefaultStatus are the fields that the status of all kinds have.
type DefaultStatus struct {
	// Conditions are the results of health checks, at most one of each type.
	// +optional
	Conditions []corev1beta1.Condition `json:"conditions,omitempty"`
	// LastError is the error of the last operation. Nil: the last operation did not fail.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	LastError *LastError `json:"lastError,omitempty"`
	// LastOperation is the current or last operation of the controller.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
	// ObservedGeneration is the generation that the last operation works on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ProviderStatus is the status of the controller, of a kind that the extension defines.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	ProviderStatus *runtime.RawExtension `json:"providerStatus,omitempty"`
}

// LastOperation is the current or last operation of a controller on an object.
type LastOperation struct {
	// Type is the kind of operation, for example Reconcile or Delete.
	// +optional
	Type string `json:"type,omitempty"`
	// State is the progress of the operation in one word, for example Processing, Succeeded or Error.
	// +optional
	State string `json:"state,omitempty"`
	// Progress is the share of the operation that is done, in percent.
	// +optional
	Progress int32 `json:"progress,omitempty"`
	// Description is the current step, or the reason of a failure, for people.
	// +optional
	Description string `json:"description,omitempty"`
	// LastUpdateTime is the time at which one of the fields last changed.
	// +optional
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitzero"`
}

// LastError is the error of an operation.
type LastError struct {
	// Description is the error, for people.
	// +optional
	Description string `json:"description,omitempty"`
	// Codes classify the error.
	// +optional
	Codes []corev1beta1.ErrorCode `json:"codes,omitempty"`
	// LastUpdateTime is the time of the error. Nil: unknown.
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`
}

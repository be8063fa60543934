package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConditionType is the subject of a condition, in CamelCase, for example ResourcesApplied.
type ConditionType string

// ConditionStatus is the verdict of a condition.
type ConditionStatus string

const (
	// ConditionTrue means that the object is in the condition.
	ConditionTrue ConditionStatus = "True"
	// ConditionFalse means that the object is not in the condition.
	ConditionFalse ConditionStatus = "False"
	// ConditionUnknown means that no controller has evaluated the condition yet, or that none can.
	ConditionUnknown ConditionStatus = "Unknown"
	// ConditionProgressing means that a controller is still working on the object, so that the condition is not yet True or False.
	ConditionProgressing ConditionStatus = "Progressing"
)

// ErrorCode classifies an error for programs that read a condition.
type ErrorCode string

// ErrorConfigurationProblem says that the error stays until the user fixes the configuration.
const ErrorConfigurationProblem ErrorCode = "ERR_CONFIGURATION_PROBLEM"

// ConditionInitialized is the reason of a condition that no controller has judged yet; its status is Unknown.
const ConditionInitialized = "ConditionInitialized"

// Condition is one verdict about an object, with the reason for it.
type Condition struct {
	// Type of the condition. At most one condition of a type is in a status.
	Type ConditionType `json:"type"`
	// Status of the condition: True, False, Unknown or Progressing.
	Status ConditionStatus `json:"status"`
	// LastTransitionTime is the time at which the status last changed.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// LastUpdateTime is the time at which the reason, the message or the codes last changed.
	LastUpdateTime metav1.Time `json:"lastUpdateTime"`
	// Reason is the reason for the status, as one word in CamelCase.
	Reason string `json:"reason"`
	// Message is the reason for the status as a sentence, for people.
	Message string `json:"message"`
	// Codes classify the error behind the status, if there is one.
	// +optional
	Codes []ErrorCode `json:"codes,omitempty"`
}

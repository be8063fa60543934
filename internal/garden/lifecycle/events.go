package lifecycle

// Events report failures, long waits, operations that are refused and definitions that are kept.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,namespace=default,roleName=espalier-garden-operator-events

// Reasons of Events about Gardens.
const (
	// reasonOperationFailed is a Warning Event about a Garden: an operation failed before its tasks began, for example because the Garden
	// breaks a rule.
	reasonOperationFailed = "OperationFailed"
	// reasonTaskFailed is a Warning Event about a Garden: a task failed, for example because the operator lacks a right, a definition is
	// missing, or a wait was too long. The whole operation is repeated.
	reasonTaskFailed = "TaskFailed"
	// reasonTaskWaits is a Normal Event about a Garden: a task has waited for 10 seconds, and still does. The text says for what.
	reasonTaskWaits = "TaskWaits"
	// reasonOperationRefused is a Warning Event about a Garden: an operation in the annotation `gardener.cloud/operation`, or a name in
	// `espalier.dev/abort-rotation`, has no effect.
	reasonOperationRefused = "OperationRefused"
	// reasonRotationScheduled is a Normal Event about a Garden: the operator itself requests an operation that rotates credentials, as
	// `espalier.garden.rotation` in its configuration says.
	reasonRotationScheduled = "RotationScheduled"
	// reasonAuthorityNotYetValid is a Warning Event about a Garden: the validity of certificate authorities that only a rotation replaces
	// begins in the future, because a clock was ahead when they were issued.
	//
	// Remedy: rotate them.
	reasonAuthorityNotYetValid = "AuthorityNotYetValid"
	// reasonAuthoritiesExpire is a Warning Event about a Garden: certificate authorities that only a rotation replaces expire in less than 180
	// days.
	//
	// Remedy: start a rotation with the operation `rotate-ca-start`.
	reasonAuthoritiesExpire = "CertificateAuthoritiesExpire"
)

// ReasonOperationRefused is the reason of Events by which a plan knows that an operation or an abort is refused.
const ReasonOperationRefused = reasonOperationRefused

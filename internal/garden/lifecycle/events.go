package lifecycle

// Reasons of Events about Gardens.
const (
	// reasonOperationFailed means that an operation failed before its tasks began.
	reasonOperationFailed = "OperationFailed"
	// reasonTaskFailed means that a task failed. The whole operation is repeated.
	reasonTaskFailed = "TaskFailed"
	// reasonTaskWaits means that a task has waited for a component for some time, and still does.
	reasonTaskWaits = "TaskWaits"
	// reasonOperationRefused means that an operation of the user has no effect.
	reasonOperationRefused = "OperationRefused"
	// reasonAuthorityNotYetValid means that the validity of a certificate authority that only a rotation replaces begins in the future.
	reasonAuthorityNotYetValid = "AuthorityNotYetValid"
	// reasonDefinitionKept means that a definition stays, because objects of its kind exist.
	reasonDefinitionKept = "DefinitionKept"
	// reasonCredentialsKept means that keys and certificate authorities of a deleted Garden stay as copies.
	reasonCredentialsKept = "CredentialsKept"
	// reasonAuthoritiesExpire means that certificate authorities expire soon that only a rotation replaces.
	reasonAuthoritiesExpire = "CertificateAuthoritiesExpire"
)

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
	// reasonDefinitionKept means that a definition stays, because objects of its kind exist.
	reasonDefinitionKept = "DefinitionKept"
)

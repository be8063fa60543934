package lifecycle

// Reasons of Events about Gardens.
const (
	// reasonOperationRefused means that an operation of the user has no effect.
	reasonOperationRefused = "OperationRefused"
	// reasonDefinitionKept means that a definition stays, because objects of its kind exist.
	reasonDefinitionKept = "DefinitionKept"
)

package care

// Reasons of the conditions. If a ManagedResource is not healthy, the condition has the reason of the ManagedResource.
const (
	// reasonRuntimeRunning: the runtime components are healthy.
	reasonRuntimeRunning = "RuntimeComponentsRunning"
	// reasonVirtualRunning: the components of the virtual cluster are healthy.
	reasonVirtualRunning = "VirtualComponentsRunning"
	// reasonObservabilityRunning: the observability components are healthy.
	reasonObservabilityRunning = "ObservabilityComponentsRunning"
	// reasonAPIServerDown: the operator has no client for the API server of the virtual cluster.
	reasonAPIServerDown = "VirtualGardenAPIServerDown"
	// reasonHealthzFailed: the API server of the virtual cluster does not answer.
	reasonHealthzFailed = "HealthzRequestFailed"
	// reasonHealthzError: the API server of the virtual cluster answers that it is not healthy.
	reasonHealthzError = "HealthzRequestError"
	// reasonHealthzSucceeded: the API server of the virtual cluster answers that it is healthy.
	reasonHealthzSucceeded = "HealthzRequestSucceeded"
	// reasonDeploymentMissing: a Deployment of the control plane does not exist.
	reasonDeploymentMissing = "DeploymentMissing"
	// reasonDeploymentUnhealthy: a Deployment of the control plane is not healthy.
	reasonDeploymentUnhealthy = "DeploymentUnhealthy"
	// reasonEtcdMissing: an Etcd of the control plane does not exist.
	reasonEtcdMissing = "EtcdMissing"
	// reasonEtcdUnhealthy: an Etcd is not ready, or its backup fails.
	reasonEtcdUnhealthy = "EtcdUnhealthy"
	// reasonBackupIncomplete: the Garden names no bucket for the backup of the main etcd.
	reasonBackupIncomplete = "BackupIncomplete"
	// reasonResourceNotFound: a ManagedResource of a component does not exist.
	reasonResourceNotFound = "ResourceNotFound"
	// reasonOutdatedStatus: the resource manager has not reconciled the current generation of a ManagedResource.
	reasonOutdatedStatus = "OutdatedStatus"
	// reasonConditionMissing: a ManagedResource lacks a condition.
	reasonConditionMissing = "MissingManagedResourceCondition"
	// reasonCheckError: the check came to no verdict, and the status of the condition is Unknown.
	reasonCheckError = "ConditionCheckError"
)

package care

// Reasons of the conditions. If a ManagedResource is not healthy, the condition has the reason of the ManagedResource. A condition that a
// threshold is configured for is Progressing for that time before it is False.
const (
	// reasonRuntimeRunning goes with RuntimeComponentsHealthy=True: the components of the runtime cluster are healthy.
	reasonRuntimeRunning = "RuntimeComponentsRunning"
	// reasonVirtualRunning goes with VirtualComponentsHealthy=True: the components of the virtual cluster are healthy.
	reasonVirtualRunning = "VirtualComponentsRunning"
	// reasonObservabilityRunning goes with ObservabilityComponentsHealthy=True: the components of logging and monitoring are healthy. The
	// message names the components that the configuration of the operator skips.
	reasonObservabilityRunning = "ObservabilityComponentsRunning"
	// reasonObservabilitySkipped goes with ObservabilityComponentsHealthy=True: no component of logging and monitoring is deployed. The
	// message names the components that the configuration of the operator skips.
	reasonObservabilitySkipped = "ObservabilityComponentsSkipped"
	// reasonAPIServerDown goes with VirtualGardenAPIServerAvailable=False: the operator has no client for the API server of the virtual
	// cluster.
	reasonAPIServerDown = "VirtualGardenAPIServerDown"
	// reasonHealthzFailed goes with VirtualGardenAPIServerAvailable=False: the API server of the virtual cluster does not answer.
	reasonHealthzFailed = "HealthzRequestFailed"
	// reasonHealthzError goes with VirtualGardenAPIServerAvailable=False: the API server of the virtual cluster answers that it is not
	// healthy.
	reasonHealthzError = "HealthzRequestError"
	// reasonHealthzSucceeded goes with VirtualGardenAPIServerAvailable=True: the API server of the virtual cluster answers that it is healthy.
	reasonHealthzSucceeded = "HealthzRequestSucceeded"
	// reasonDeploymentMissing goes with VirtualComponentsHealthy=False: a Deployment of the control plane does not exist.
	reasonDeploymentMissing = "DeploymentMissing"
	// reasonDeploymentUnhealthy goes with VirtualComponentsHealthy=False, ObservabilityComponentsHealthy=False: a Deployment is not healthy.
	// It is a Deployment of the control plane, or a Deployment that another operator creates for a custom resource of an observability
	// component.
	reasonDeploymentUnhealthy = "DeploymentUnhealthy"
	// reasonStatefulSetUnhealthy goes with ObservabilityComponentsHealthy=False: a StatefulSet that another operator creates for a custom
	// resource is not healthy.
	reasonStatefulSetUnhealthy = "StatefulSetUnhealthy"
	// reasonDaemonSetUnhealthy goes with ObservabilityComponentsHealthy=False: a DaemonSet that another operator creates for a custom
	// resource is not healthy.
	reasonDaemonSetUnhealthy = "DaemonSetUnhealthy"
	// reasonVLSingleUnhealthy goes with ObservabilityComponentsHealthy=False: the operator of VictoriaMetrics cannot apply the custom resource
	// of VictoriaLogs.
	reasonVLSingleUnhealthy = "VLSingleUnhealthy"
	// reasonEtcdMissing goes with VirtualComponentsHealthy=False: an Etcd of the control plane does not exist.
	reasonEtcdMissing = "EtcdMissing"
	// reasonEtcdUnhealthy goes with VirtualComponentsHealthy=False: an Etcd is not ready, or its backup fails.
	reasonEtcdUnhealthy = "EtcdUnhealthy"
	// reasonBackupIncomplete goes with VirtualComponentsHealthy=False: the backup of the main etcd lacks a bucket, the region of a bucket that
	// the operator creates, or a Secret.
	//
	// Remedy: set the field that the message names.
	reasonBackupIncomplete = "BackupIncomplete"
	// reasonPrometheusError goes with ObservabilityComponentsHealthy=False: the operator cannot find out whether a Pod of Prometheus is
	// healthy, because the Pod does not answer or has no series about its health. Only with feature gate PrometheusHealthChecks.
	reasonPrometheusError = "PrometheusHealthCheckError"
	// reasonPrometheusDown goes with ObservabilityComponentsHealthy=False: a Pod of Prometheus says that it is not healthy. The message names
	// the faults. Only with feature gate PrometheusHealthChecks.
	reasonPrometheusDown = "PrometheusHealthCheckDown"
	// reasonResourceNotFound goes with RuntimeComponentsHealthy=False, VirtualComponentsHealthy=False, ObservabilityComponentsHealthy=False:
	// a ManagedResource of a component does not exist. For observability components also: a workload does not exist that another operator
	// creates for a custom resource.
	reasonResourceNotFound = "ResourceNotFound"
	// reasonOutdatedStatus goes with RuntimeComponentsHealthy=False, VirtualComponentsHealthy=False, ObservabilityComponentsHealthy=False: the
	// resource manager has not reconciled the current generation of a ManagedResource.
	reasonOutdatedStatus = "OutdatedStatus"
	// reasonConditionMissing goes with RuntimeComponentsHealthy=False, VirtualComponentsHealthy=False, ObservabilityComponentsHealthy=False: a
	// ManagedResource lacks a condition.
	reasonConditionMissing = "MissingManagedResourceCondition"
	// reasonCheckError goes with RuntimeComponentsHealthy=Unknown, VirtualComponentsHealthy=Unknown, ObservabilityComponentsHealthy=Unknown:
	// the objects could not be read.
	reasonCheckError = "ConditionCheckError"
)

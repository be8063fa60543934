package v1alpha1

// Set on Nodes by the component that registers them; the node controller only removes it.
const (
	// CriticalComponentsNotReady is the key of a taint. Any value, any effect; normally NoSchedule. The node controller removes it when all
	// critical components of the Node are ready. Missing: the controller ignores the Node.
	CriticalComponentsNotReady = "node.gardener.cloud/critical-components-not-ready"
)

// Set by users on the workloads that a Node needs before other Pods may run on the Node.
const (
	// CriticalComponent is a label on DaemonSets and their Pod templates (both are needed), and on Pods of any kind. Exactly
	// CriticalComponentValue: a Node keeps its taint until the Pods that must run on it exist and are ready. Missing or another value: Nodes
	// do not wait for the object.
	CriticalComponent = "node.gardener.cloud/critical-component"
	// CriticalComponentValue is the only value of CriticalComponent that counts.
	CriticalComponentValue = "true"
	// WaitForCSINodePrefix is the prefix of keys of annotations on Pods with the label CriticalComponent; any suffix that makes the key unique
	// may follow. Value: the name of a CSI driver, which the CSINode of the Pod's Node must list. With a value that cannot be such a name, the
	// Node keeps its taint, and the Pod gets a Warning Event. Missing: the Node waits for no driver.
	WaitForCSINodePrefix = "node.gardener.cloud/wait-for-csi-node-"
)

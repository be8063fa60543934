package v1alpha1

// Set on Nodes by the component that registers them; the node controller only removes it.
const (
	// CriticalComponentsNotReady is the key of a taint. Any value, any effect; normally NoSchedule. The node controller
	// removes it when all critical components of the Node are ready. Missing: the Node is not looked at.
	CriticalComponentsNotReady = "node.gardener.cloud/critical-components-not-ready"
)

// Set by users on what a Node cannot do without.
const (
	// CriticalComponent is a label on DaemonSets and their Pod templates (both are needed), and on Pods of any kind. Exactly
	// CriticalComponentValue: Nodes keep their taint until the Pods that belong on them exist and are ready. Missing or
	// another value: the object is of no account.
	CriticalComponent = "node.gardener.cloud/critical-component"
	// CriticalComponentValue is the only value of CriticalComponent that counts.
	CriticalComponentValue = "true"
	// WaitForCSINodePrefix starts the keys of annotations on Pods that have the label CriticalComponent; what follows keeps
	// keys apart. Value: the name of a CSI driver, which the CSINode of the Pod's Node must list. A value that cannot be such
	// a name holds the Node back, with a Warning Event on the Pod. Missing: no driver is waited for.
	WaitForCSINodePrefix = "node.gardener.cloud/wait-for-csi-node-"
)

package component

// Names of rows that other rows name.
const (
	ETCDDefinitions  = "etcd-definitions"
	VPADefinitions   = "vpa-definitions"
	HVPA             = "hvpa"
	IstioDefinitions = "istio-definitions"

	// RuntimeSystem is the row of the NetworkPolicies and PriorityClasses of the runtime cluster.
	RuntimeSystem = "runtime-system"
	// ResourceManager is the row of the resource manager of the runtime cluster.
	ResourceManager = "gardener-resource-manager"
	// Etcds is the row of the etcds of the virtual cluster.
	Etcds = "etcds"
	// NoManagedResources is the step of a deletion after which the runtime cluster has no ManagedResource.
	NoManagedResources = "managed-resources"
	// Unused is the step of a deletion that must succeed before anything is destroyed.
	Unused = "unused"
	// Preconditions is the step that must succeed before anything of the virtual cluster changes.
	Preconditions = "preconditions"
	// ExposedService and Routes are the rows of the objects by which clients reach kube-apiserver.
	ExposedService = "kube-apiserver-service"
	Routes         = "kube-apiserver-routes"
	KubeAPIServer  = "kube-apiserver"
	// VirtualResourceManager is the row of the resource manager of the virtual cluster.
	VirtualResourceManager = "virtual-resource-manager"
	VirtualSystem          = "virtual-system"
	GardenerAccess         = "gardener-access"
	GardenerAPIServer      = "gardener-apiserver"
)

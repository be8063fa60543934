package v1alpha1

// VirtualCluster is the cluster that stores the data of Gardener.
//
// The rule about highAvailability is here and not at its field, so that it also applies when a request removes controlPlane.
//
// +kubebuilder:validation:XValidation:rule="!oldSelf.?controlPlane.highAvailability.hasValue() || self.?controlPlane.highAvailability.hasValue()",message="field is immutable",fieldPath=".controlPlane.highAvailability"
type VirtualCluster struct {
	// ControlPlane are settings for the whole control plane of the virtual cluster.
	// +optional
	ControlPlane *ControlPlane `json:"controlPlane,omitempty"`
	// DNS are the domains of the virtual cluster.
	DNS DNS `json:"dns"`
	// ETCD are settings for the etcds.
	// +optional
	ETCD *ETCD `json:"etcd,omitempty"`
	// Gardener are settings for the components of Gardener.
	Gardener Gardener `json:"gardener"`
	// Kubernetes are settings for the Kubernetes control plane.
	Kubernetes Kubernetes `json:"kubernetes"`
	// Maintenance says when disruptive work may happen.
	Maintenance Maintenance `json:"maintenance"`
	// Networking are the networks of the virtual cluster.
	Networking VirtualNetworking `json:"networking"`
}

// ControlPlane are settings for the whole control plane of the virtual cluster.
type ControlPlane struct {
	// HighAvailability runs the control plane with more replicas, spread across nodes and zones. It cannot be removed once set.
	// +optional
	HighAvailability *HighAvailability `json:"highAvailability,omitempty"`
}

// HighAvailability runs the control plane with more replicas. It has no settings.
type HighAvailability struct{}

// DNS are the domains of the virtual cluster.
type DNS struct {
	// Domains are the external domains of the virtual cluster: its API server is api.<domain> and gardener.<domain>. An entry is an
	// object with name and provider, or a string with the name. The first entry is the primary domain and is immutable. The webhook
	// checks that, and that there is one.
	// +kubebuilder:validation:MinItems=1
	// +optional
	Domains []Domain `json:"domains,omitempty"`
}

// Maintenance says when disruptive work may happen.
type Maintenance struct {
	// TimeWindow is the daily time for disruptive work, such as the defragmentation of etcd.
	TimeWindow MaintenanceTimeWindow `json:"timeWindow"`
}

// MaintenanceTimeWindow is a period of the day. Begin and end have the form HHMMSS+ZZ00 or HHMMSS-ZZ00, for example 220000+0100: the time
// and its offset from UTC, in whole hours.
type MaintenanceTimeWindow struct {
	// Begin is the first moment of the window.
	// +kubebuilder:validation:Pattern=`^([0-1][0-9]|2[0-3])[0-5][0-9][0-5][0-9](\+(0[0-9]|1[0-4])|-(0[0-9]|1[0-2]))00$`
	Begin string `json:"begin"`
	// End is the last moment of the window. It is on the next day if it is before begin.
	// +kubebuilder:validation:Pattern=`^([0-1][0-9]|2[0-3])[0-5][0-9][0-5][0-9](\+(0[0-9]|1[0-4])|-(0[0-9]|1[0-2]))00$`
	End string `json:"end"`
}

// VirtualNetworking are the networks of the virtual cluster.
type VirtualNetworking struct {
	// Services are the networks of Services, as a list of at most two networks in CIDR notation or as a string with one. Entries are
	// immutable, and a second one can be appended; the webhook checks that.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	// +required
	Services CIDRList `json:"services,omitempty"`
}

// Kubernetes are settings for the Kubernetes control plane of the virtual cluster.
type Kubernetes struct {
	// KubeAPIServer are settings for kube-apiserver.
	// +optional
	KubeAPIServer *KubeAPIServer `json:"kubeAPIServer,omitempty"`
	// KubeControllerManager are settings for kube-controller-manager.
	// +optional
	KubeControllerManager *KubeControllerManager `json:"kubeControllerManager,omitempty"`
	// Version is the version of Kubernetes, for example 1.36.1.
	// +kubebuilder:validation:MinLength=1
	Version string `json:"version"`
}

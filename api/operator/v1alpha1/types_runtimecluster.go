package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// RuntimeCluster is the cluster that the operator and all control planes run in.
type RuntimeCluster struct {
	// Ingress says how the runtime cluster publishes its endpoints: the domains and the ingress controller.
	Ingress Ingress `json:"ingress"`
	// Networking are the networks of the runtime cluster.
	Networking RuntimeNetworking `json:"networking"`
	// Provider is the infrastructure of the runtime cluster.
	Provider Provider `json:"provider"`
	// Settings change how components are deployed.
	// +optional
	Settings *Settings `json:"settings,omitempty"`
	// Volume are settings for the volumes of components in the runtime cluster.
	// +optional
	Volume *Volume `json:"volume,omitempty"`
	// CertManagement existed only in Gardener 1.99 to 1.107. It is accepted for manifests of that time and has no effect.
	//
	// Deprecated: remove it.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	CertManagement *runtime.RawExtension `json:"certManagement,omitempty"`
}

// Volume are settings for the volumes of components in the runtime cluster.
type Volume struct {
	// MinimumSize is the least size of the volumes of observability components, for an infrastructure that has no smaller ones. Etcds have
	// settings of their own. An existing volume keeps its size. Default: each component has its own size.
	// +optional
	MinimumSize *resource.Quantity `json:"minimumSize,omitempty"`
}

// Ingress says how the runtime cluster publishes its endpoints. One of domain and domains must be set; the webhook and the operator check
// that.
type Ingress struct {
	// Domain is the only domain, as in Gardener up to 1.91. It means the same as a single entry of domains.
	//
	// Deprecated: use domains.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Value is immutable"
	// +optional
	Domain *string `json:"domain,omitempty"`
	// Domains are the domains below which endpoints of the runtime cluster are published, for example plutono-garden.<first domain>.
	// An entry is an object with name and provider, or a string with the name. The first entry is immutable; the webhook checks that.
	// +kubebuilder:validation:MinItems=1
	// +optional
	Domains []Domain `json:"domains,omitempty"`
	// Controller is the ingress controller in the runtime cluster.
	Controller IngressController `json:"controller"`
}

// AllDomains returns the domains in either form: the list domains, or the one domain of the field domain. The result is empty if neither is
// set.
func (i Ingress) AllDomains() []Domain {
	if len(i.Domains) == 0 && i.Domain != nil && *i.Domain != "" {
		return []Domain{{Name: *i.Domain}}
	}
	return i.Domains
}

// IngressController is the ingress controller in the runtime cluster.
type IngressController struct {
	// Kind is the kind of ingress controller.
	// +kubebuilder:validation:Enum=nginx
	Kind string `json:"kind"`
	// ProviderConfig is merged over the default settings in the ConfigMap of the controller.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
}

// RuntimeNetworking are the networks of the runtime cluster. Each of nodes, pods and services is a list of networks in CIDR
// notation, or a single one as a string. Entries are immutable, and further ones can be appended; the webhook checks that.
type RuntimeNetworking struct {
	// IPFamilies are the IP families of the runtime cluster: IPv4, IPv6, or both. Default: IPv4, set by the webhook.
	// +optional
	IPFamilies []corev1.IPFamily `json:"ipFamilies,omitempty"`
	// Nodes are the networks of nodes.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Nodes CIDRList `json:"nodes,omitempty"`
	// Pods are the networks of Pods.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	// +required
	Pods CIDRList `json:"pods,omitempty"`
	// Services are the networks of Services.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	// +required
	Services CIDRList `json:"services,omitempty"`
	// BlockCIDRs are networks to which the NetworkPolicies to-public-networks and to-private-networks allow no traffic.
	// +optional
	BlockCIDRs []string `json:"blockCIDRs,omitempty"`
}

// Provider is the infrastructure of the runtime cluster.
type Provider struct {
	// Region is the region of the runtime cluster. It is the default region of the BackupBucket.
	// +optional
	Region *string `json:"region,omitempty"`
	// Zones are the availability zones that Pods are spread across.
	// +optional
	Zones []string `json:"zones,omitempty"`
}

// Settings change how components are deployed into the runtime cluster.
type Settings struct {
	// LoadBalancerServices are settings for Services of type LoadBalancer.
	// +optional
	LoadBalancerServices *LoadBalancerServices `json:"loadBalancerServices,omitempty"`
	// VerticalPodAutoscaler are settings for the vertical pod autoscaler. Without them, the cluster must bring its own.
	// +optional
	VerticalPodAutoscaler *VerticalPodAutoscaler `json:"verticalPodAutoscaler,omitempty"`
	// TopologyAwareRouting are settings for traffic between availability zones.
	// +optional
	TopologyAwareRouting *TopologyAwareRouting `json:"topologyAwareRouting,omitempty"`
}

// LoadBalancerServices are settings for Services of type LoadBalancer.
type LoadBalancerServices struct {
	// Annotations are set on every Service of type LoadBalancer, and on the Service virtual-garden-kube-apiserver.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// ExternalTrafficPolicy is Cluster or Local. Default: the default of the API server of the runtime cluster.
	// +kubebuilder:validation:Enum=Cluster;Local
	// +optional
	ExternalTrafficPolicy *corev1.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`
	// ProxyProtocol says how the gateway learns the addresses of clients from the load balancer.
	// +optional
	ProxyProtocol *ProxyProtocol `json:"proxyProtocol,omitempty"`
}

// ProxyProtocol says how the gateway learns the addresses of clients from the load balancer.
type ProxyProtocol struct {
	// Allowed is true if the gateway reads headers of the PROXY protocol. Connections without such a header stay possible, so every client
	// that reaches the gateway without the load balancer can claim another address.
	Allowed bool `json:"allowed"`
}

// VerticalPodAutoscaler are settings for the vertical pod autoscaler.
type VerticalPodAutoscaler struct {
	// Enabled is true if the operator deploys the vertical pod autoscaler. Default: true.
	// +kubebuilder:default=true
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// FeatureGates are feature gates of the vertical pod autoscaler.
	// +optional
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// MaxAllowed is the upper limit of every recommendation, by cpu and memory. Default: no limit.
	// +optional
	MaxAllowed corev1.ResourceList `json:"maxAllowed,omitempty"`
}

// TopologyAwareRouting are settings for traffic between availability zones.
type TopologyAwareRouting struct {
	// Enabled is true if the client Services of etcd and the Services of API servers prefer endpoints in the zone of the client.
	Enabled bool `json:"enabled"`
}

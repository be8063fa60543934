package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// KubeAPIServer are settings for kube-apiserver of the virtual cluster.
//
// +kubebuilder:validation:XValidation:rule="!has(self.structuredAuthentication) || !has(self.oidcConfig)",message="cannot be set together with oidcConfig",reason=FieldValueForbidden,fieldPath=".structuredAuthentication"
type KubeAPIServer struct {
	// KubeAPIServerConfig are settings for kube-apiserver. Gardener uses the same type for Shoots.
	KubeAPIServerConfig `json:",inline"`

	// AuditWebhook sends audit events to a webhook.
	// +optional
	AuditWebhook *AuditWebhook `json:"auditWebhook,omitempty"`
	// Authentication configures the authentication of users.
	// +optional
	Authentication *Authentication `json:"authentication,omitempty"`
	// ResourcesToStoreInETCDEvents are resources that are stored in the etcd for events, besides events.
	// +optional
	ResourcesToStoreInETCDEvents []GroupResource `json:"resourcesToStoreInETCDEvents,omitempty"`
	// SNI is the certificate that clients see for certain domains.
	// +optional
	SNI *SNI `json:"sni,omitempty"`
}

// Authentication configures the authentication of users of kube-apiserver.
type Authentication struct {
	// Webhook is a webhook that checks tokens.
	// +optional
	Webhook *AuthenticationWebhook `json:"webhook,omitempty"`
}

// AuthenticationWebhook is a webhook that checks tokens.
type AuthenticationWebhook struct {
	// CacheTTL is the time for which kube-apiserver keeps answers of the webhook, as a duration such as 2m. Default: the default of
	// kube-apiserver.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +optional
	CacheTTL *metav1.Duration `json:"cacheTTL,omitempty"`
	// KubeconfigSecretName names a Secret in the namespace garden whose key kubeconfig contains a kubeconfig with the address of the webhook.
	// +kubebuilder:validation:MinLength=1
	KubeconfigSecretName string `json:"kubeconfigSecretName"`
	// Version is the version of TokenReview that the webhook understands. Default: v1beta1.
	// +kubebuilder:default=v1beta1
	// +kubebuilder:validation:Enum=v1alpha1;v1beta1;v1
	// +optional
	Version *string `json:"version,omitempty"`
}

// GroupResource is a resource of an API group.
type GroupResource struct {
	// Group is the API group. The core group cannot be named.
	// +kubebuilder:validation:MinLength=1
	Group string `json:"group"`
	// Resource is the plural name of the resource.
	// +kubebuilder:validation:MinLength=1
	Resource string `json:"resource"`
}

// SNI is the certificate that clients of kube-apiserver see for certain domains.
type SNI struct {
	// SecretName names a Secret of type kubernetes.io/tls in the namespace garden. Default: the Secret with the label
	// gardener.cloud/role=garden-cert.
	// +kubebuilder:validation:MinLength=1
	// +optional
	SecretName *string `json:"secretName,omitempty"`
	// DomainPatterns are the domains. A leading *. stands for one label of a domain. Default: the domains in the certificate.
	// +optional
	DomainPatterns []string `json:"domainPatterns,omitempty"`
}

// KubeControllerManager are settings for kube-controller-manager of the virtual cluster.
type KubeControllerManager struct {
	// KubeControllerManagerConfig are settings for kube-controller-manager. Gardener uses the same type for Shoots.
	KubeControllerManagerConfig `json:",inline"`

	// CertificateSigningDuration is the longest validity of certificates that kube-controller-manager signs. Default: 48h.
	// +kubebuilder:default=`48h`
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +optional
	CertificateSigningDuration *metav1.Duration `json:"certificateSigningDuration,omitempty"`
}

// KubeControllerManagerConfig are settings for kube-controller-manager. Gardener uses the same type for Shoots. All fields except
// featureGates are for clusters with nodes; the webhook refuses a Garden that sets one of them, and names the field. It only warns of
// nodeCIDRMaskSizeIPv6.
type KubeControllerManagerConfig struct {
	// FeatureGates are feature gates of Kubernetes.
	// +optional
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// HorizontalPodAutoscaler is not allowed in a Garden.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	HorizontalPodAutoscaler *runtime.RawExtension `json:"horizontalPodAutoscaler,omitempty"`
	// NodeCIDRMaskSize is not allowed in a Garden.
	// +optional
	NodeCIDRMaskSize *int32 `json:"nodeCIDRMaskSize,omitempty"`
	// NodeCIDRMaskSizeIPv6 has no effect: the virtual cluster has no nodes.
	// +optional
	NodeCIDRMaskSizeIPv6 *int32 `json:"nodeCIDRMaskSizeIPv6,omitempty"`
	// NodeMonitorGracePeriod is not allowed in a Garden.
	// +optional
	NodeMonitorGracePeriod *metav1.Duration `json:"nodeMonitorGracePeriod,omitempty"`
	// PodEvictionTimeout is not allowed in a Garden.
	// +optional
	PodEvictionTimeout *metav1.Duration `json:"podEvictionTimeout,omitempty"`
}

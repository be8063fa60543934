package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// AdmissionPlugin configures an admission plugin of kube-apiserver or gardener-apiserver.
type AdmissionPlugin struct {
	// Name is the name of the plugin.
	Name string `json:"name"`
	// Config is the configuration of the plugin, as an object of the kind that the plugin reads.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Config *runtime.RawExtension `json:"config,omitempty"`
	// Disabled switches the plugin off if it is true. Default: false.
	// +optional
	Disabled *bool `json:"disabled,omitempty"`
	// KubeconfigSecretName names a Secret in the namespace garden whose key kubeconfig the plugin uses to reach webhooks.
	// +optional
	KubeconfigSecretName *string `json:"kubeconfigSecretName,omitempty"`
}

// AuditConfig configures the audit log of an API server.
type AuditConfig struct {
	// AuditPolicy is the policy that decides which requests an API server writes into its audit log.
	// +optional
	AuditPolicy *AuditPolicy `json:"auditPolicy,omitempty"`
}

// PolicyRef returns the reference to the ConfigMap with the policy; nil if there is none.
func (a *AuditConfig) PolicyRef() *corev1.ObjectReference {
	if a == nil || a.AuditPolicy == nil {
		return nil
	}
	return a.AuditPolicy.ConfigMapRef
}

// AuditPolicy is the policy that decides which requests an API server writes into its audit log.
type AuditPolicy struct {
	// ConfigMapRef names a ConfigMap in the namespace garden whose key policy holds the policy.
	// +optional
	ConfigMapRef *corev1.ObjectReference `json:"configMapRef,omitempty"`
}

// AuditWebhook sends audit events to a webhook.
type AuditWebhook struct {
	// BatchMaxSize is the largest number of events that are sent in one request. Default: 30.
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=1
	// +optional
	BatchMaxSize *int32 `json:"batchMaxSize,omitempty"`
	// KubeconfigSecretName names a Secret in the namespace garden whose key kubeconfig contains a kubeconfig with the address of the webhook.
	// +kubebuilder:validation:MinLength=1
	KubeconfigSecretName string `json:"kubeconfigSecretName"`
	// Version is the API version of the events. Default: audit.k8s.io/v1.
	// +kubebuilder:default=audit.k8s.io/v1
	// +kubebuilder:validation:Enum=audit.k8s.io/v1
	// +optional
	Version *string `json:"version,omitempty"`
}

// APIServerLogging sets how detailed the logs of an API server are.
type APIServerLogging struct {
	// Verbosity is the log level, 0 or more. Default: 2.
	// +optional
	Verbosity *int32 `json:"verbosity,omitempty"`
	// HTTPAccessVerbosity is the log level for HTTP requests, 0 or more. Default: the value of verbosity.
	// +optional
	HTTPAccessVerbosity *int32 `json:"httpAccessVerbosity,omitempty"`
}

// APIServerRequests limits the requests that an API server handles at a time.
type APIServerRequests struct {
	// MaxNonMutatingInflight is the largest number of requests that read. Default: 400.
	// +optional
	MaxNonMutatingInflight *int32 `json:"maxNonMutatingInflight,omitempty"`
	// MaxMutatingInflight is the largest number of requests that write. Default: 200.
	// +optional
	MaxMutatingInflight *int32 `json:"maxMutatingInflight,omitempty"`
}

// WatchCacheSizes are the sizes of watch caches of an API server.
type WatchCacheSizes struct {
	// Default is the number of objects in the watch cache of a resource that is not in resources. 0 turns the caches off.
	// +optional
	Default *int32 `json:"default,omitempty"`
	// Resources are the sizes for single resources.
	// +optional
	Resources []ResourceWatchCacheSize `json:"resources,omitempty"`
}

// ResourceWatchCacheSize is the size of the watch cache of a resource.
type ResourceWatchCacheSize struct {
	// APIGroup is the API group of the resource; nil and empty are the core group.
	// +optional
	APIGroup *string `json:"apiGroup,omitempty"`
	// Resource is the plural name of the resource.
	Resource string `json:"resource"`
	// CacheSize is the number of objects in the watch cache. 0 turns it off.
	CacheSize int32 `json:"size"`
}

// EncryptionConfig selects the resources that an API server encrypts in etcd, and the encryption provider. Secrets and some resources of
// Gardener are always encrypted.
type EncryptionConfig struct {
	// Resources are further resources that are encrypted, as <resource> or <resource>.<group>.
	// +optional
	Resources []string `json:"resources,omitempty"`
	// Provider is the encryption provider. Default: the type aescbc.
	// +optional
	Provider *EncryptionProvider `json:"provider,omitempty"`
}

// EncryptionProvider selects the encryption provider of an API server.
type EncryptionProvider struct {
	// Type is aescbc, aesgcm or secretbox. Nil and empty mean aescbc.
	// +optional
	Type *EncryptionProviderType `json:"type,omitempty"`
}

// EncryptionProviderType names an encryption provider of kube-apiserver and gardener-apiserver.
type EncryptionProviderType string

// Encryption providers.
const (
	// EncryptionProviderAESCBC is AES in CBC mode, the default.
	EncryptionProviderAESCBC EncryptionProviderType = "aescbc"
	// EncryptionProviderAESGCM is AES in GCM mode.
	EncryptionProviderAESGCM EncryptionProviderType = "aesgcm"
	// EncryptionProviderSecretbox is XSalsa20 and Poly1305.
	EncryptionProviderSecretbox EncryptionProviderType = "secretbox"
)

// KubeAPIServerConfig are settings for kube-apiserver. Gardener uses the same type for Shoots.
type KubeAPIServerConfig struct {
	// AdmissionPlugins configures admission plugins.
	// +optional
	AdmissionPlugins []AdmissionPlugin `json:"admissionPlugins,omitempty"`
	// APIAudiences are the audiences that tokens of ServiceAccounts are accepted for.
	// +optional
	APIAudiences []string `json:"apiAudiences,omitempty"`
	// AuditConfig configures the audit log.
	// +optional
	AuditConfig *AuditConfig `json:"auditConfig,omitempty"`
	// Autoscaling limits the requests that the vertical pod autoscaler sets for kube-apiserver: at least 20m cpu and 200M memory.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`
	// DefaultNotReadyTolerationSeconds is the time for which Pods tolerate a node that is not ready, in seconds. Default: the default of
	// kube-apiserver, 300.
	// +optional
	DefaultNotReadyTolerationSeconds *int64 `json:"defaultNotReadyTolerationSeconds,omitempty"`
	// DefaultUnreachableTolerationSeconds is the time for which Pods tolerate a node that cannot be reached, in seconds. Default: the default
	// of kube-apiserver, 300.
	// +optional
	DefaultUnreachableTolerationSeconds *int64 `json:"defaultUnreachableTolerationSeconds,omitempty"`
	// EnableAnonymousAuthentication lets kube-apiserver accept requests without credentials. Default: false. Not allowed from Kubernetes 1.35
	// on.
	// +optional
	EnableAnonymousAuthentication *bool `json:"enableAnonymousAuthentication,omitempty"`
	// EncryptionConfig selects the resources that kube-apiserver encrypts in etcd besides Secrets, and the encryption provider.
	// +optional
	EncryptionConfig *EncryptionConfig `json:"encryptionConfig,omitempty"`
	// EventTTL is the time for which kube-apiserver keeps events, at most 24h. Default: 1h.
	// +optional
	EventTTL *metav1.Duration `json:"eventTTL,omitempty"`
	// FeatureGates are feature gates of Kubernetes.
	// +optional
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// Logging configures logs.
	// +optional
	Logging *APIServerLogging `json:"logging,omitempty"`
	// OIDCConfig is the OpenID Connect provider for users.
	//
	// Deprecated: use structuredAuthentication. Both together are not allowed.
	// +optional
	OIDCConfig *OIDCConfig `json:"oidcConfig,omitempty"`
	// Requests limits the requests that are handled at a time.
	// +optional
	Requests *APIServerRequests `json:"requests,omitempty"`
	// RuntimeConfig switches API versions on and off.
	// +optional
	RuntimeConfig map[string]bool `json:"runtimeConfig,omitempty"`
	// ServiceAccountConfig configures tokens of ServiceAccounts.
	// +optional
	ServiceAccountConfig *ServiceAccountConfig `json:"serviceAccountConfig,omitempty"`
	// StructuredAuthentication configures the authentication of users, by an AuthenticationConfiguration.
	// +optional
	StructuredAuthentication *StructuredAuthentication `json:"structuredAuthentication,omitempty"`
	// StructuredAuthorization adds webhooks that authorize requests, by an AuthorizationConfiguration.
	// +optional
	StructuredAuthorization *StructuredAuthorization `json:"structuredAuthorization,omitempty"`
	// TLSMinVersion is the lowest version of TLS that clients may use: VersionTLS12 or VersionTLS13.
	// +kubebuilder:validation:Enum=VersionTLS12;VersionTLS13
	// +optional
	TLSMinVersion *string `json:"tlsMinVersion,omitempty"`
	// WatchCacheSizes are the sizes of watch caches.
	// +optional
	WatchCacheSizes *WatchCacheSizes `json:"watchCacheSizes,omitempty"`
}

// OIDCConfig is an OpenID Connect provider.
type OIDCConfig struct {
	// CABundle are PEM certificates of the authorities of the provider.
	// +optional
	CABundle *string `json:"caBundle,omitempty"`
	// ClientAuthentication are settings for clients of the provider, such as kubectl. They do not change kube-apiserver.
	// +optional
	ClientAuthentication *OpenIDConnectClientAuthentication `json:"clientAuthentication,omitempty"`
	// ClientID is the client that tokens must be issued for.
	// +optional
	ClientID *string `json:"clientID,omitempty"`
	// GroupsClaim is the claim with the groups of the user.
	// +optional
	GroupsClaim *string `json:"groupsClaim,omitempty"`
	// GroupsPrefix is put before the names of groups.
	// +optional
	GroupsPrefix *string `json:"groupsPrefix,omitempty"`
	// IssuerURL is the https URL of the provider.
	// +optional
	IssuerURL *string `json:"issuerURL,omitempty"`
	// RequiredClaims are claims that a token must have, with their values.
	// +optional
	RequiredClaims map[string]string `json:"requiredClaims,omitempty"`
	// SigningAlgs are the accepted signing algorithms.
	// +optional
	SigningAlgs []string `json:"signingAlgs,omitempty"`
	// UsernameClaim is the claim with the name of the user.
	// +optional
	UsernameClaim *string `json:"usernameClaim,omitempty"`
	// UsernamePrefix is put before the name of the user.
	// +optional
	UsernamePrefix *string `json:"usernamePrefix,omitempty"`
}

// OpenIDConnectClientAuthentication are settings for clients of an OpenID Connect provider.
type OpenIDConnectClientAuthentication struct {
	// ExtraConfig are further settings.
	// +optional
	ExtraConfig map[string]string `json:"extraConfig,omitempty"`
	// Secret is the secret of the client.
	// +optional
	Secret *string `json:"secret,omitempty"`
}

// ServiceAccountConfig configures tokens of ServiceAccounts.
type ServiceAccountConfig struct {
	// Issuer is the issuer of new tokens. Default: the URL of the API server.
	// +optional
	Issuer *string `json:"issuer,omitempty"`
	// AcceptedIssuers are further issuers whose tokens are accepted.
	// +optional
	AcceptedIssuers []string `json:"acceptedIssuers,omitempty"`
	// ExtendTokenExpiration lets kube-apiserver extend the lifetime of tokens that it issues for Pods.
	// +optional
	ExtendTokenExpiration *bool `json:"extendTokenExpiration,omitempty"`
	// MaxTokenExpiration is the longest lifetime of a token: 0, or 720h to 2160h.
	// +optional
	MaxTokenExpiration *metav1.Duration `json:"maxTokenExpiration,omitempty"`
}

// StructuredAuthentication configures the authentication of users.
type StructuredAuthentication struct {
	// ConfigMapName names a ConfigMap in the namespace garden whose key config.yaml holds an AuthenticationConfiguration.
	// +kubebuilder:validation:XValidation:rule="self != ''",message="must provide a name",reason=FieldValueRequired
	ConfigMapName string `json:"configMapName"`
}

// StructuredAuthorization adds webhooks that authorize requests.
type StructuredAuthorization struct {
	// ConfigMapName names a ConfigMap in the namespace garden whose key config.yaml holds an AuthorizationConfiguration. Only its
	// webhooks are used.
	// +kubebuilder:validation:XValidation:rule="self != ''",message="must provide a name",reason=FieldValueRequired
	ConfigMapName string `json:"configMapName"`
	// Kubeconfigs name the kubeconfigs with the addresses of the webhooks.
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="must provide the kubeconfigs of the authorizers",reason=FieldValueRequired
	Kubeconfigs []AuthorizerKubeconfig `json:"kubeconfigs"`
}

// AuthorizerKubeconfig names the kubeconfig with the address of a webhook that authorizes requests.
type AuthorizerKubeconfig struct {
	// AuthorizerName is the name of the webhook in the AuthorizationConfiguration.
	// +kubebuilder:validation:XValidation:rule="self != ''",message="must provide a name",reason=FieldValueRequired
	AuthorizerName string `json:"authorizerName"`
	// SecretName names a Secret in the namespace garden with the key kubeconfig.
	// +kubebuilder:validation:XValidation:rule="self != ''",message="must provide a name",reason=FieldValueRequired
	SecretName string `json:"secretName"`
}

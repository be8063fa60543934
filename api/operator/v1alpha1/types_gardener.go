package v1alpha1

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Gardener are settings for the components of Gardener.
type Gardener struct {
	// ClusterIdentity is the identity of the garden. Names of objects outside of the garden contain it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Value is immutable"
	ClusterIdentity string `json:"clusterIdentity"`
	// APIServer are settings for gardener-apiserver.
	// +optional
	APIServer *GardenerAPIServer `json:"gardenerAPIServer,omitempty"`
	// AdmissionController are settings for gardener-admission-controller.
	// +optional
	AdmissionController *GardenerAdmissionController `json:"gardenerAdmissionController,omitempty"`
	// ControllerManager are settings for gardener-controller-manager.
	// +optional
	ControllerManager *GardenerControllerManager `json:"gardenerControllerManager,omitempty"`
	// ResourceManager are settings for the gardener-resource-manager of the virtual cluster.
	// +optional
	ResourceManager *GardenerResourceManager `json:"gardenerResourceManager,omitempty"`
	// Scheduler are settings for gardener-scheduler.
	// +optional
	Scheduler *GardenerScheduler `json:"gardenerScheduler,omitempty"`
	// Dashboard are settings for the dashboard of Gardener, which this operator does not deploy. The webhook warns of it.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Dashboard *runtime.RawExtension `json:"gardenerDashboard,omitempty"`
	// DiscoveryServer are settings for the discovery server of Gardener, which this operator does not deploy. The webhook warns of it.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	DiscoveryServer *runtime.RawExtension `json:"gardenerDiscoveryServer,omitempty"`
}

// GardenerAPIServer are settings for gardener-apiserver.
type GardenerAPIServer struct {
	// AdmissionPlugins configures admission plugins.
	// +optional
	AdmissionPlugins []AdmissionPlugin `json:"admissionPlugins,omitempty"`
	// AuditConfig configures the audit log.
	// +optional
	AuditConfig *AuditConfig `json:"auditConfig,omitempty"`
	// AuditWebhook sends audit events to a webhook.
	// +optional
	AuditWebhook *AuditWebhook `json:"auditWebhook,omitempty"`
	// EncryptionConfig selects the resources that gardener-apiserver encrypts in etcd besides the resources that are always encrypted. The
	// provider must be the provider of kube-apiserver, which is the default.
	// +optional
	EncryptionConfig *EncryptionConfig `json:"encryptionConfig,omitempty"`
	// FeatureGates are feature gates of Gardener.
	// +optional
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// GoAwayChance is the probability, from 0 to 0.02, that gardener-apiserver closes the HTTP/2 connection of a request, so that clients
	// spread over its replicas. Default: the default of gardener-apiserver.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=number
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=0.02
	// +optional
	GoAwayChance *float64 `json:"goAwayChance,omitempty"`
	// Logging configures logs.
	// +optional
	Logging *APIServerLogging `json:"logging,omitempty"`
	// Requests limits the requests that are handled at a time.
	// +optional
	Requests *APIServerRequests `json:"requests,omitempty"`
	// ShootAdminKubeconfigMaxExpiration is the longest validity of kubeconfigs for administrators of Shoots, at least 1h.
	// +optional
	ShootAdminKubeconfigMaxExpiration *metav1.Duration `json:"shootAdminKubeconfigMaxExpiration,omitempty"`
	// WatchCacheSizes are the sizes of watch caches.
	// +optional
	WatchCacheSizes *WatchCacheSizes `json:"watchCacheSizes,omitempty"`
}

// GardenerAdmissionController are settings for gardener-admission-controller.
type GardenerAdmissionController struct {
	// LogLevel is info, debug or error. Default: info.
	// +kubebuilder:default=info
	// +kubebuilder:validation:Enum=info;debug;error
	// +optional
	LogLevel *string `json:"logLevel,omitempty"`
	// ResourceAdmissionConfiguration limits the size and number of objects.
	// +optional
	ResourceAdmissionConfiguration *ResourceAdmissionConfiguration `json:"resourceAdmissionConfiguration,omitempty"`
}

// ResourceAdmissionConfiguration limits the size and number of objects.
type ResourceAdmissionConfiguration struct {
	// Limits are the limits.
	Limits []ResourceLimit `json:"limits"`
	// UnrestrictedSubjects are users, groups and ServiceAccounts without limits.
	// +optional
	UnrestrictedSubjects []rbacv1.Subject `json:"unrestrictedSubjects,omitempty"`
	// OperationMode is block or log. Default: the default of gardener-admission-controller, block.
	// +optional
	OperationMode *ResourceAdmissionMode `json:"operationMode,omitempty"`
}

// ResourceAdmissionMode is the reaction of gardener-admission-controller to an object above a limit.
type ResourceAdmissionMode string

// Modes of resource admission.
const (
	// ResourceAdmissionBlock refuses the object.
	ResourceAdmissionBlock ResourceAdmissionMode = "block"
	// ResourceAdmissionLog accepts the object and logs it.
	ResourceAdmissionLog ResourceAdmissionMode = "log"
)

// ResourceLimit is a limit for objects of certain resources. It has a size, a count or both.
//
// +kubebuilder:validation:XValidation:rule="has(self.size) || has(self.count)",message="must provide size or count",reason=FieldValueRequired
type ResourceLimit struct {
	// APIGroups are the API groups of the resources; "" is the core group.
	// +optional
	APIGroups []string `json:"apiGroups,omitempty"`
	// APIVersions are the API versions of the resources.
	// +optional
	APIVersions []string `json:"apiVersions,omitempty"`
	// Resources are the plural names of the resources.
	Resources []string `json:"resources"`
	// Size is the largest size of an object.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
	// Count is the largest number of objects of a resource that has no namespace.
	// +optional
	Count *int64 `json:"count,omitempty"`
}

// GardenerControllerManager are settings for gardener-controller-manager.
type GardenerControllerManager struct {
	// DefaultProjectQuotas are ResourceQuotas for namespaces of projects. The first one that selects a project is used.
	// +optional
	DefaultProjectQuotas []ProjectQuota `json:"defaultProjectQuotas,omitempty"`
	// FeatureGates are feature gates of Gardener.
	// +optional
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// LogLevel is info, debug or error. Default: info.
	// +kubebuilder:default=info
	// +kubebuilder:validation:Enum=info;debug;error
	// +optional
	LogLevel *string `json:"logLevel,omitempty"`
}

// ProjectQuota is a ResourceQuota for namespaces of projects.
type ProjectQuota struct {
	// Config is a v1 ResourceQuota.
	// +kubebuilder:pruning:PreserveUnknownFields
	Config runtime.RawExtension `json:"config"`
	// ProjectSelector selects the projects by their labels. Nil selects all.
	// +optional
	ProjectSelector *metav1.LabelSelector `json:"projectSelector,omitempty"`
}

// GardenerResourceManager are settings for the gardener-resource-manager of the virtual cluster.
type GardenerResourceManager struct {
	// AdditionalTargetNamespaces are further namespaces of the virtual cluster that gardener-resource-manager works in.
	// +optional
	AdditionalTargetNamespaces []string `json:"additionalTargetNamespaces,omitempty"`
}

// GardenerScheduler are settings for gardener-scheduler.
type GardenerScheduler struct {
	// FeatureGates are feature gates of Gardener.
	// +optional
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// LogLevel is info, debug or error. Default: info.
	// +kubebuilder:default=info
	// +kubebuilder:validation:Enum=info;debug;error
	// +optional
	LogLevel *string `json:"logLevel,omitempty"`
	// Strategy is the rule by which gardener-scheduler chooses a Seed for a Shoot. Default: SameRegion.
	// +kubebuilder:default=SameRegion
	// +optional
	Strategy *SchedulingStrategy `json:"strategy,omitempty"`
}

// SchedulingStrategy is the rule by which gardener-scheduler chooses a Seed for a Shoot.
//
// +kubebuilder:validation:Enum=SameRegion;MinimalDistance
type SchedulingStrategy string

// Scheduling strategies.
const (
	// SchedulingSameRegion takes Seeds of the region of the Shoot only.
	SchedulingSameRegion SchedulingStrategy = "SameRegion"
	// SchedulingMinimalDistance takes the Seeds that are closest to the region of the Shoot.
	SchedulingMinimalDistance SchedulingStrategy = "MinimalDistance"
)

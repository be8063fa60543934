package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// defaultSets is the default number of ManagedResources that are reconciled at the same time. It is higher than defaultWorkers: the objects
// of a ManagedResource are applied wave by wave, so a small ManagedResource has few requests in flight.
const defaultSets = 20

// Controllers has one section per controller of the resource-manager family.
type Controllers struct {
	// ClusterID is the prefix of the origin annotation of managed objects: empty for none, `<cluster>` or `<default>` to read it from
	// ConfigMap kube-system/cluster-identity; any other value is used literally.
	ClusterID *string `json:"clusterID,omitempty"`
	// ResourceClass is the class of ManagedResources that is served; not empty. "*" serves all classes.
	ResourceClass *string `json:"resourceClass,omitempty"`
	// CacheSyncTimeout is how long controllers wait for their caches at start, and how long informers may be out of sync before /healthz
	// fails; more than 0.
	CacheSyncTimeout *metav1.Duration `json:"cacheSyncTimeout,omitempty"`

	ManagedResource    ManagedResourceController    `json:"managedResource,omitempty"`
	Health             HealthController             `json:"health,omitempty"`
	Secret             SecretController             `json:"secret,omitempty"`
	GarbageCollector   GarbageCollectorController   `json:"garbageCollector,omitempty"`
	KubeletCSRApprover KubeletCSRApproverController `json:"kubeletCSRApprover,omitempty"`
	NetworkPolicy      NetworkPolicyController      `json:"networkPolicy,omitempty"`
	Node               NodeController               `json:"node,omitempty"`
	TokenInvalidator   TokenInvalidatorController   `json:"tokenInvalidator,omitempty"`
	TokenRequestor     TokenRequestorController     `json:"tokenRequestor,omitempty"`
}

// ManagedResourceController keeps the objects of ManagedResources in sync. It always runs.
type ManagedResourceController struct {
	// ConcurrentSyncs is the number of ManagedResources that are reconciled at the same time; at least 1. The default is 20, higher than
	// Gardener's default of 5: the objects of a ManagedResource are applied kind by kind, so a small ManagedResource has few requests in
	// flight. MaxConcurrentRequests limits the requests for all ManagedResources together.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// SyncPeriod is the time after which a ManagedResource is compared with the caches again; at least 15s. Without AlwaysUpdate, and except
	// for audits (AuditPeriod), a comparison sends no requests for objects that the process watches: drift of these objects is repaired when
	// it happens.
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
	// AlwaysUpdate writes every object in each SyncPeriod, even if it is unchanged.
	AlwaysUpdate *bool `json:"alwaysUpdate,omitempty"`
	// ManagedByLabelValue is the value of label resources.gardener.cloud/managed-by; not empty.
	ManagedByLabelValue *string `json:"managedByLabelValue,omitempty"`
}

// HealthController reports health and progress of the objects of ManagedResources. It always runs.
type HealthController struct {
	// ConcurrentSyncs is the number of workers of the health checks, and of the progress checks; at least 1.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// SyncPeriod is how often a ManagedResource is checked again; at least 15s.
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
}

// SecretController removes the finalizer that earlier releases of Gardener's resource manager put on Secrets. It always runs.
type SecretController struct {
	// ConcurrentSyncs is the number of workers; at least 1.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
}

// GarbageCollectorController deletes immutable ConfigMaps and Secrets that no object references.
type GarbageCollectorController struct {
	// Enabled enables the controller.
	Enabled bool `json:"enabled,omitempty"`
	// SyncPeriod is the time between two collections; at least 15s if enabled.
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
}

// KubeletCSRApproverController approves the serving certificates of kubelets.
type KubeletCSRApproverController struct {
	// Enabled enables the controller.
	Enabled bool `json:"enabled,omitempty"`
	// ConcurrentSyncs is the number of workers; at least 1 if enabled.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// MachineNamespace is the source namespace of the Machine objects; empty (default): all namespaces that the source connection is
	// restricted to.
	MachineNamespace string `json:"machineNamespace,omitempty"`
}

// NetworkPolicyController derives NetworkPolicies from Services and Ingresses.
type NetworkPolicyController struct {
	// Enabled enables the controller.
	Enabled bool `json:"enabled,omitempty"`
	// ConcurrentSyncs is the number of workers.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// NamespaceSelectors select the namespaces whose Services are handled; empty: all, also kube-system.
	NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors,omitempty"`
	// IngressControllerSelector selects the Pods of the ingress controller; nil: no policies from Ingresses.
	IngressControllerSelector *IngressControllerSelector `json:"ingressControllerSelector,omitempty"`
}

// IngressControllerSelector selects the Pods of an ingress controller.
type IngressControllerSelector struct {
	// Namespace is the namespace of the ingress controller.
	Namespace string `json:"namespace,omitempty"`
	// PodSelector selects its Pods.
	PodSelector metav1.LabelSelector `json:"podSelector,omitempty"`
}

// NodeController removes the taint for critical components once they are ready on a node.
type NodeController struct {
	// Enabled enables the controller.
	Enabled bool `json:"enabled,omitempty"`
	// ConcurrentSyncs is the number of workers.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// Backoff is the pause before a node whose critical components are not ready is checked again although nothing has changed; this check
	// sends no request. It is also the minimum pause between two Warning Events about one node. 0 or less: 10s.
	Backoff *metav1.Duration `json:"backoff,omitempty"`
}

// TokenInvalidatorController invalidates static ServiceAccount tokens.
type TokenInvalidatorController struct {
	// Enabled enables the controller; it must equal the setting of the webhook of the same name.
	Enabled bool `json:"enabled,omitempty"`
	// ConcurrentSyncs is the number of workers.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
}

// TokenRequestorController requests ServiceAccount tokens, writes them into Secrets and renews them.
type TokenRequestorController struct {
	// Enabled enables the controller.
	Enabled bool `json:"enabled,omitempty"`
	// ConcurrentSyncs is the number of workers; at least 1 if enabled.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
}

func defaultControllers(c *Controllers) {
	setIfNil(&c.ClusterID, "")
	setIfNil(&c.ResourceClass, "resources")
	setIfNil(&c.CacheSyncTimeout, duration(defaultCacheSyncTimeout))

	setIfNil(&c.ManagedResource.ConcurrentSyncs, defaultSets)
	setIfNil(&c.ManagedResource.SyncPeriod, duration(time.Minute))
	setIfNil(&c.ManagedResource.AlwaysUpdate, false)
	setIfNil(&c.ManagedResource.ManagedByLabelValue, "gardener")

	setIfNil(&c.Health.ConcurrentSyncs, defaultWorkers)
	setIfNil(&c.Health.SyncPeriod, duration(time.Minute))
	setIfNil(&c.Secret.ConcurrentSyncs, defaultWorkers)

	if c.GarbageCollector.Enabled {
		setIfNil(&c.GarbageCollector.SyncPeriod, duration(time.Hour))
	}
	if c.KubeletCSRApprover.Enabled {
		setIfNil(&c.KubeletCSRApprover.ConcurrentSyncs, 1)
	}
	if c.NetworkPolicy.Enabled {
		setIfNil(&c.NetworkPolicy.ConcurrentSyncs, defaultWorkers)
	}
	if c.Node.Enabled {
		setIfNil(&c.Node.ConcurrentSyncs, defaultWorkers)
		setIfNil(&c.Node.Backoff, duration(10*time.Second))
	}
	if c.TokenInvalidator.Enabled {
		setIfNil(&c.TokenInvalidator.ConcurrentSyncs, defaultWorkers)
	}
	if c.TokenRequestor.Enabled {
		setIfNil(&c.TokenRequestor.ConcurrentSyncs, defaultWorkers)
	}
}

// validateControllers reports mistakes in the ManagedResource section under its plural name, as Gardener does.
func validateControllers(c Controllers, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.ClusterID == nil {
		errs = append(errs, field.Required(at.Child("clusterID"), "cluster id must be non-nil"))
	}
	if ptr.Deref(c.ResourceClass, "") == "" {
		errs = append(errs, field.Required(at.Child("resourceClass"), "must provide a resource class"))
	}
	errs = append(errs, validatePositive(c.CacheSyncTimeout, at.Child("cacheSyncTimeout"))...)
	errs = append(errs, validateWorkers(c.ManagedResource.ConcurrentSyncs, at.Child("managedResources"))...)
	errs = append(errs, validateSyncPeriod(c.ManagedResource.SyncPeriod, at.Child("managedResources"))...)
	if ptr.Deref(c.ManagedResource.ManagedByLabelValue, "") == "" {
		errs = append(errs, field.Required(at.Child("managedResources", "managedByLabelValue"), "must specify value of managed-by label"))
	}
	errs = append(errs, validateWorkers(c.Health.ConcurrentSyncs, at.Child("health"))...)
	errs = append(errs, validateSyncPeriod(c.Health.SyncPeriod, at.Child("health"))...)
	errs = append(errs, validateWorkers(c.Secret.ConcurrentSyncs, at.Child("secret"))...)
	if c.GarbageCollector.Enabled {
		errs = append(errs, validateSyncPeriod(c.GarbageCollector.SyncPeriod, at.Child("garbageCollector"))...)
	}
	if c.KubeletCSRApprover.Enabled {
		errs = append(errs, validateWorkers(c.KubeletCSRApprover.ConcurrentSyncs, at.Child("kubeletCSRApprover"))...)
	}
	if c.TokenRequestor.Enabled {
		errs = append(errs, validateWorkers(c.TokenRequestor.ConcurrentSyncs, at.Child("tokenRequestor"))...)
	}
	return append(errs, validateNetworkPolicy(c.NetworkPolicy, at.Child("networkPolicy"))...)
}

// validateNetworkPolicy refuses selectors that are invalid, so that the controller does not have to handle errors in them.
func validateNetworkPolicy(c NetworkPolicyController, at *field.Path) field.ErrorList {
	errs := validateSelectors(c.NamespaceSelectors, at.Child("namespaceSelectors"))
	if c.IngressControllerSelector != nil {
		errs = append(errs, validateSelector(&c.IngressControllerSelector.PodSelector, at.Child("ingressControllerSelector", "podSelector"))...)
	}
	return errs
}

package config

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Espalier contains our own settings, one section per family.
type Espalier struct {
	// ManagedResource configures managedresource-controller.
	ManagedResource EspalierManagedResource `json:"managedResource,omitempty"`
	// Token configures token-controllers.
	Token EspalierToken `json:"token,omitempty"`
	// CSRApprover configures csr-approver.
	CSRApprover EspalierCSRApprover `json:"csrApprover,omitempty"`
	// NetworkPolicy configures netpol-controller.
	NetworkPolicy EspalierNetworkPolicy `json:"networkPolicy,omitempty"`
	// Node configures node-controller.
	Node EspalierNode `json:"node,omitempty"`
	// Webhooks configures webhook-server.
	Webhooks EspalierWebhooks `json:"webhooks,omitempty"`
}

// EspalierManagedResource configures and restricts managedresource-controller.
type EspalierManagedResource struct {
	// AuditPeriod is the time between two live reads of all objects, with jitter; at least 1m, default 1h.
	AuditPeriod *metav1.Duration `json:"auditPeriod,omitempty"`
	// DeletionWaveTimeout is how long one wave of a deletion delays the next; more than 0, default 30s.
	DeletionWaveTimeout *metav1.Duration `json:"deletionWaveTimeout,omitempty"`
	// MaxConcurrentRequests limits the concurrent requests to the target for all ManagedResources; at least 1, default 32.
	MaxConcurrentRequests *int `json:"maxConcurrentRequests,omitempty"`
	// MaxDecompressedBytes limits the size of one compressed key of a Secret after decompression, in bytes; at least 1, default 64 MiB.
	MaxDecompressedBytes *int64 `json:"maxDecompressedBytes,omitempty"`
	// Kstatus checks objects of kinds without a specific rule by their status conditions and observed generation. The annotation
	// espalier.dev/kstatus of a ManagedResource overrides it for its objects. Default false.
	Kstatus *bool `json:"kstatus,omitempty"`
	// GarbageCollectionReportOnly makes the garbage collector report what it would delete, without deleting. Default false.
	GarbageCollectionReportOnly *bool `json:"garbageCollectionReportOnly,omitempty"`
	// Namespaces restricts the namespaces of ManagedResources and of their objects. Nil: no restriction.
	Namespaces *EspalierNamespaces `json:"namespaces,omitempty"`
}

// EspalierNamespaces restricts ManagedResources. In the lists, nil means no restriction, and empty allows none.
type EspalierNamespaces struct {
	// Sets lists the source namespaces whose ManagedResources are applied.
	Sets *[]string `json:"sets,omitempty"`
	// SetSelector selects, by their labels, additional source namespaces whose ManagedResources are applied. If one of the two is set,
	// ManagedResources of all other namespaces are refused. Nil selects nothing, and an empty selector is refused.
	SetSelector *metav1.LabelSelector `json:"setSelector,omitempty"`
	// Objects lists the target namespaces in which ManagedResources may change objects.
	Objects *[]string `json:"objects,omitempty"`
	// ClusterScoped allows ManagedResources to change cluster-scoped objects; default true.
	ClusterScoped *bool `json:"clusterScoped,omitempty"`
}

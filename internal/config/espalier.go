package config

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Espalier holds our own settings, one section per family.
type Espalier struct {
	// ManagedResource belongs to managedresource-controller.
	ManagedResource EspalierManagedResource `json:"managedResource,omitempty"`
	// Token belongs to token-controllers.
	Token EspalierToken `json:"token,omitempty"`
	// CSRApprover belongs to csr-approver.
	CSRApprover EspalierCSRApprover `json:"csrApprover,omitempty"`
	// NetworkPolicy belongs to netpol-controller.
	NetworkPolicy EspalierNetworkPolicy `json:"networkPolicy,omitempty"`
	// Node belongs to node-controller.
	Node EspalierNode `json:"node,omitempty"`
	// Webhooks belongs to webhook-server.
	Webhooks EspalierWebhooks `json:"webhooks,omitempty"`
}

// EspalierManagedResource tunes and restricts managedresource-controller.
type EspalierManagedResource struct {
	// AuditPeriod is the time between two live readings of everything, jittered; at least 1m, default 1h.
	AuditPeriod *metav1.Duration `json:"auditPeriod,omitempty"`
	// DeletionWaveTimeout is how long one wave of a deletion holds back the next; more than 0, default 30s.
	DeletionWaveTimeout *metav1.Duration `json:"deletionWaveTimeout,omitempty"`
	// MaxConcurrentRequests bounds the requests in flight to the target over all sets; at least 1, default 32.
	MaxConcurrentRequests *int `json:"maxConcurrentRequests,omitempty"`
	// MaxDecompressedBytes bounds what one compressed key of a Secret may unpack to, in bytes; at least 1, default 64 MiB.
	MaxDecompressedBytes *int64 `json:"maxDecompressedBytes,omitempty"`
	// Kstatus judges objects whose kind has no rule of its own by their status conditions and observed generation. A set
	// decides otherwise for its own objects with the annotation espalier.dev/kstatus. Default false.
	Kstatus *bool `json:"kstatus,omitempty"`
	// GarbageCollectionReportOnly makes the garbage collector tell what it would delete, and delete nothing. Default false.
	GarbageCollectionReportOnly *bool `json:"garbageCollectionReportOnly,omitempty"`
	// Namespaces restricts where sets live and what they touch. Nil: not restricted.
	Namespaces *EspalierNamespaces `json:"namespaces,omitempty"`
}

// EspalierNamespaces restricts sets. Nil and empty differ in the lists: nil does not restrict, empty allows none.
type EspalierNamespaces struct {
	// Sets lists the source namespaces whose ManagedResources are applied.
	Sets *[]string `json:"sets,omitempty"`
	// SetSelector selects, by their labels, further source namespaces whose ManagedResources are applied. With one of the two,
	// ManagedResources of all other namespaces are refused. Nil selects nothing, and an empty selector is refused.
	SetSelector *metav1.LabelSelector `json:"setSelector,omitempty"`
	// Objects lists the target namespaces that sets may touch.
	Objects *[]string `json:"objects,omitempty"`
	// ClusterScoped says whether sets may touch cluster-scoped objects; default true.
	ClusterScoped *bool `json:"clusterScoped,omitempty"`
}

package config

import (
	"time"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// minAuditPeriod is the shortest time between two live reads of all objects.
const minAuditPeriod = time.Minute

// EspalierManagedResource configures and restricts managedresource-controller.
type EspalierManagedResource struct {
	// AuditPeriod is the time between two live reads of all objects, with jitter; at least 1m. An additional safeguard: drift is noticed
	// without it, too.
	AuditPeriod *metav1.Duration `json:"auditPeriod,omitempty"`
	// DeletionWaveTimeout is how long a deletion waits until the objects of one wave, which are of one kind, are gone. After that, it deletes
	// the next wave nevertheless. More than 0.
	DeletionWaveTimeout *metav1.Duration `json:"deletionWaveTimeout,omitempty"`
	// MaxConcurrentRequests limits the concurrent requests to the target for all ManagedResources; at least 1.
	MaxConcurrentRequests *int `json:"maxConcurrentRequests,omitempty"`
	// MaxDecompressedBytes limits the size of one compressed key of a Secret after decompression, in bytes; at least 1.
	MaxDecompressedBytes *int64 `json:"maxDecompressedBytes,omitempty"`
	// Kstatus checks objects of kinds without a specific rule by their status conditions and observed generation. The annotation
	// espalier.dev/kstatus of a ManagedResource overrides it for its objects.
	Kstatus *bool `json:"kstatus,omitempty"`
	// GarbageCollectionReportOnly makes the garbage collector report unused objects, in Events and a metric, without deleting them.
	GarbageCollectionReportOnly *bool `json:"garbageCollectionReportOnly,omitempty"`
	// Namespaces restricts the namespaces of ManagedResources and of their objects. Nil: no restriction.
	Namespaces *EspalierNamespaces `json:"namespaces,omitempty"`
}

// EspalierNamespaces restricts ManagedResources. In the lists, nil means no restriction, and empty allows none.
type EspalierNamespaces struct {
	// Sets lists the source namespaces whose ManagedResources are applied.
	Sets *[]string `json:"sets,omitempty"`
	// SetSelector selects, by their labels, additional source namespaces whose ManagedResources are applied. If `sets` or this selector is
	// set, ManagedResources of all other namespaces are refused. Nil selects nothing, and an empty selector is refused. It needs the rights
	// to list and watch Namespaces in the source, also if the connection is restricted to namespaces.
	SetSelector *metav1.LabelSelector `json:"setSelector,omitempty"`
	// Objects lists the target namespaces in which ManagedResources may change objects.
	Objects *[]string `json:"objects,omitempty"`
	// ClusterScoped allows ManagedResources to change cluster-scoped objects.
	ClusterScoped *bool `json:"clusterScoped,omitempty"`
}

func defaultEspalierManagedResource(c *EspalierManagedResource) {
	setIfNil(&c.AuditPeriod, duration(time.Hour))
	setIfNil(&c.DeletionWaveTimeout, duration(30*time.Second))
	setIfNil(&c.MaxConcurrentRequests, 32)
	setIfNil(&c.MaxDecompressedBytes, 64<<20)
	setIfNil(&c.Kstatus, false)
	setIfNil(&c.GarbageCollectionReportOnly, false)
	if c.Namespaces != nil {
		setIfNil(&c.Namespaces.ClusterScoped, true)
	}
}

func validateEspalierManagedResource(c EspalierManagedResource, at *field.Path) field.ErrorList {
	errs := validateAtLeast(c.AuditPeriod, minAuditPeriod, at.Child("auditPeriod"))
	errs = append(errs, validatePositive(c.DeletionWaveTimeout, at.Child("deletionWaveTimeout"))...)
	errs = append(errs, validateCount(ptr.Deref(c.MaxConcurrentRequests, 0), at.Child("maxConcurrentRequests"))...)
	errs = append(errs, validateCount(ptr.Deref(c.MaxDecompressedBytes, 0), at.Child("maxDecompressedBytes"))...)
	if c.Namespaces == nil {
		return errs
	}
	errs = append(errs, validateNamespaces(ptr.Deref(c.Namespaces.Sets, nil), at.Child("namespaces", "sets"))...)
	errs = append(errs, validateAllowed(c.Namespaces.SetSelector, "sets of all namespaces, remove setSelector and sets",
		at.Child("namespaces", "setSelector"))...)
	return append(errs, validateNamespaces(ptr.Deref(c.Namespaces.Objects, nil), at.Child("namespaces", "objects"))...)
}

func validateNamespaces(names []string, at *field.Path) field.ErrorList {
	errs := make(field.ErrorList, 0, len(names))
	for i, name := range names {
		errs = append(errs, invalid(at.Index(i), name, apivalidation.ValidateNamespaceName(name, false))...)
	}
	return errs
}

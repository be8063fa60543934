package config

import (
	"maps"
	"math"
	"slices"
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
	// AuditPeriod is the average time between two live reads of all objects of a ManagedResource; at least 1m. The actual time varies at
	// random. The reads are an additional safeguard: the controller notices drift without them, too.
	AuditPeriod *metav1.Duration `json:"auditPeriod,omitempty"`
	// DeletionWaveTimeout is how long a deletion waits until the objects of one wave, which are of one kind, are gone. After that, the
	// controller deletes the objects of the next wave nevertheless. DeletionWaveTimeout is also how long the deletion of a ManagedResource
	// waits for the deletion of ManagedResources that depend on it. More than 0.
	DeletionWaveTimeout *metav1.Duration `json:"deletionWaveTimeout,omitempty"`
	// MaxConcurrentRequests limits the concurrent requests to the target for all ManagedResources; at least 1.
	MaxConcurrentRequests *int `json:"maxConcurrentRequests,omitempty"`
	// MaxDecompressedBytes limits the total size of the compressed values in the Secrets of one ManagedResource after decompression, in bytes;
	// at least 1.
	MaxDecompressedBytes *int64 `json:"maxDecompressedBytes,omitempty"`
	// Kstatus makes the controller check objects of kinds without a specific rule by their status conditions and observed generation. The
	// annotation espalier.dev/kstatus of a ManagedResource overrides this setting for the objects of the ManagedResource.
	Kstatus *bool `json:"kstatus,omitempty"`
	// GarbageCollectionReportOnly makes the garbage collector report unused objects, in Events and a metric, without deleting them.
	GarbageCollectionReportOnly *bool `json:"garbageCollectionReportOnly,omitempty"`
	// DeletionLimit suspends deletions that may result from a mistake until the user confirms them with the annotation
	// espalier.dev/confirm-deletion of the ManagedResource. Nil: nothing is suspended.
	DeletionLimit *EspalierDeletionLimit `json:"deletionLimit,omitempty"`
	// Namespaces restricts the namespaces of ManagedResources and of their objects. Nil: no restriction.
	Namespaces *EspalierNamespaces `json:"namespaces,omitempty"`
	// Accounts makes the controller apply ManagedResources with the rights of ServiceAccounts of their namespaces. Nil: it applies
	// them with its own rights, and does not apply a ManagedResource that names a ServiceAccount.
	Accounts *EspalierAccounts `json:"serviceAccounts,omitempty"`
}

// EspalierAccounts chooses the ServiceAccount of a ManagedResource: the one that its annotation espalier.dev/service-account names,
// else the one for its namespace, else the default.
type EspalierAccounts struct {
	// Lockdown refuses a ManagedResource for which no ServiceAccount is chosen, and watches objects with the rights of the ServiceAccounts.
	// False: the controller applies such a ManagedResource, and watches all objects, with its own rights.
	Lockdown *bool `json:"lockdown,omitempty"`
	// Default is the name of a ServiceAccount that is expected in every namespace. Empty: there is no default.
	Default string `json:"default,omitempty"`
	// ByNamespace contains the name of a ServiceAccount for each namespace whose ManagedResources do not use the default.
	ByNamespace map[string]string `json:"byNamespace,omitempty"`
}

// EspalierNamespaces restricts ManagedResources. In the lists, nil means no restriction, and empty allows none.
type EspalierNamespaces struct {
	// Sets lists the source namespaces whose ManagedResources are applied.
	Sets *[]string `json:"sets,omitempty"`
	// SetSelector selects, by the labels of Namespaces, additional source namespaces whose ManagedResources are applied. If `sets` or this
	// selector is set, the controller refuses ManagedResources of all other namespaces. Nil selects nothing. An empty selector is refused.
	// With this selector, the controller needs the rights to list and watch Namespaces in the source, also if the connection is restricted to
	// namespaces.
	SetSelector *metav1.LabelSelector `json:"setSelector,omitempty"`
	// Objects lists the target namespaces in which ManagedResources may change objects.
	Objects *[]string `json:"objects,omitempty"`
	// ClusterScoped allows ManagedResources to change cluster-scoped objects.
	ClusterScoped *bool `json:"clusterScoped,omitempty"`
}

// EspalierDeletionLimit limits which objects a change of the sources of a ManagedResource, or its deletion, deletes without confirmation.
type EspalierDeletionLimit struct {
	// ProtectedKinds lists kinds, as `Kind` or `Kind.group`. If a change of the sources would delete an object of these kinds, the deletion
	// needs a confirmation. A CustomResourceDefinition is protected only if objects of its kind exist.
	ProtectedKinds *[]string `json:"protectedKinds,omitempty"`
	// Objects is the number of objects that a change of the sources may delete without a confirmation; at least 0. The deletion of more
	// objects needs a confirmation if their share of the objects of the ManagedResource is larger than `percent`. A deletion of more objects
	// that is already suspended stays suspended, whatever their share.
	Objects *int `json:"objects,omitempty"`
	// Percent is the share of its objects that a ManagedResource may lose, however many they are; from 0 to 100.
	Percent *int `json:"percent,omitempty"`
	// NamespacesAndDefinitions limits the deletion of a ManagedResource: it is the number of Namespaces, and of CustomResourceDefinitions
	// with objects that do not belong to the ManagedResource, that this deletion may delete without a confirmation; at least 0.
	NamespacesAndDefinitions *int `json:"namespacesAndDefinitions,omitempty"`
}

func defaultEspalierManagedResource(c *EspalierManagedResource) {
	setIfNil(&c.AuditPeriod, duration(time.Hour))
	setIfNil(&c.DeletionWaveTimeout, duration(30*time.Second))
	setIfNil(&c.MaxConcurrentRequests, 32)
	setIfNil(&c.MaxDecompressedBytes, 64<<20)
	setIfNil(&c.Kstatus, false)
	setIfNil(&c.GarbageCollectionReportOnly, false)
	if limit := c.DeletionLimit; limit != nil {
		setIfNil(&limit.ProtectedKinds, []string{
			"Namespace", "CustomResourceDefinition.apiextensions.k8s.io", "PersistentVolumeClaim", "StatefulSet.apps",
		})
		setIfNil(&limit.Objects, 10)
		setIfNil(&limit.Percent, 50)
		setIfNil(&limit.NamespacesAndDefinitions, 3)
	}
	if c.Namespaces != nil {
		setIfNil(&c.Namespaces.ClusterScoped, true)
	}
	if c.Accounts != nil {
		setIfNil(&c.Accounts.Lockdown, false)
	}
}

func validateEspalierManagedResource(c EspalierManagedResource, at *field.Path) field.ErrorList {
	errs := validateAtLeast(c.AuditPeriod, minAuditPeriod, at.Child("auditPeriod"))
	errs = append(errs, validatePositive(c.DeletionWaveTimeout, at.Child("deletionWaveTimeout"))...)
	errs = append(errs, validateCount(ptr.Deref(c.MaxConcurrentRequests, 0), at.Child("maxConcurrentRequests"))...)
	errs = append(errs, validateCount(ptr.Deref(c.MaxDecompressedBytes, 0), at.Child("maxDecompressedBytes"))...)
	errs = append(errs, validateAccounts(c.Accounts, at.Child("serviceAccounts"))...)
	errs = append(errs, validateDeletionLimit(c.DeletionLimit, at.Child("deletionLimit"))...)
	if c.Namespaces == nil {
		return errs
	}
	errs = append(errs, validateNamespaces(ptr.Deref(c.Namespaces.Sets, nil), at.Child("namespaces", "sets"))...)
	errs = append(errs, validateAllowed(c.Namespaces.SetSelector, "sets of all namespaces, remove setSelector and sets",
		at.Child("namespaces", "setSelector"))...)
	return append(errs, validateNamespaces(ptr.Deref(c.Namespaces.Objects, nil), at.Child("namespaces", "objects"))...)
}

func validateAccounts(c *EspalierAccounts, at *field.Path) field.ErrorList {
	if c == nil {
		return nil
	}
	var errs field.ErrorList
	if c.Default != "" {
		errs = invalid(at.Child("default"), c.Default, apivalidation.ValidateServiceAccountName(c.Default, false))
	}
	for _, namespace := range slices.Sorted(maps.Keys(c.ByNamespace)) {
		name := c.ByNamespace[namespace]
		of := at.Child("byNamespace").Key(namespace)
		errs = append(errs, invalid(of, namespace, apivalidation.ValidateNamespaceName(namespace, false))...)
		errs = append(errs, invalid(of, name, apivalidation.ValidateServiceAccountName(name, false))...)
	}
	return errs
}

func validateDeletionLimit(c *EspalierDeletionLimit, at *field.Path) field.ErrorList {
	if c == nil {
		return nil
	}
	errs := validateEach(ptr.Deref(c.ProtectedKinds, nil), at.Child("protectedKinds"), isKind, "must be Kind or Kind.group")
	for _, each := range []struct {
		name  string
		value *int
		most  int
	}{
		{"objects", c.Objects, math.MaxInt}, {"percent", c.Percent, 100}, {"namespacesAndDefinitions", c.NamespacesAndDefinitions, math.MaxInt},
	} {
		if n := ptr.Deref(each.value, 0); n < 0 || n > each.most {
			errs = append(errs, field.Invalid(at.Child(each.name), n, "is out of range"))
		}
	}
	return errs
}

func validateNamespaces(names []string, at *field.Path) field.ErrorList {
	errs := make(field.ErrorList, 0, len(names))
	for i, name := range names {
		errs = append(errs, invalid(at.Index(i), name, apivalidation.ValidateNamespaceName(name, false))...)
	}
	return errs
}

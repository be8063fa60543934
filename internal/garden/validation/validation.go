// Package validation decides whether a Garden is allowed. It only computes: functions that judge a part of a Garden return an error for
// each mistake in this part. The webhook calls the package for requests. The reconciler calls it for the stored Garden, because the
// webhook may have been unavailable when the Garden was stored.
//
// The package does not repeat the rules of the schema of the CRD, because the API server applies these rules to every Garden that is
// stored.
package validation

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/defaulting"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

// ErrNotAlone denies the creation of a Garden beside another one. Its text is the whole message.
var ErrNotAlone = errors.New("there can be only one operator.gardener.cloud/v1alpha1.Garden resource in the system at a time")

// immutable is the detail of errors about fields that must not change.
const immutable = "field is immutable"

// Finalizers returns an error if a Garden is created with a finalizer of the operator, and nil if the Garden has no such finalizer. The
// text of the error is the whole message of the denial.
func Finalizers(g *operatorv1alpha1.Garden) error {
	for _, finalizer := range []string{operatorv1alpha1.FinalizerOperator, operatorv1alpha1.FinalizerReferenceProtection} {
		if slices.Contains(g.Finalizers, finalizer) {
			return fmt.Errorf("finalizer %q cannot be added on creation", finalizer)
		}
	}
	return nil
}

// Create returns the errors of the operations, the aborts and the spec of a new Garden (see also Operations and Aborts). Callers must
// check Finalizers and ErrNotAlone before. Available are the Extensions of the runtime cluster.
func Create(g *operatorv1alpha1.Garden, available []operatorv1alpha1.Extension) field.ErrorList {
	return slices.Concat(Operations(g), Aborts(g), spec(g, nil, available))
}

// Update returns the errors of the operations, the aborts and the spec of a Garden that replaces an old one (see also Operations and
// Aborts). Available are the Extensions of the runtime cluster.
//
// Update does not judge parts that do not change. It judges operations or aborts only if the annotation for them changes, and the spec
// only if the specs with all defaults are different. So finalizers can be removed from a Garden even if rules forbid its spec by now, or
// if the Garden was stored while the webhook was unavailable.
func Update(updated, old *operatorv1alpha1.Garden, available []operatorv1alpha1.Extension) field.ErrorList {
	var found field.ErrorList
	if updated.Annotations[resourcesv1alpha1.GardenerOperation] != old.Annotations[resourcesv1alpha1.GardenerOperation] {
		found = Operations(updated)
	}
	if updated.Annotations[operatorv1alpha1.AnnotationAbortRotation] != old.Annotations[operatorv1alpha1.AnnotationAbortRotation] {
		found = append(found, Aborts(updated)...)
	}
	if equality.Semantic.DeepEqual(defaulted(updated).Spec, defaulted(old).Spec) {
		return found
	}
	found = append(found, changes(updated, old)...)
	return append(found, spec(updated, old, available)...)
}

// Stored returns the errors of the spec of a stored Garden. The reconciler must not act on a Garden with errors. Before is the Garden at
// its last reconciliation, as far as the cluster shows, with the current status. Stored does not judge operations, because they may have
// begun. It does not check for Extensions in the runtime cluster: a task that needs an Extension reports that the Extension is missing.
func Stored(g, before *operatorv1alpha1.Garden) field.ErrorList {
	return append(changes(g, before), spec(g, g, nil)...)
}

// Delete returns the denial of a deletion, nil if the Garden confirms it. Its text is the whole message.
func Delete(g *operatorv1alpha1.Garden) error {
	if confirmed, err := strconv.ParseBool(g.Annotations[operatorv1alpha1.AnnotationConfirmDeletion]); err != nil || !confirmed {
		return fmt.Errorf("must have a %q annotation to delete", operatorv1alpha1.AnnotationConfirmDeletion)
	}
	return nil
}

func defaulted(g *operatorv1alpha1.Garden) *operatorv1alpha1.Garden {
	g = g.DeepCopy()
	defaulting.Garden(g)
	return g
}

// spec judges a spec. Old is the Garden before the change, nil for a new Garden. Some values that are no longer supported are allowed if
// old has the same value.
func spec(g, old *operatorv1alpha1.Garden, available []operatorv1alpha1.Extension) field.ErrorList {
	path := field.NewPath("spec")
	if old == nil {
		old = &operatorv1alpha1.Garden{}
	}
	found := dnsProviders(path.Child("dns"), g.Spec.DNS)
	found = append(found, gardenExtensions(path.Child("extensions"), g, old, available)...)
	found = append(found, namedResources(path.Child("resources"), g.Spec.Resources)...)
	found = append(found, runtimeCluster(path.Child("runtimeCluster"), g)...)
	found = append(found, backup(path.Child("virtualCluster", "etcd", "main", "backup"), g, old, available)...)
	return append(found, virtualCluster(path.Child("virtualCluster"), g, old)...)
}

// kubernetesOf returns the version of Kubernetes, or the zero value, which is not supported, if it cannot be parsed.
func kubernetesOf(g *operatorv1alpha1.Garden) versions.Kubernetes {
	parsed, err := versions.ParseKubernetes(g.Spec.VirtualCluster.Kubernetes.Version)
	if err != nil {
		return versions.Kubernetes{}
	}
	return parsed
}

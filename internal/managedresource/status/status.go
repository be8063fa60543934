// Package status writes the status of ManagedResources: only the fields that have changed, and only if no other client has written in the
// meantime. All controllers of ManagedResources use it; they determine the contents.
package status

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// CodeContentKept marks the condition ResourcesApplied with the reason DependenciesPending, if the former content of the set was applied
// completely. Then the controller keeps the objects of the former content, and judges their health.
const CodeContentKept corev1beta1.ErrorCode = "ESPALIER_FORMER_CONTENT_KEPT"

// Write writes the status next into a ManagedResource, of which mr is the last known version. It reports whether a write was needed. After
// a write, mr has the new status and resourceVersion. A conflict is an error that satisfies apierrors.IsConflict.
func Write(ctx context.Context, c client.Client, mr *resourcesv1alpha1.ManagedResource, next resourcesv1alpha1.ManagedResourceStatus) (bool,
	error,
) {
	changed := differences(mr.Status, next)
	if len(changed) == 0 {
		return false, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": mr.ResourceVersion}, "status": changed})
	if err != nil {
		return false, fmt.Errorf("encode status: %w", err)
	}
	answer := &metav1.PartialObjectMetadata{} // metadata only: a set may list many objects, which the response need not repeat
	answer.SetGroupVersionKind(resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource"))
	answer.SetNamespace(mr.Namespace)
	answer.SetName(mr.Name)
	if err := c.Status().Patch(ctx, answer, client.RawPatch(types.MergePatchType, patch)); err != nil {
		if isTooLarge(err) {
			return false, fmt.Errorf("write status: %w; the status lists every object of the set: split the set into several ManagedResources", err)
		}
		return false, fmt.Errorf("write status: %w", err)
	}
	mr.Status, mr.ResourceVersion = next, answer.ResourceVersion
	return true, nil
}

// isTooLarge reports whether an error shows that the API server or etcd does not accept an object of this size. Errors of etcd have no
// reason of their own.
func isTooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || strings.Contains(err.Error(), "request is too large") ||
		strings.Contains(err.Error(), "message larger than max")
}

// differences returns the fields to write. A field to be removed has the value nil.
func differences(before, after resourcesv1alpha1.ManagedResourceStatus) map[string]any {
	changed := map[string]any{}
	if !equality.Semantic.DeepEqual(before.Conditions, after.Conditions) {
		changed["conditions"] = after.Conditions
	}
	if !equality.Semantic.DeepEqual(before.Resources, after.Resources) {
		changed["resources"] = after.Resources
	}
	if before.ObservedGeneration != after.ObservedGeneration {
		changed["observedGeneration"] = after.ObservedGeneration
	}
	if !equality.Semantic.DeepEqual(before.SecretsDataChecksum, after.SecretsDataChecksum) {
		changed["secretsDataChecksum"] = after.SecretsDataChecksum
	}
	return changed
}

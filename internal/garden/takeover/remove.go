package takeover

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// SkipReason says why a reconciliation removes no leftovers; empty: it removes them.
func SkipReason(garden *operatorv1alpha1.Garden) string {
	if len(Confirmed(garden)) > 0 {
		return ""
	}
	return "The Garden confirms no leftovers of a former garden."
}

// Remove deletes the leftovers in a cluster, and waits until they are gone. It leaves out objects that belong to a ManagedResource. Within
// is the longest wait for each leftover. If the Garden does not confirm all leftovers, Remove deletes nothing and returns an error. After
// an error at any point, callers can call Remove again.
func Remove(
	ctx context.Context, in rollout.Cluster, cluster Cluster, namespace string, garden *operatorv1alpha1.Garden, within time.Duration,
) error {
	confirmed := Confirmed(garden)
	var all []*unstructured.Unstructured
	var open []string
	for _, each := range Leftovers(cluster, namespace) {
		live := rollout.MetadataOf(each)
		err := in.Client.Get(ctx, client.ObjectKeyFromObject(each), live)
		if rollout.IsGone(err) || err == nil && belongsToSet(live) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", describe(each), err)
		}
		if digest := Digest(cluster, live); slices.Contains(confirmed, digest) {
			all = append(all, each)
		} else {
			open = append(open, fmt.Sprintf("%s (%s)", describe(each), digest))
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("the annotation %s does not confirm all leftovers of a former garden in the %s cluster: %s is missing; make another "+
			"plan with --take-over", operatorv1alpha1.AnnotationConfirmLeftovers, cluster, strings.Join(open, ", "))
	}
	for _, each := range all {
		isConfirmed := func(live client.Object) bool { return slices.Contains(confirmed, Digest(cluster, live)) }
		requested, err := in.Delete(ctx, each, isConfirmed)
		if err != nil {
			return err
		}
		if requested {
			log.FromContext(ctx).Info("Removed leftover of a former garden", "object", describe(each), "cluster", cluster)
		}
	}
	return in.UntilGone(ctx, within, all...)
}

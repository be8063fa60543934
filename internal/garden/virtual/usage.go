package virtual

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneraccess"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// Names of checks.
const (
	// CheckUnused is the check that the virtual cluster has no Seeds and Shoots before it is destroyed.
	CheckUnused = "seeds-and-shoots"
	// CheckSeeds is the check that no Seed is busy. The operator makes this check before it starts a rotation in which Seeds take part. If
	// the user skips the check, such rotations leave all Seeds out.
	CheckSeeds = "seeds"
)

// answerTimeout is how long the virtual cluster may take to answer a request.
const answerTimeout = 30 * time.Second

// ensureUnused fails as long as there are Seeds or Shoots: without the virtual cluster, their workloads could not be deleted any more. It
// also fails if it cannot find out whether there are any.
//
// Before the first installation is complete, and after a deletion of the Garden has begun, the API server or the kubeconfig for it may not
// exist. In these two cases ensureUnused succeeds: there are no Seeds or Shoots yet, or an earlier attempt of the deletion has checked
// that there are none.
func (c checks) ensureUnused(ctx context.Context) error {
	if c.skips(CheckUnused) {
		return nil
	}
	err := c.findUsers(ctx, "Seed", "Shoot")
	// An answer "not found" of the virtual cluster, or of a proxy before it, does not mean that there is no kubeconfig.
	_, asked := errors.AsType[*Error](err)
	if !asked && apierrors.IsNotFound(err) || errors.Is(err, ErrNoToken) || errors.Is(err, errStopped) {
		gives, failure := c.givesAccess(ctx)
		if failure != nil || !gives {
			return failure
		}
	}
	if err != nil {
		return fmt.Errorf("%w; to delete the Garden in spite of that, set its annotation %s=%s", err,
			operatorv1alpha1.AnnotationSkippedChecks, CheckUnused)
	}
	return nil
}

// givesAccess reports whether the ManagedResource that gives users and the operator access to the virtual cluster is applied and is not
// being deleted. If givesAccess returns true, a missing kubeconfig was lost.
func (c checks) givesAccess(ctx context.Context) (bool, error) {
	set, err := c.managedResource(ctx, gardeneraccess.ManagedResource)
	if err != nil || set == nil || set.DeletionTimestamp != nil {
		return false, err
	}
	known := corev1beta1.GetCondition(set.Status.Conditions, resourcesv1alpha1.ResourcesApplied)
	return known != nil && known.Status == corev1beta1.ConditionTrue, nil
}

// errStopped is why the virtual cluster cannot be asked.
var errStopped = errors.New("the virtual garden cannot be asked for Seeds and Shoots, because there is no Deployment of its kube-apiserver")

// seedProblem returns why a rotation in which Seeds take part must not start, or "". A busy Seed would not renew its credentials.
func (c checks) seedProblem(ctx context.Context) string {
	if c.skips(CheckSeeds) {
		return ""
	}
	list, err := c.list(ctx, "Seed", 0)
	if err != nil {
		return fmt.Sprintf("%s (to start the rotation in spite of that, and without Seeds, set the annotation %s=%s)", err,
			operatorv1alpha1.AnnotationSkippedChecks, CheckSeeds)
	}
	var busy []string
	for i := range list {
		if c.skips(CheckSeeds + "/" + list[i].Name) {
			continue
		}
		switch operation := list[i].Annotations[corev1beta1.SeedOperation]; {
		case list[i].DeletionTimestamp != nil:
			busy = append(busy, list[i].Name+" is being deleted")
		case operation != "":
			busy = append(busy, list[i].Name+" has the operation "+operation)
		}
	}
	if len(busy) == 0 {
		return ""
	}
	slices.Sort(busy)
	return fmt.Sprintf("of the Seeds, %s; wait until that is done, or, to leave a Seed out of the rotation, set the annotation %s=%s/<Seed>",
		strings.Join(busy, ", "), operatorv1alpha1.AnnotationSkippedChecks, CheckSeeds)
}

// findUsers returns an error that names an object of the kinds if there is one, or says why that is not known.
func (c checks) findUsers(ctx context.Context, kinds ...string) error {
	for _, kind := range kinds {
		list, err := c.list(ctx, kind, 1)
		if err != nil {
			return err
		}
		if len(list) > 0 {
			name := strings.TrimPrefix(client.ObjectKeyFromObject(&list[0]).String(), "/")
			return fmt.Errorf("the virtual garden still has %ss, for example %s", kind, name)
		}
	}
	return nil
}

// list returns the metadata of the objects of a kind of Gardener, at most limit objects, or all if limit is 0. If the virtual cluster does
// not serve the kind, list returns no objects before the API of gardener-apiserver is registered, and after the first steps of a deletion
// have removed this API. If there is no Deployment of kube-apiserver, it returns errStopped.
func (c checks) list(ctx context.Context, kind string, limit int64) ([]metav1.PartialObjectMetadata, error) {
	live, err := c.deployment(ctx, kubeapiserver.Name)
	if err != nil {
		return nil, err
	}
	if live == nil || live.DeletionTimestamp != nil {
		return nil, errStopped
	}
	clients, err := c.connection.Clients(ctx)
	if err != nil {
		return nil, err
	}
	set, err := c.managedResource(ctx, gardenerapiserver.VirtualManagedResource)
	if err != nil {
		return nil, err
	}
	registered := gardenerapiserver.ServesAPIs(set) && set.DeletionTimestamp == nil
	list, err := listMetadata(ctx, answerTimeout, clients.Client, corev1beta1.SchemeGroupVersion.WithKind(kind), client.Limit(limit))
	switch {
	case rollout.IsGone(err) && !registered:
		return nil, nil
	case err != nil:
		return nil, &Error{fmt.Errorf("list %ss of the virtual garden: %w", kind, err)}
	}
	return list.Items, nil
}

// listMetadata returns the metadata of the objects of a kind. The virtual cluster may take the given time to answer.
func listMetadata(
	ctx context.Context, within time.Duration, virtual client.Reader, kind schema.GroupVersionKind, options ...client.ListOption,
) (*metav1.PartialObjectMetadataList, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list, virtual.List(ctx, list, options...)
}

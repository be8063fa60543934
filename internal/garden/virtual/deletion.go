package virtual

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneraccess"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// Names of checks.
const (
	// CheckUnused is the check that the virtual cluster has no Seeds and Shoots before it is destroyed.
	CheckUnused = "seeds-and-shoots"
	// CheckSeeds is the check that the virtual cluster has no Seeds before a rotation in which Seeds take part starts.
	CheckSeeds = "seeds"
)

// answerTimeout is how long the virtual cluster may take to answer a request.
const answerTimeout = 30 * time.Second

var deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// Abandons reports whether the user gives up the objects in the virtual cluster, and names it.
func (c *ControlPlane) Abandons() bool { return c.Identity != "" && c.Abandoned == c.Identity }

// WithWayOut adds to an error how to delete a Garden although its virtual cluster has no API server any more.
func (c *ControlPlane) WithWayOut(ctx context.Context, err error) error {
	live, failure := c.readDeployment(ctx, kubeapiserver.Name)
	if failure != nil || c.Abandons() || live != nil && live.Status.ReadyReplicas > 0 {
		return err
	}
	return fmt.Errorf("%w; no Pod of the virtual garden's kube-apiserver is ready: repair it or, to delete the Garden but not the objects in "+
		"the virtual garden, set the annotation %s=%s (the volumes of the etcds, the backups and the keys stay)",
		err, operatorv1alpha1.AnnotationAbandonVirtualCluster, c.Identity)
}

// destroyResourceManager destroys the Deployments after the ManagedResource, whose objects they delete. If the user abandons the virtual
// cluster, the Deployments go first, so that they change nothing there any more.
func (c *ControlPlane) destroyResourceManager(ctx context.Context) error {
	objects, err := c.resourceManager(resourcemanager.Credentials{})
	if err != nil {
		return err
	}
	timeout, running := c.Timing.defaulted().APIServer, rollout.Deployments(objects)
	if c.Abandons() {
		if err := c.Cluster.Destroy(ctx, timeout, running...); err != nil {
			return err
		}
	}
	if err := c.Installer.Destroy(ctx, resourcemanager.VirtualComponent); err != nil {
		return err
	}
	return c.Cluster.Destroy(ctx, timeout, append(running, objects...)...)
}

// forget drops the connection to a virtual cluster that is gone.
func (c *ControlPlane) forget(context.Context) error {
	c.Connection.Forget()
	return nil
}

// ensureUnused fails as long as there are Seeds or Shoots: without the virtual cluster, their workloads could not be deleted any more.
// Before the first installation is complete, and after a deletion has begun, there may be no API server to ask or no kubeconfig for it.
// Then ensureUnused succeeds: there are no Seeds or Shoots yet, or an earlier attempt of the deletion has checked that there are none.
func (c *ControlPlane) ensureUnused(ctx context.Context) error {
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

// givesAccess reports whether the ManagedResource that gives users and the operator access to the virtual cluster is applied. If it is, a
// kubeconfig that is missing was lost.
func (c *ControlPlane) givesAccess(ctx context.Context) (bool, error) {
	set, err := c.readSet(ctx, gardeneraccess.ManagedResource)
	if err != nil || set == nil || set.DeletionTimestamp != nil {
		return false, err
	}
	known := corev1beta1.GetCondition(set.Status.Conditions, resourcesv1alpha1.ResourcesApplied)
	return known != nil && known.Status == corev1beta1.ConditionTrue, nil
}

// errStopped is why the virtual cluster cannot be asked.
var errStopped = errors.New("the virtual garden cannot be asked for Seeds and Shoots, because there is no Deployment of its kube-apiserver")

// SeedProblem returns why a rotation in which Seeds take part must not start, or "".
func (c *ControlPlane) SeedProblem(ctx context.Context) string {
	if c.skips(CheckSeeds) {
		return ""
	}
	if err := c.findUsers(ctx, "Seed"); err != nil {
		return fmt.Sprintf("%s (the operator does not give new credentials to Seeds yet; to start the rotation in spite of that, set the "+
			"annotation %s=%s)", err, operatorv1alpha1.AnnotationSkippedChecks, CheckSeeds)
	}
	return ""
}

// findUsers returns an error that names an object of the kinds if there is one, or says why that is not known. Before the API of
// gardener-apiserver was registered, and after it was removed with the first steps of a deletion, there are none.
func (c *ControlPlane) findUsers(ctx context.Context, kinds ...string) error {
	live, err := c.readDeployment(ctx, kubeapiserver.Name)
	if err != nil {
		return err
	}
	if live == nil || live.DeletionTimestamp != nil {
		return errStopped
	}
	clients, err := c.Connection.Clients(ctx)
	if err != nil {
		return err
	}
	set, err := c.readSet(ctx, gardenerapiserver.VirtualManagedResource)
	if err != nil {
		return err
	}
	registered := gardenerapiserver.ServesAPIs(set) && set.DeletionTimestamp == nil
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	for _, kind := range kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1beta1.SchemeGroupVersion.WithKind(kind + "List"))
		err := clients.Client.List(ctx, list, client.Limit(1))
		if rollout.IsGone(err) && !registered {
			continue
		}
		if err != nil {
			return &Error{fmt.Errorf("list %ss of the virtual garden: %w", kind, err)}
		}
		if len(list.Items) > 0 {
			name := strings.TrimPrefix(client.ObjectKeyFromObject(&list.Items[0]).String(), "/")
			return fmt.Errorf("the virtual garden still has %ss, for example %s", kind, name)
		}
	}
	return nil
}

package virtual

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/garden/component/exposure"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneraccess"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubecontrollermanager"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/garden/component/virtualsystem"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// Names of the tasks of a deletion.
const (
	// TaskUnused must succeed before anything is destroyed.
	TaskUnused = "Ensuring no Seeds and Shoots exist in virtual garden"
	// TaskDestroyAPIServer and TaskDestroyService are the last tasks that destroy something of the virtual cluster besides its etcds.
	TaskDestroyAPIServer = "Destroying Kubernetes API Server"
	TaskDestroyService   = "Destroying Kubernetes API Server service"

	taskDestroySystem            = "Destroying virtual system resources"
	taskDestroyAccess            = "Destroying Gardener virtual garden access resources"
	taskDestroyControllerManager = "Destroying Kubernetes Controller Manager Server"
	taskDestroyResourceManager   = "Destroying gardener-resource-manager for virtual garden"
	taskDestroyRoutes            = "Destroying Kubernetes API server service SNI"
	taskForget                   = "Invalidate client for virtual garden"
)

// Names of checks.
const (
	// CheckUnused is that the virtual cluster has no Seeds and Shoots before it is destroyed.
	CheckUnused = "seeds-and-shoots"
	// CheckSeeds is that the virtual cluster has no Seeds before a rotation starts in which they take part.
	CheckSeeds = "seeds"
)

// answerTimeout is how long the virtual cluster may take to answer a request.
const answerTimeout = 30 * time.Second

// DeletionTasks returns the tasks that destroy the virtual cluster except for its etcds. What is in the virtual cluster is destroyed first,
// as long as its resource manager runs. If the user abandons the virtual cluster, its resource manager is destroyed first, so that it
// changes nothing there any more.
func (c *ControlPlane) DeletionTasks() []flow.Task {
	// managed are the tasks that need the resource manager of the virtual cluster; that for gardener-apiserver is one of those before them.
	managed := []string{
		taskDestroyScheduler, taskDestroyGardenerManager, taskDestroyAdmission, taskDestroySystem, taskDestroyAccess,
		taskDestroyControllerManager,
	}
	first, manager, last := TaskUnused, managed, []string{taskDestroyResourceManager}
	if c.abandons() {
		first, manager, last = taskDestroyResourceManager, []string{TaskUnused}, managed
	}
	return append([]flow.Task{
		{Name: TaskUnused, Run: flow.Work(c.ensureUnused)},
		// The namespaces that it deletes are gone only if all APIs are served.
		{Name: taskDestroySystem, DependsOn: []string{taskDestroyGardenerServer}, Run: c.destroyVirtual(virtualsystem.ManagedResource)},
		{Name: taskDestroyAccess, DependsOn: []string{first}, Run: c.destroyVirtual(gardeneraccess.ManagedResource,
			c.identity(secretKind, gardeneraccess.External), c.identity(secretKind, gardeneraccess.Internal))},
		// kube-controller-manager empties the namespaces that the task before deletes.
		{Name: taskDestroyControllerManager, DependsOn: []string{taskDestroySystem}, Run: c.destroyVirtual(kubecontrollermanager.ManagedResource,
			c.identity(deploymentKind, kubecontrollermanager.Name),
			c.identity(autoscalerKind, kubecontrollermanager.AutoscalerName),
			c.identity(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), kubecontrollermanager.Name),
			c.identity(corev1.SchemeGroupVersion.WithKind("Service"), kubecontrollermanager.Name),
			c.identity(secretKind, kubecontrollermanager.AccessSecret))},
		{Name: taskDestroyResourceManager, DependsOn: manager, Run: c.destroyResourceManager},
		{Name: taskDestroyRoutes, DependsOn: last, Run: c.destroyRoutes},
		{Name: TaskDestroyService, DependsOn: []string{taskDestroyRoutes}, Run: c.destroyObjects(
			c.identity(corev1.SchemeGroupVersion.WithKind("Service"), exposure.Name))},
		{Name: TaskDestroyAPIServer, DependsOn: last, Run: c.destroyObjects(
			c.identity(deploymentKind, kubeapiserver.Name),
			c.identity(autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), kubeapiserver.Name),
			c.identity(autoscalerKind, kubeapiserver.AutoscalerName),
			c.identity(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), kubeapiserver.Name))},
		{Name: taskForget, DependsOn: []string{TaskDestroyAPIServer}, Run: flow.Work(func(context.Context) error {
			c.Connection.Forget()
			return nil
		})},
	}, c.destroyGardenerTasks(first)...)
}

var (
	deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")
	autoscalerKind = schema.GroupVersionKind{Group: "autoscaling.k8s.io", Version: "v1", Kind: "VerticalPodAutoscaler"}
)

// identity returns the identity of an object in the namespace of the Garden.
func (c *ControlPlane) identity(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	return rollout.Identity(kind, c.Values.Namespace, name)
}

// destroyObjects returns the work of a task that destroys objects.
func (c *ControlPlane) destroyObjects(objects ...*unstructured.Unstructured) func(context.Context, flow.WaitingFor) error {
	return func(ctx context.Context, waitingFor flow.WaitingFor) error {
		return c.Cluster.Destroy(ctx, waitingFor, c.Timing.defaulted().APIServer, objects...)
	}
}

// destroy returns the work of a task that destroys a ManagedResource, and then objects.
func (c *ControlPlane) destroy(set string, objects ...*unstructured.Unstructured) func(context.Context, flow.WaitingFor) error {
	return func(ctx context.Context, waitingFor flow.WaitingFor) error {
		timeout := c.Timing.defaulted().ManagedResources
		if err := c.Cluster.DestroyManagedResource(ctx, waitingFor, timeout, c.Values.Namespace, set); err != nil {
			return err
		}
		return c.destroyObjects(objects...)(ctx, waitingFor)
	}
}

// destroyVirtual does the same as destroy for a ManagedResource of the virtual cluster. If the user abandons the virtual cluster, the
// objects of the ManagedResource stay there.
func (c *ControlPlane) destroyVirtual(set string, objects ...*unstructured.Unstructured) func(context.Context, flow.WaitingFor) error {
	return func(ctx context.Context, waitingFor flow.WaitingFor) error {
		if c.abandons() {
			if err := c.Cluster.AbandonManagedResource(ctx, c.Values.Namespace, set); err != nil {
				return err
			}
		}
		if err := c.destroy(set)(ctx, waitingFor); err != nil {
			return c.withWayOut(ctx, err)
		}
		return c.destroyObjects(objects...)(ctx, waitingFor)
	}
}

// abandons reports whether the user gives up the objects in the virtual cluster, and names it.
func (c *ControlPlane) abandons() bool { return c.Identity != "" && c.Abandoned == c.Identity }

// withWayOut adds to an error how to delete a Garden whose virtual cluster has no API server any more.
func (c *ControlPlane) withWayOut(ctx context.Context, err error) error {
	live, failure := c.readDeployment(ctx, kubeapiserver.Name)
	if failure != nil || c.abandons() || live != nil && live.Status.ReadyReplicas > 0 {
		return err
	}
	return fmt.Errorf("%w; no Pod of the virtual garden's kube-apiserver is ready: repair it or, to delete the Garden but not the objects in "+
		"the virtual garden, set the annotation %s=%s (the volumes of the etcds, the backups and the keys stay)",
		err, operatorv1alpha1.AnnotationAbandonVirtualCluster, c.Identity)
}

func (c *ControlPlane) destroyResourceManager(ctx context.Context, waitingFor flow.WaitingFor) error {
	objects, err := c.resourceManager(resourcemanager.Credentials{})
	if err != nil {
		return err
	}
	running := rollout.Deployments(objects)
	if c.abandons() {
		if err := c.destroyObjects(running...)(ctx, waitingFor); err != nil {
			return err
		}
	}
	return c.destroyVirtual(resourcemanager.VirtualManagedResource, append(running, objects...)...)(ctx, waitingFor)
}

func (c *ControlPlane) destroyRoutes(ctx context.Context, waitingFor flow.WaitingFor) error {
	objects, err := rollout.Unstructured(exposure.Routes(c.Values)...)
	if err != nil {
		return err
	}
	return c.destroyObjects(objects...)(ctx, waitingFor)
}

// ensureUnused fails as long as there are Seeds or Shoots: without the virtual cluster, what runs for them could not be deleted any more.
// Until the first installation is complete, and after a deletion has begun, there is nothing to ask, or no kubeconfig to ask with. Then
// there are none, or the operator has asked before.
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

// givesAccess reports whether users and the operator have had access to the virtual cluster since the last installation: only a kubeconfig
// that was lost is missing then.
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

// SeedProblem returns why no rotation may start in which Seeds take part, or "".
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

package extension

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/garden/charts"
	"github.com/espalier-dev/espalier/internal/garden/extension/rules"
	"github.com/espalier-dev/espalier/internal/garden/late"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// Extensions and Gardens are watched; finalizer and status of Extensions are written.
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=extensions,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=extensions/status,verbs=patch
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=gardens,verbs=list;watch

// ManagedResources with their Secrets are written, and the Secrets with tokens of admission controllers.
// +kubebuilder:rbac:groups=resources.gardener.cloud,resources=managedresources,verbs=list;watch
// +kubebuilder:rbac:groups=resources.gardener.cloud,resources=managedresources,verbs=get;create;update;delete,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;delete,namespace=garden,roleName=espalier-garden-operator-garden

// ConfigMaps that Extensions refer to are read.
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch,namespace=garden,roleName=espalier-garden-operator-garden

// An object in a chart of admission controllers must not replace an object of another program. Therefore the operator reads the metadata
// of the live object with the same kind and name.
// +kubebuilder:rbac:groups="",resources=configmaps;persistentvolumeclaims;pods;secrets;serviceaccounts;services,verbs=get,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=apps,resources=daemonsets;deployments;statefulsets,verbs=get,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=autoscaling.k8s.io,resources=verticalpodautoscalers,verbs=get,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=batch,resources=cronjobs;jobs,verbs=get,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors;prometheusrules;scrapeconfigs;servicemonitors,verbs=get,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings;roles,verbs=get,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;clusterrolebindings,verbs=get
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,verbs=get

// Events about Extensions are in namespace default, because Extensions have no namespace.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,namespace=default,roleName=espalier-garden-operator-events

// Reconciler deploys the parts of Extensions.
type Reconciler struct {
	// Client reads Extensions and Gardens from the cache, and patches finalizers and status of Extensions.
	Client client.Client
	// Cluster is the runtime cluster, read live.
	Cluster rollout.Cluster
	// Charts pulls and renders.
	Charts charts.Charts
	// Policy describes the objects that the charts may contain.
	Policy chart.Policy
	// Runtime returns the version of Kubernetes of the runtime cluster, and the API versions that it serves.
	Runtime func(ctx context.Context) (version string, apis []string, err error)
	Clock   clock.PassiveClock
	// Namespace is the namespace of the Garden.
	Namespace string
	// Workers is the number of workers.
	Workers  int
	Recorder events.EventRecorder

	watch *late.Watch
}

// Reconcile deploys or deletes the parts of an Extension as far as possible now, and writes its status and finalizer.
func (r *Reconciler) Reconcile(ctx context.Context, e *operatorv1alpha1.Extension) (ctrl.Result, error) {
	if r.watch != nil {
		if err := r.watch.Begin(); err != nil {
			return ctrl.Result{}, err
		}
	}
	// The cache may not contain the last write of this controller yet. If a new condition equaled the cached condition, but not the live
	// condition, the controller would not write it. So it reads the live Extension.
	if err := r.Cluster.Client.Get(ctx, client.ObjectKeyFromObject(e), e); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	garden, err := r.garden(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	var now verdict
	p, release := &progress{}, false
	switch phase := stageOf(garden); {
	case phase == stageNone && e.DeletionTimestamp == nil:
		now = verdictWithoutGarden(e)
	case phase == stageNone, phase == stageDeleting, e.DeletionTimestamp != nil:
		if !controllerutil.ContainsFinalizer(e, operatorv1alpha1.FinalizerOperator) {
			return ctrl.Result{}, nil // nothing was deployed
		}
		keeps := r.remove(ctx, e, garden, p)
		now, release = p.deleted(e), p.isDone() && !keeps
		if p.isDone() && keeps {
			now = verdict{
				corev1beta1.ConditionTrue, operatorv1alpha1.ReasonExtensionInRuntime,
				"The Garden is being deleted, and still needs the extension in the runtime cluster",
			}
		}
	default:
		if err := r.setFinalizer(ctx, e, true); err != nil {
			return ctrl.Result{}, err
		}
		now = r.install(ctx, e, garden, phase, p)
	}
	if err := r.report(ctx, e, p, now); err != nil {
		return ctrl.Result{}, err
	}
	if release {
		return ctrl.Result{}, r.setFinalizer(ctx, e, false)
	}
	if p.again && len(p.failures) == 0 {
		return ctrl.Result{RequeueAfter: retryServed}, nil
	}
	return ctrl.Result{}, charts.Outcome(p.failures...)
}

// retryServed is the pause until the reconciler asks again whether ManagedResources are served.
const retryServed = 10 * time.Second

// verdictWithoutGarden returns the content of condition Installed if there is no Garden. An Extension that was deleted keeps its condition.
func verdictWithoutGarden(e *operatorv1alpha1.Extension) verdict {
	before := corev1beta1.GetCondition(e.Status.Conditions, operatorv1alpha1.ExtensionInstalled)
	if before != nil && before.Reason == operatorv1alpha1.ReasonExtensionDeleted {
		return verdict{}
	}
	return verdict{corev1beta1.ConditionFalse, operatorv1alpha1.ReasonExtensionNoGarden, "No garden found"}
}

// garden returns the Garden, or nil.
func (r *Reconciler) garden(ctx context.Context) (*operatorv1alpha1.Garden, error) {
	gardens := &operatorv1alpha1.GardenList{}
	if err := r.Client.List(ctx, gardens, client.Limit(1)); err != nil {
		return nil, fmt.Errorf("list gardens: %w", err)
	}
	if len(gardens.Items) == 0 {
		return nil, nil
	}
	return &gardens.Items[0], nil
}

// install deploys the parts that the Extension must have, and deletes the others.
func (r *Reconciler) install(
	ctx context.Context, e *operatorv1alpha1.Extension, garden *operatorv1alpha1.Garden, at stage, p *progress,
) verdict {
	if errs := rules.Validate(e); len(errs) > 0 {
		p.fail(charts.MistakeOf(errs.ToAggregate()))
		return p.installed(e)
	}
	s := settingsOf(garden, r.Namespace)
	r.reconcileRuntime(ctx, e, s, p)
	switch at {
	case stageReady:
		r.reconcileAdmission(ctx, e, s, garden, p)
		r.reconcileRegistration(ctx, e, s, p)
		return p.installed(e)
	case stageBusy:
		if p.isDone() && isInstalled(e) {
			return verdict{} // a reconciliation of the Garden changes nothing for the Extension
		}
		p.wait("waiting until the Garden is reconciled")
	case stageFirst:
		if len(p.failures) == 0 {
			return verdict{
				corev1beta1.ConditionFalse, operatorv1alpha1.ReasonExtensionFailed, "waiting until the Garden is reconciled successfully",
			}
		}
	case stageNone, stageDeleting: // not reached
	}
	return p.installed(e)
}

// isInstalled reports whether this generation of the Extension was installed.
func isInstalled(e *operatorv1alpha1.Extension) bool {
	return corev1beta1.IsTrue(e.Status.Conditions, operatorv1alpha1.ExtensionInstalled) && e.Status.ObservedGeneration == e.Generation
}

// reconcileRuntime deploys the extension itself in the runtime cluster if the Garden needs it.
func (r *Reconciler) reconcileRuntime(ctx context.Context, e *operatorv1alpha1.Extension, s settings, p *progress) {
	deployment := own(e)
	if deployment == nil || !corev1beta1.IsTrue(e.Status.Conditions, operatorv1alpha1.ExtensionRequiredRuntime) {
		r.destroy(ctx, RuntimeSet(e), p)
		return
	}
	release, err := r.release(ctx, e, runtimeNamespace(e))
	if err != nil {
		p.fail(err)
		return
	}
	r.deployChart(ctx, e, chartSource{
		name: operatorv1alpha1.ChartRuntime, helm: deployment.Helm, field: "spec.deployment.extension.helm",
		given: deployment.RuntimeClusterValues, givenField: "spec.deployment.extension.runtimeClusterValues", own: runtimeValues(),
		release: release, policy: r.Policy,
	}, RuntimeSet(e), func(m chart.Manifests) ([]*unstructured.Unstructured, error) { return runtimeObjects(e, s, m) }, p)
}

// reconcileAdmission deploys the admission controllers: first their part in the virtual cluster, and when it is ready, their part in the
// runtime cluster.
func (r *Reconciler) reconcileAdmission(
	ctx context.Context, e *operatorv1alpha1.Extension, s settings, garden *operatorv1alpha1.Garden, p *progress,
) {
	const at = "spec.deployment.admission"
	helmVirtual, helmRuntime := admissionVirtual(e), admissionRuntime(e)
	if helmRuntime == nil {
		r.destroy(ctx, admissionRuntimeSet(e), p)
		r.destroyAccess(ctx, e, p)
	}
	virtualReady := true
	if helmVirtual == nil {
		r.destroy(ctx, admissionVirtualSet(e), p)
	} else {
		virtualReady = r.deployChart(ctx, e, chartSource{
			name: operatorv1alpha1.ChartAdmissionVirtual, helm: helmVirtual, field: at + ".virtualCluster.helm",
			given: e.Spec.Deployment.AdmissionDeployment.Values, givenField: at + ".values", own: admissionVirtualValues(e),
			release: chart.Release{
				Name: e.Name, Namespace: virtualNamespace(e), KubernetesVersion: garden.Spec.VirtualCluster.Kubernetes.Version,
			},
			policy: admissionVirtualPolicy(r.Policy, e),
		}, admissionVirtualSet(e), func(m chart.Manifests) ([]*unstructured.Unstructured, error) {
			return admissionVirtualObjects(e, s, m)
		}, p)
	}
	if helmRuntime == nil {
		return
	}
	if !virtualReady {
		return
	}
	if err := r.Cluster.DeployTyped(ctx, gardenaccess.Secret(s.namespace, accessSecret(e), admissionAccount(e))); err != nil {
		p.fail(err)
		return
	}
	release, err := r.release(ctx, e, s.namespace)
	if err != nil {
		p.fail(err)
		return
	}
	r.deployChart(ctx, e, chartSource{
		name: operatorv1alpha1.ChartAdmissionRuntime, helm: helmRuntime, field: at + ".runtimeCluster.helm",
		given: e.Spec.Deployment.AdmissionDeployment.Values, givenField: at + ".values", own: admissionRuntimeValues(e),
		release: release, policy: admissionRuntimePolicy(r.Policy, e),
	}, admissionRuntimeSet(e), func(m chart.Manifests) ([]*unstructured.Unstructured, error) {
		if err := r.ensureFree(ctx, admissionRuntimeSet(e), m); err != nil {
			return nil, err
		}
		return admissionRuntimeObjects(e, s, m)
	}, p)
}

// release returns the release of a chart in the runtime cluster.
func (r *Reconciler) release(ctx context.Context, e *operatorv1alpha1.Extension, namespace string) (chart.Release, error) {
	version, apis, err := r.Runtime(ctx)
	if err != nil {
		return chart.Release{}, fmt.Errorf("read version of runtime cluster: %w", err)
	}
	return chart.Release{Name: e.Name, Namespace: namespace, KubernetesVersion: version, APIVersions: apis}, nil
}

// reconcileRegistration registers the extension in the virtual cluster. It does not wait until the objects are there.
func (r *Reconciler) reconcileRegistration(ctx context.Context, e *operatorv1alpha1.Extension, s settings, p *progress) {
	if own(e) == nil {
		r.destroy(ctx, registrationSet(e), p)
		return
	}
	found := map[string]client.Object{}
	for _, each := range registered(e) {
		object, err := r.Charts.Find(ctx, each)
		if err != nil {
			p.fail(err)
			return
		}
		found[keyOf(each)] = object
	}
	objects, err := registrationObjects(e, s, found)
	if err == nil {
		err = r.Cluster.Deploy(ctx, objects...)
	}
	p.fail(err)
}

// deployChart renders a chart, and deploys its objects as a ManagedResource. It reports whether the ManagedResource is ready.
func (r *Reconciler) deployChart(
	ctx context.Context, e *operatorv1alpha1.Extension, s chartSource, set string,
	build func(chart.Manifests) ([]*unstructured.Unstructured, error), p *progress,
) bool {
	made, resolved, err := r.render(ctx, e, s)
	if err != nil {
		p.fail(err)
		return false
	}
	p.dropped, p.resolved = append(p.dropped, made.Dropped...), append(p.resolved, resolved)
	objects, err := build(made.Manifests)
	if err == nil {
		err = r.Cluster.Deploy(ctx, objects...)
	}
	if meta.IsNoMatchError(err) {
		p.wait("waiting until the runtime cluster serves ManagedResources")
		p.again = true
		return false
	}
	if err != nil {
		p.fail(fmt.Errorf("%s: %w", s.field, err))
		return false
	}
	live, err := rollout.Find(ctx, r.Cluster.Client, r.Namespace, set, &resourcesv1alpha1.ManagedResource{})
	switch {
	case err != nil:
		p.fail(err)
	case live == nil:
		p.wait("waiting for ManagedResource %s/%s, which was deleted", r.Namespace, set)
	case notReady(live) != "":
		p.wait("%s", notReady(live))
	default:
		return true
	}
	return false
}

// ensureFree returns an error if an object of a chart already exists and does not belong to the ManagedResource: the ManagedResource would
// take the object away from another program, for example from a component of the virtual cluster. It checks only objects in the namespace
// of the Garden and objects without a namespace.
func (r *Reconciler) ensureFree(ctx context.Context, set string, manifests chart.Manifests) error {
	for _, manifest := range manifests {
		for _, content := range manifest.Objects {
			object := &unstructured.Unstructured{Object: content}
			if namespace := object.GetNamespace(); namespace != "" && namespace != r.Namespace {
				continue
			}
			name := path.Join(object.GetNamespace(), object.GetName())
			isFree, err := rollout.IsFree(ctx, r.Cluster.Client, object, client.ObjectKey{Namespace: r.Namespace, Name: set})
			if err != nil {
				return err
			}
			if !isFree {
				// This error is no mistake, so that the reconciler tries again: it does not watch the object, which its owner may delete.
				return fmt.Errorf("%s %s in %s exists already and does not belong to this Extension; change its name in the chart",
					object.GetKind(), name, manifest.Template)
			}
		}
	}
	return nil
}

// remove deletes the extension itself in the runtime cluster, unless a Garden that is being deleted still needs it there. It reports
// whether the extension itself stays for this reason. At the same time, remove deletes the other parts in their order, each part when the
// part before it is gone.
func (r *Reconciler) remove(
	ctx context.Context, e *operatorv1alpha1.Extension, garden *operatorv1alpha1.Garden, p *progress,
) (keeps bool) {
	keeps = garden != nil && e.DeletionTimestamp == nil && corev1beta1.IsTrue(e.Status.Conditions, operatorv1alpha1.ExtensionRequiredRuntime)
	if !keeps {
		r.destroy(ctx, RuntimeSet(e), p)
	}
	// Without a virtual cluster there is no resource manager for its ManagedResources any more.
	abandoned := abandons(garden)
	steps := []func(*progress){
		func(p *progress) { r.destroyVirtual(ctx, registrationSet(e), abandoned, p) },
		func(p *progress) { r.destroy(ctx, admissionRuntimeSet(e), p) },
		func(p *progress) { r.destroyVirtual(ctx, admissionVirtualSet(e), abandoned, p) },
		func(p *progress) { r.destroyAccess(ctx, e, p) },
	}
	for _, step := range steps {
		here := &progress{}
		step(here)
		p.pending, p.failures = append(p.pending, here.pending...), append(p.failures, here.failures...)
		if !here.isDone() {
			break
		}
	}
	return keeps
}

// destroyVirtual deletes a ManagedResource for the virtual cluster. If that cluster is abandoned, the objects in it stay.
func (r *Reconciler) destroyVirtual(ctx context.Context, set string, abandoned bool, p *progress) {
	if !abandoned {
		r.destroy(ctx, set, p)
		return
	}
	if err := r.Cluster.AbandonManagedResource(ctx, r.Namespace, set); err != nil && !meta.IsNoMatchError(err) {
		p.fail(err)
	}
}

// destroy deletes a ManagedResource if it exists, and then waits until it is gone.
func (r *Reconciler) destroy(ctx context.Context, set string, p *progress) {
	live, err := rollout.Find(ctx, r.Cluster.Client, r.Namespace, set, &resourcesv1alpha1.ManagedResource{})
	if err != nil || live == nil {
		p.fail(err)
		return
	}
	requested, err := r.Cluster.DeleteManagedResource(ctx, r.Namespace, set)
	p.fail(err)
	if requested {
		p.wait("waiting until ManagedResource %s/%s is gone", r.Namespace, set)
	}
}

func (r *Reconciler) destroyAccess(ctx context.Context, e *operatorv1alpha1.Extension, p *progress) {
	secret := gardenaccess.Secret(r.Namespace, accessSecret(e), admissionAccount(e))
	_, err := r.Cluster.Delete(ctx, rollout.Identity(secret.GroupVersionKind(), secret.Namespace, secret.Name), r.Cluster.IsOurs)
	p.fail(err)
}

// report writes the status, and an Event for a change.
func (r *Reconciler) report(ctx context.Context, e *operatorv1alpha1.Extension, p *progress, now verdict) error {
	before := e.DeepCopy()
	old := corev1beta1.GetCondition(e.Status.Conditions, operatorv1alpha1.ExtensionInstalled)
	if now != (verdict{}) {
		condition := corev1beta1.UpdatedCondition(r.Clock,
			corev1beta1.GetOrInitCondition(r.Clock, e.Status.Conditions, operatorv1alpha1.ExtensionInstalled),
			now.status, now.reason, excerpt.Of(now.message, maxMessage))
		e.Status.Conditions = corev1beta1.MergeConditions(e.Status.Conditions, condition)
	}
	e.Status.ObservedGeneration = e.Generation
	p.keepResolved(e)
	slices.SortFunc(p.resolved, func(a, b operatorv1alpha1.ResolvedChart) int { return cmp.Compare(a.Name, b.Name) })
	e.Status.Charts = p.resolved
	if !equality.Semantic.DeepEqual(before.Status, e.Status) {
		if err := r.Client.Status().Patch(ctx, e, conflict.MergeFrom(before)); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("write status of Extension %q: %w", e.Name, err)
		}
	}
	if happened := eventOf(old, now); happened != nil {
		r.Recorder.Eventf(e, nil, happened.kind, happened.reason, "Reconcile", "%s", excerpt.Of(happened.note, maxNote))
	}
	return nil
}

const (
	// maxMessage is the limit of the message of a condition, in bytes.
	maxMessage = 4096
	// maxNote is the limit of the text of an Event, in bytes. The API server refuses longer ones.
	maxNote = 1000
)

// setFinalizer adds or removes the finalizer.
func (r *Reconciler) setFinalizer(ctx context.Context, e *operatorv1alpha1.Extension, has bool) error {
	if controllerutil.ContainsFinalizer(e, operatorv1alpha1.FinalizerOperator) == has {
		return nil
	}
	before := e.DeepCopy()
	if has {
		controllerutil.AddFinalizer(e, operatorv1alpha1.FinalizerOperator)
	} else {
		controllerutil.RemoveFinalizer(e, operatorv1alpha1.FinalizerOperator)
	}
	if err := r.Client.Patch(ctx, e, conflict.MergeFrom(before)); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write finalizer of Extension %q: %w", e.Name, err)
	}
	return nil
}

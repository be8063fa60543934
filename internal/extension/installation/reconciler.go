// Package installation installs the extensions that the ControllerInstallations of one Seed ask for, in the cluster of the Seed.
//
// It watches ControllerInstallations in the garden. In the Seed's cluster it watches the ManagedResources and namespaces of extensions,
// and the metadata of the Secrets that it wrote. It reads ControllerRegistrations, ControllerDeployments, the Seed, and Secrets and
// ConfigMaps for charts live in the garden: they are large or secret, and change seldom. In the Seed's cluster it writes a namespace, the
// Secrets by which the extension reaches the garden, and a ManagedResource with the objects of the chart. In the garden it writes the
// finalizer and the status of ControllerInstallations, and deletes the ServiceAccount of an extension that is uninstalled or loses its
// access to the garden.
//
// If the process dies, the next process repeats the steps. A step that was done before changes nothing. The digest of a chart is in the
// status before the first object is written, so that the repetition installs the same chart.
package installation

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/api/gardenaccess"
	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/chart/placeholder"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/extension/conditions"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// To read the installations of a Seed, and to write their finalizer and status.
// +kubebuilder:rbac:groups=core.gardener.cloud,resources=controllerinstallations,verbs=get;list;watch;patch,roleName=espalier-extension-controller-target
// +kubebuilder:rbac:groups=core.gardener.cloud,resources=controllerinstallations/status,verbs=patch,roleName=espalier-extension-controller-target
// +kubebuilder:rbac:groups=core.gardener.cloud,resources=controllerregistrations;controllerdeployments;seeds,verbs=get,roleName=espalier-extension-controller-target
// To read the identity of the garden, and Secrets and ConfigMaps for charts.
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=cluster-identity,verbs=get,namespace=kube-system,roleName=espalier-extension-controller-target
// +kubebuilder:rbac:groups="",resources=secrets;configmaps,verbs=get,namespace=garden,roleName=espalier-extension-controller-target
// To delete ServiceAccounts of extensions.
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;delete,roleName=espalier-extension-controller-target
// To create the namespaces of extensions, and the Secrets in them.
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;patch;delete
// To install the objects of charts.
// +kubebuilder:rbac:groups=resources.gardener.cloud,resources=managedresources,verbs=get;list;watch;create;update;delete,namespace=garden,roleName=espalier-extension-controller-source
// To find out whether an object of a chart exists outside of the namespace of the installation, and belongs to another program. A policy
// that allows further kinds or namespaces needs further rights.
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;clusterrolebindings,verbs=get
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,verbs=get
// To find out whether this is the cluster of the garden.
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=gardens,verbs=list

// Reconciler installs extensions. Each call of Reconcile handles one ControllerInstallation. The fields are set once, before start.
type Reconciler struct {
	// Garden reads installations from the cache, and writes to the garden.
	Garden client.Client
	// GardenLive reads the garden without a cache.
	GardenLive client.Reader
	// Seed reads and writes the cluster of the Seed without a cache.
	Seed client.WithWatch
	// KubernetesVersion returns the version of the cluster of the Seed.
	KubernetesVersion func() (string, error)

	SeedName        string
	GardenerVersion string
	FeatureGates    map[string]bool
	Connection      *rest.Config
	AlwaysInject    bool
	Policy          chart.Policy
	Sandbox         chart.Sandbox
	// Charts keeps charts from registries.
	Charts       *chart.Cache
	FieldManager string
	Clock        clock.PassiveClock
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	cached := &corev1beta1.ControllerInstallation{}
	if err := r.Garden.Get(ctx, request.NamespacedName, cached); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if cached.Spec.SeedRef.Name != r.SeedName {
		log.FromContext(ctx).V(1).Info("Skipping installation of another Seed", "seed", cached.Spec.SeedRef.Name)
		return ctrl.Result{}, nil
	}
	var found observed
	var unknown error
	if cached.DeletionTimestamp == nil {
		found, unknown = r.observe(ctx, cached)
	}
	// The installation is read live, and after its ControllerDeployment. So if a user first asks for a plan and then changes the
	// ControllerDeployment, a reconciliation that has read the new ControllerDeployment also makes the plan. And the cache may not have the
	// last write of this controller yet: a condition that equals the cached condition, but not the live one, would not be written.
	ci := &corev1beta1.ControllerInstallation{}
	if err := r.GardenLive.Get(ctx, request.NamespacedName, ci); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var verdicts []conditions.Verdict
	err := unknown
	switch {
	case ci.DeletionTimestamp != nil:
		verdicts, err = r.uninstall(ctx, ci)
	case unknown == nil:
		verdicts, err = r.install(ctx, ci, found)
	}
	// A write conflict, or the end of the process, says nothing about the installation.
	if f, isFailure := errors.AsType[*failure](err); isFailure && !conflict.Only(err) && ctx.Err() == nil {
		verdicts = append(verdicts, f.Verdict)
	}
	return r.conclude(ctx, ci, verdicts, err)
}

// conclude writes the conditions into the status and, at the end of a deletion, removes the finalizer.
func (r *Reconciler) conclude(ctx context.Context, ci *corev1beta1.ControllerInstallation, verdicts []conditions.Verdict, err error) (
	ctrl.Result, error,
) {
	failed := conditions.Record(ctx, r.Garden, ci, func(status *corev1beta1.ControllerInstallationStatus) error {
		conditions.Set(r.Clock, status, verdicts...)
		return nil
	})
	switch {
	case failed != nil:
		// err is not returned here. It may be terminal, and then the verdicts would never be written. The next attempt fails with err again.
		return ctrl.Result{}, failed
	case errors.Is(err, errNotHelm):
		log.FromContext(ctx).V(1).Info("Skipping installation", "reason", err.Error())
		return ctrl.Result{}, nil
	case errors.Is(err, errLeft):
		return ctrl.Result{RequeueAfter: leftPause}, nil // these objects have no watch
	case errors.Is(err, errWaiting):
		return ctrl.Result{}, nil // the watch of the object that it waits for triggers the next reconciliation
	case err != nil || ci.DeletionTimestamp == nil:
		return ctrl.Result{}, err
	}
	before := ci.DeepCopy()
	if !controllerutil.RemoveFinalizer(ci, corev1beta1.FinalizerControllerInstallation) {
		return ctrl.Result{}, nil
	}
	if err := r.Garden.Patch(ctx, ci, conflict.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("remove finalizer: %w", err)
	}
	log.FromContext(ctx).Info("Uninstalled extension")
	return ctrl.Result{}, nil
}

// observed are the objects that an installation depends on.
type observed struct {
	seed       *unstructured.Unstructured
	deployment deployment
	// inject reports whether the extension gets access to the garden, wantsAccess whether one of its workloads would use it.
	inject, wantsAccess bool
}

func (r *Reconciler) install(ctx context.Context, ci *corev1beta1.ControllerInstallation, found observed) (
	[]conditions.Verdict, error,
) {
	if err := r.addFinalizer(ctx, ci); err != nil {
		return nil, err
	}
	kubeconfig, err := kubeconfigSecret(namespaceOf(ci.Name), r.Connection)
	if err != nil {
		return nil, uninstallable(reasonFailed, err)
	}
	result, err := r.render(ctx, ci, found, kubeconfig.Name)
	if err != nil {
		return nil, err
	}
	verdicts := append(make([]conditions.Verdict, 0, 2), rendered(result.Dropped))
	access := gardenaccess.Access{Namespace: kubeconfig.Namespace, SeedName: r.SeedName}
	if found.inject {
		access.KubeconfigSecret, access.TokenSecret = kubeconfig.Name, accessSecret
	}
	if found.wantsAccess, err = inject(access, result.Manifests); err != nil {
		return verdicts, uninstallable(reasonFailed, err)
	}
	if err := r.deploy(ctx, ci, found, kubeconfig, result.Manifests); err != nil {
		return verdicts, uninstallable(reasonFailed, err)
	}
	return append(verdicts, pending(ci.Name)), nil
}

// observe reads the objects that an installation depends on.
func (r *Reconciler) observe(ctx context.Context, ci *corev1beta1.ControllerInstallation) (observed, error) {
	var found observed
	registration := &metav1.PartialObjectMetadata{}
	registration.SetGroupVersionKind(corev1beta1.SchemeGroupVersion.WithKind("ControllerRegistration"))
	name := ci.Spec.RegistrationRef.Name
	switch err := r.GardenLive.Get(ctx, types.NamespacedName{Name: name}, registration); {
	case apierrors.IsNotFound(err):
		return found, invalid(reasonNoRegistration, fmt.Errorf("referenced ControllerRegistration %q does not exist", name))
	case err != nil:
		return found, unreadable(reasonRegistrationRead, fmt.Errorf("read ControllerRegistration %q: %w", name, err))
	}
	var err error
	if found.seed, err = r.readSeed(ctx); err != nil {
		return found, err
	}
	if found.deployment, err = r.readDeployment(ctx, ci); err != nil {
		return found, err
	}
	found.inject = r.AlwaysInject || found.deployment.inject
	if identityOf(found.seed) == "" {
		return found, uninstallable(reasonFailed, fmt.Errorf("cluster-identity of seed '%s' not set", r.SeedName))
	}
	return found, nil
}

func (r *Reconciler) readSeed(ctx context.Context) (*unstructured.Unstructured, error) {
	seed := rollout.Identity(corev1beta1.SchemeGroupVersion.WithKind("Seed"), "", r.SeedName)
	switch err := r.GardenLive.Get(ctx, client.ObjectKeyFromObject(seed), seed); {
	case apierrors.IsNotFound(err):
		return nil, invalid(reasonNoSeed, fmt.Errorf("referenced Seed %q does not exist", r.SeedName))
	case err != nil:
		return nil, unreadable(reasonSeedRead, fmt.Errorf("read Seed %q: %w", r.SeedName, err))
	}
	return seed, nil
}

// readDeployment reads the ControllerDeployment in the version of today, or else in the former one.
func (r *Reconciler) readDeployment(ctx context.Context, ci *corev1beta1.ControllerInstallation) (deployment, error) {
	ref := ci.Spec.DeploymentRef
	if ref == nil {
		return deployment{}, errNotHelm
	}
	var err error
	for _, version := range []string{"v1", "v1beta1"} {
		kind := schema.GroupVersionKind{Group: corev1beta1.GroupName, Version: version, Kind: "ControllerDeployment"}
		o := rollout.Identity(kind, "", ref.Name)
		if err = r.GardenLive.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			if rollout.IsGone(err) {
				continue
			}
			return deployment{}, fmt.Errorf("read ControllerDeployment %q: %w", ref.Name, err)
		}
		parsed, wrong := parseDeployment(o)
		if wrong != nil && !errors.Is(wrong, errNotHelm) {
			return parsed, invalid(reasonChartInvalid, fmt.Errorf("read ControllerDeployment %q: %w", ref.Name, wrong))
		}
		return parsed, wrong
	}
	return deployment{}, invalid(reasonChartInvalid, fmt.Errorf("read ControllerDeployment %q: %w", ref.Name, err))
}

func (r *Reconciler) addFinalizer(ctx context.Context, ci *corev1beta1.ControllerInstallation) error {
	before := ci.DeepCopy()
	if !controllerutil.AddFinalizer(ci, corev1beta1.FinalizerControllerInstallation) {
		return nil
	}
	if err := r.Garden.Patch(ctx, ci, conflict.MergeFrom(before)); err != nil {
		return fmt.Errorf("add finalizer: %w", err)
	}
	return nil
}

// render pulls and renders the chart, and checks the result against the policy.
func (r *Reconciler) render(ctx context.Context, ci *corev1beta1.ControllerInstallation, seen observed, kubeconfig string) (
	chart.Result, error,
) {
	pulled, err := r.pull(ctx, ci, seen.deployment)
	if err != nil {
		return chart.Result{}, err
	}
	values, err := r.values(ctx, seen, kubeconfig)
	if err != nil {
		return chart.Result{}, err
	}
	kubernetes, err := r.KubernetesVersion()
	if err != nil {
		return chart.Result{}, fmt.Errorf("read version of the cluster of the Seed: %w", err)
	}
	release := chart.Release{Name: ci.Spec.RegistrationRef.Name, Namespace: namespaceOf(ci.Name), KubernetesVersion: kubernetes}
	result, err := r.Sandbox.Render(ctx, pulled.Archive, values, release)
	if err != nil {
		return result, invalid(reasonNotRendered, err)
	}
	if len(result.Unprotected) > 0 {
		log.FromContext(ctx).V(1).Info("The kernel lacks protections of the sandbox for charts", "missing", result.Unprotected)
	}
	policy := r.Policy
	policy.Reserved = []string{"Secret/" + accessSecret, "Secret/" + kubeconfig}
	found := append(policy.Breaches(release.Namespace, result.Manifests), foreignAccess(ci, result.Manifests)...)
	if text := chart.Summary(found); text != "" {
		return result, reconcile.TerminalError(invalid(reasonPolicy, errors.New("the chart breaks the chart policy: "+text)))
	}
	return result, nil
}

// values returns the values of the chart.
func (r *Reconciler) values(ctx context.Context, found observed, kubeconfig string) (chart.Values, error) {
	data, err := r.readResources(ctx, found.deployment)
	if err != nil {
		return nil, invalid(reasonValues, err)
	}
	own, err := found.deployment.resolved(data)
	if err != nil {
		return nil, invalid(reasonValues, err)
	}
	identity, err := r.readIdentity(ctx)
	if err != nil {
		return nil, err
	}
	garden := gardenFacts{version: r.GardenerVersion, gates: r.FeatureGates, identity: identity}
	if found.inject {
		garden.kubeconfig = kubeconfig
	}
	values, err := chartValues(own, garden, found.seed)
	if err != nil {
		return nil, invalid(reasonValues, err)
	}
	return values, nil
}

// readIdentity returns the identity of the garden.
func (r *Reconciler) readIdentity(ctx context.Context) (string, error) {
	identity, key := &corev1.ConfigMap{}, types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: "cluster-identity"}
	if err := r.GardenLive.Get(ctx, key, identity); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read identity of the garden: %w", err)
	}
	if identity.Data[key.Name] == "" {
		return "", uninstallable(reasonFailed, fmt.Errorf("ConfigMap %s of the garden does not exist, or does not contain the identity of the "+
			"garden; gardener-apiserver creates it", key))
	}
	return identity.Data[key.Name], nil
}

// readResources returns the data of the Secrets and ConfigMaps that values may refer to. As gardenlet does, it refuses objects without the
// label for this purpose, so that the author of a ControllerDeployment cannot read all Secrets of the namespace.
func (r *Reconciler) readResources(ctx context.Context, d deployment) (placeholder.Resources, error) {
	all := placeholder.Resources{}
	for name, each := range d.resources {
		secret, configMap := &corev1.Secret{}, &corev1.ConfigMap{}
		var found client.Object = configMap
		if each.kind == "Secret" {
			found = secret
		}
		if err := r.GardenLive.Get(ctx, types.NamespacedName{Namespace: GardenNamespace, Name: each.name}, found); err != nil {
			return nil, fmt.Errorf("read resource %q: %w", name, err)
		}
		if found.GetLabels()[labelRole] != roleResource {
			return nil, fmt.Errorf("resource %q: %s %q does not have the label %s: %s", name, each.kind, each.name, labelRole, roleResource)
		}
		data := maps.Clone(configMap.Data)
		if data == nil {
			data = map[string]string{}
		}
		for field, value := range secret.Data {
			data[field] = string(value)
		}
		all[name] = data
	}
	return all, nil
}

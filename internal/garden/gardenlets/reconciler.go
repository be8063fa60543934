// Package gardenlets deploys the gardenlets of objects of kind Gardenlet in the virtual cluster.
//
// It watches Gardenlets. It deploys a gardenlet as long as no Seed with the name of the Gardenlet exists, and when the user requests a
// deployment. For this, it pulls the chart of the Gardenlet, renders the chart in a child process, and writes the objects of the chart
// into the runtime cluster, or into the cluster of a kubeconfig. It does not use a ManagedResource: gardenlet upgrades itself by writing
// these objects, and a ManagedResource would revert the upgrade. In the virtual cluster, it writes a bootstrap token, and the condition,
// Events and annotations of the Gardenlet. It does not wait for the Seed: it asks again later whether the Seed exists. If the process
// stops between two writes, the next run does the rest. It deletes only two Secrets: an expired kubeconfig of gardenlet and, when the Seed
// is registered, the kubeconfig of a remote cluster.
package gardenlets

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	seedmanagementv1alpha1 "github.com/espalier-dev/espalier/api/seedmanagement/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/garden/charts"
	"github.com/espalier-dev/espalier/internal/garden/late"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// Gardens have the address of the virtual cluster.
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=gardens,verbs=list;watch

// The objects of the chart of gardenlet are written. Its roles give rights that the operator does not have.
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=gardener.cloud:system:gardenlet;gardener.cloud:system:gardenlet:apiserver-sni;gardener.cloud:system:gardenlet:managed-istio,verbs=get;create;patch;update;escalate;bind
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,resourceNames=gardener.cloud:system:gardenlet;gardener.cloud:system:gardenlet:apiserver-sni;gardener.cloud:system:gardenlet:managed-istio,verbs=get;create;patch;update
// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=priorityclasses,resourceNames=gardener-system-critical,verbs=get;create;patch;update
// +kubebuilder:rbac:groups="",resources=configmaps;secrets;serviceaccounts;services,verbs=get;create;update,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups="",resources=secrets,verbs=delete,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;create;update,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;create;update,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;create;update,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles,verbs=get;create;update;escalate;bind,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=get;create;update,namespace=garden,roleName=espalier-garden-operator-garden

var (
	kind     = seedmanagementv1alpha1.SchemeGroupVersion.WithKind("Gardenlet")
	seedKind = corev1beta1.SchemeGroupVersion.WithKind("Seed")
)

// seedPeriod is how often the reconciler asks whether a Seed exists.
const seedPeriod = 30 * time.Second

// Reconciler deploys gardenlets. All fields are required.
type Reconciler struct {
	// Enabled allows the Reconciler to deploy gardenlets. Otherwise it only writes conditions.
	Enabled bool
	// Connect returns a client for the virtual cluster. An error means that there is none now.
	Connect func(ctx context.Context) (client.WithWatch, error)
	// Gardenlets is the watch of Gardenlets: see Watch.
	Gardenlets *late.Objects[Watched]
	// Client reads Gardens from the cache.
	Client client.Reader
	// Cluster is the runtime cluster, read live.
	Cluster rollout.Cluster
	// Runtime returns the version of Kubernetes of the runtime cluster, and the API versions that it serves.
	Runtime func(ctx context.Context) (version string, apis []string, err error)
	// Charts pulls and renders charts. Its reader and its namespace are not used: Secrets for charts are in the namespace of the Gardenlet.
	Charts charts.Charts
	// Image is the image of gardenlet if the Gardenlet names none.
	Image string
	Clock clock.PassiveClock
	// Namespace is the namespace of the Garden, and of gardenlet.
	Namespace string
}

// object is a Gardenlet in the virtual cluster.
type object struct {
	virtual client.WithWatch
	// live is the Gardenlet as it was last read or written, g its decoded form.
	live *unstructured.Unstructured
	g    *seedmanagementv1alpha1.Gardenlet
}

func (o object) isForced() bool {
	return o.live.GetAnnotations()[seedmanagementv1alpha1.AnnotationOperation] == seedmanagementv1alpha1.OperationForceRedeploy
}

// Reconcile deploys the gardenlet of a Gardenlet if no Seed with the name of the Gardenlet exists yet, or if an annotation of the
// Gardenlet requests another deployment. If Enabled is false, it deploys nothing. It also writes the condition and the annotations of the
// Gardenlet.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	o, err := r.read(ctx, request.NamespacedName)
	if err != nil || o.live == nil || o.live.GetDeletionTimestamp() != nil {
		return ctrl.Result{}, err
	}
	seed, err := rollout.Find(ctx, o.virtual, "", o.g.Name, rollout.Identity(seedKind, "", ""))
	if err != nil {
		return ctrl.Result{}, err
	}
	var now verdict
	var failure error
	deployed := false
	switch {
	case seed != nil && !o.isForced():
		now, failure = r.settle(ctx, o)
	case !r.Enabled:
		now = disabled()
	default:
		now, failure = r.deploy(ctx, o, seed)
		deployed = failure == nil
	}
	if failure != nil {
		now = failed(failure)
	}
	if err := r.report(ctx, o, now); err != nil {
		return ctrl.Result{}, err
	}
	if failure != nil {
		return ctrl.Result{}, charts.Outcome(failure)
	}
	if deployed && o.isForced() {
		if err := r.annotate(ctx, o, seedmanagementv1alpha1.AnnotationOperation, ""); err != nil {
			return ctrl.Result{}, err
		}
	}
	if seed != nil && !deployed {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: seedPeriod}, nil
}

// read returns a Gardenlet. Its field live is nil if the Gardenlet does not exist.
func (r *Reconciler) read(ctx context.Context, key client.ObjectKey) (object, error) {
	virtual, err := r.Connect(ctx)
	if err != nil {
		return object{}, fmt.Errorf("connect to virtual cluster: %w", err)
	}
	live, err := rollout.Find(ctx, virtual, key.Namespace, key.Name, rollout.Identity(kind, "", ""))
	if err != nil || live == nil {
		return object{}, err
	}
	g := &seedmanagementv1alpha1.Gardenlet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, g); err != nil {
		return object{}, fmt.Errorf("decode Gardenlet %s: %w", key, err)
	}
	return object{virtual: virtual, live: live, g: g}, nil
}

// settle ends the work of the operator for a Gardenlet whose Seed exists. If the Gardenlet names no kubeconfig of a remote cluster, or if
// the operator deploys no gardenlets, settle changes the condition only if the Gardenlet already has the condition, with another status
// than True. A Gardenlet without the condition has a gardenlet that the operator did not deploy.
func (r *Reconciler) settle(ctx context.Context, o object) (verdict, error) {
	before := corev1beta1.GetCondition(o.g.Status.Conditions, seedmanagementv1alpha1.SeedRegistered)
	if ref := o.g.Spec.KubeconfigSecretRef; ref != nil && r.Enabled {
		if err := r.dropKubeconfig(ctx, o, ref.Name); err != nil {
			return verdict{}, fmt.Errorf("spec.kubeconfigSecretRef: %w", err)
		}
		return registered(o.g.Name), nil
	}
	if before == nil || before.Status == corev1beta1.ConditionTrue {
		return verdict{}, nil
	}
	return registered(o.g.Name), nil
}

// dropKubeconfig deletes the Secret with the kubeconfig of a remote cluster, and then removes the reference to the Secret from the
// Gardenlet. If the Secret does not contain a kubeconfig that clientConfig accepts, dropKubeconfig removes only the reference.
func (r *Reconciler) dropKubeconfig(ctx context.Context, o object, name string) error {
	secret, err := rollout.Find(ctx, o.virtual, o.g.Namespace, name, &corev1.Secret{})
	if err != nil {
		return err
	}
	if secret != nil {
		if _, err := clientConfig(secret.Data["kubeconfig"]); err == nil {
			preconditions := client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion}
			if err := o.virtual.Delete(ctx, secret, preconditions); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("delete Secret %s/%s: %w", secret.Namespace, secret.Name, err)
			}
		}
	}
	before := o.live.DeepCopy()
	unstructured.RemoveNestedField(o.live.Object, "spec", "kubeconfigSecretRef")
	if err := o.virtual.Patch(ctx, o.live, conflict.MergeFrom(before)); err != nil {
		return fmt.Errorf("remove reference to Secret %s/%s: %w", o.g.Namespace, name, err)
	}
	o.g.Generation = o.live.GetGeneration() // the status is about the spec without the reference
	return nil
}

// deploy deploys the gardenlet. Seed is nil if there is none yet.
func (r *Reconciler) deploy(ctx context.Context, o object, seed *unstructured.Unstructured) (verdict, error) {
	address, err := r.address(ctx)
	if err != nil {
		return verdict{}, err
	}
	s, err := settingsOf(o.g, address, r.Namespace)
	if err != nil {
		return verdict{}, err
	}
	t, err := r.target(ctx, o)
	if err != nil {
		return verdict{}, err
	}
	err = t.ensureSame(ctx, r.Namespace, o.g.Name)
	if err != nil {
		return verdict{}, err
	}
	in, err := r.inputs(ctx, o, s, t, seed)
	if err != nil {
		return verdict{}, err
	}
	made, err := r.render(ctx, o, s, t, in)
	if err != nil {
		return verdict{}, err
	}
	objects, err := objectsOf(made.Manifests)
	if err != nil {
		return verdict{}, charts.Mistakef("%s: %w", chartField, err)
	}
	if err := t.ensureFree(ctx, objects); err != nil {
		return verdict{}, fmt.Errorf("%s: %w", chartField, err)
	}
	if err := t.ensureNamespace(ctx, r.Namespace); err != nil {
		return verdict{}, err
	}
	if err := t.Deploy(ctx, objects...); err != nil {
		return verdict{}, fmt.Errorf("%s: %w", chartField, err)
	}
	return waiting(charts.NoEffect(made.Dropped)), nil
}

// address returns the address of the virtual cluster for its users.
func (r *Reconciler) address(ctx context.Context) (string, error) {
	gardens := &operatorv1alpha1.GardenList{}
	if err := r.Client.List(ctx, gardens, client.Limit(1)); err != nil {
		return "", fmt.Errorf("list Gardens: %w", err)
	}
	if len(gardens.Items) == 0 || len(gardens.Items[0].Spec.VirtualCluster.DNS.Domains) == 0 {
		return "", errors.New("there is no Garden with a domain")
	}
	return "https://api." + gardens.Items[0].Spec.VirtualCluster.DNS.Domains[0].Name, nil
}

const chartField = "spec.deployment.helm"

// render pulls and renders the chart. A reference without a digest is resolved once, and an annotation keeps the digest. If the user
// requests another deployment, render resolves the reference again: gardenlet may have upgraded itself to newer content by then, and the
// former digest would be a step back.
func (r *Reconciler) render(ctx context.Context, o object, s settings, t target, in inputs) (charts.Rendered, error) {
	repository := o.g.Spec.Deployment.Helm.OCIRepository
	reference, complete := repository.Reference()
	if !complete {
		return charts.Rendered{}, charts.Mistakef("%s.ociRepository has neither ref nor repository with tag or digest", chartField)
	}
	deployment, _, _ := unstructured.NestedMap(o.live.Object, "spec", "deployment")
	config, _, _ := unstructured.NestedMap(o.live.Object, "spec", "config")
	values, err := valuesOf(o.g.Name, deployment, config, s, in)
	if err != nil {
		return charts.Rendered{}, err
	}
	resolved, _ := strings.CutPrefix(o.live.GetAnnotations()[seedmanagementv1alpha1.AnnotationChart], reference+"@")
	if resolved == o.live.GetAnnotations()[seedmanagementv1alpha1.AnnotationChart] || o.isForced() {
		resolved = ""
	}
	pull := r.Charts
	pull.Reader, pull.Namespace = o.virtual, o.g.Namespace
	made, err := pull.Render(ctx, charts.Source{
		Helm: &operatorv1alpha1.ExtensionHelm{OCIRepository: &repository}, Field: chartField, Digest: resolved,
		Values: values, Release: t.release, Policy: policyOf(s.kubeconfig), Remedy: "use the chart of gardenlet",
	})
	if err != nil || resolved == made.Digest {
		return made, err
	}
	return made, r.annotate(ctx, o, seedmanagementv1alpha1.AnnotationChart, reference+"@"+made.Digest)
}

// inputs reads the inputs of the values. If gardenlet has no valid certificate, it makes a bootstrap token.
func (r *Reconciler) inputs(ctx context.Context, o object, s settings, t target, seed *unstructured.Unstructured) (in inputs, err error) {
	in = inputs{namespace: r.Namespace, image: r.Image}
	if in.isGarden, err = rollout.HasAny(ctx, t.Client, operatorv1alpha1.SchemeGroupVersion.WithKind("Garden")); err != nil {
		return in, err
	}
	if s.backup != nil {
		secret := &corev1.Secret{}
		if err = o.virtual.Get(ctx, *s.backup, secret); err != nil {
			return in, fmt.Errorf("spec.config.seedConfig.spec.backup.credentialsRef: %w", err)
		}
		in.backup = secret.Data
	}
	connects, err := r.hasKubeconfig(ctx, s, t, seed)
	if err != nil || connects {
		return in, err
	}
	in.bootstrap, err = r.bootstrap(ctx, o, s.address)
	return in, err
}

// hasKubeconfig reports whether gardenlet has a kubeconfig for the virtual cluster. It deletes one with an expired certificate.
func (r *Reconciler) hasKubeconfig(ctx context.Context, s settings, t target, seed *unstructured.Unstructured) (bool, error) {
	secret, err := rollout.Find(ctx, t.Client, s.kubeconfig.Namespace, s.kubeconfig.Name, &corev1.Secret{})
	if err != nil || secret == nil || seed == nil {
		return secret != nil, err
	}
	text, _, _ := unstructured.NestedString(seed.Object, "status", "clientCertificateExpirationTimestamp")
	expires, unknown := time.Parse(time.RFC3339, text)
	if unknown != nil || r.Clock.Now().Before(expires) { // without a time, the certificate counts as valid
		return true, nil //nolint:nilerr // see above
	}
	if err := t.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID}); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("delete expired kubeconfig in Secret %s: %w", s.kubeconfig, err)
	}
	log.FromContext(ctx).Info("Deleted expired kubeconfig of gardenlet", "secret", s.kubeconfig)
	return false, nil
}

// bootstrap returns a kubeconfig with a bootstrap token. It uses an existing token as long as it is valid.
func (r *Reconciler) bootstrap(ctx context.Context, o object, address string) (string, error) {
	authorities := &corev1.ConfigMap{}
	if err := o.virtual.Get(ctx, client.ObjectKey{Namespace: o.g.Namespace, Name: "kube-root-ca.crt"}, authorities); err != nil {
		return "", fmt.Errorf("read certificate authorities of virtual cluster: %w", err)
	}
	token := tokenSecret(o.g, strings.ToLower(rand.Text())[:tokenSecretLength], r.Clock.Now())
	live, err := rollout.Find(ctx, o.virtual, token.Namespace, token.Name, &corev1.Secret{})
	switch {
	case err != nil:
		return "", err
	case live == nil:
		err = o.virtual.Create(ctx, token)
	case isUsable(live, r.Clock.Now()):
		token = live
	default:
		token.ResourceVersion = live.ResourceVersion
		err = o.virtual.Update(ctx, token)
	}
	if err != nil {
		return "", fmt.Errorf("write bootstrap token in Secret %s/%s: %w", token.Namespace, token.Name, err)
	}
	return bootstrapKubeconfig(token, address, []byte(authorities.Data["ca.crt"]))
}

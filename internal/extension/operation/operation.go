// Package operation does the operations that a Seed is annotated with: they request new credentials for the garden.
//
// It watches the Seed in the garden. In the Seed's cluster, it removes the times of renewal from Secrets with tokens, or annotates the
// Secret with the kubeconfig. After that, it removes the annotation from the Seed. If the process dies in between, the next process does
// the operation again. When the annotation is gone, new credentials are requested, but need not exist yet.
package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/process"
)

// To see operations, and to remove their annotation.
// +kubebuilder:rbac:groups=core.gardener.cloud,resources=seeds,verbs=get;list;watch;patch,roleName=espalier-extension-controller-target
// To request new tokens.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=list;patch

// ControllerName names the controller in logs and metrics.
const ControllerName = "seed-operation"

// The pause before the next attempt for an operation that fails grows from shortestPause to longestPause.
const (
	shortestPause = time.Second
	longestPause  = time.Minute
)

// Names of Secrets with tokens of workload identities. Another program renews them.
const (
	labelPurpose           = "security.gardener.cloud/purpose"
	purposeWorkload        = "workload-identity-token-requestor"
	annotationWorkloadTime = "workloadidentity.security.gardener.cloud/token-renew-timestamp"
)

// operationRenew is the value of the annotation that requests a new client certificate in a Secret with a kubeconfig.
const operationRenew = "renew"

// Reconciler does the operations of one Seed. Its fields are set once, before start.
type Reconciler struct {
	// Garden reads the Seed from the cache and removes its annotation.
	Garden client.Client
	// Seed lists and patches Secrets without a cache.
	Seed client.Client
	// KubeconfigSecret is the Secret with the kubeconfig of this process; nil if it has none.
	KubeconfigSecret *types.NamespacedName
	FieldManager     string
}

// errNoKubeconfigSecret is a terminal error: the operation cannot succeed until the user removes the annotation or changes the
// configuration.
var errNoKubeconfigSecret = errors.New("unable to renew garden kubeconfig. No gardenClientConnection.kubeconfigSecret specified: " +
	"configure it, or remove the annotation from the Seed")

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	seed := &corev1beta1.Seed{}
	if err := r.Garden.Get(ctx, request.NamespacedName, seed); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	operation := seed.Annotations[corev1beta1.SeedOperation]
	var err error
	switch operation {
	case corev1beta1.SeedOperationRenewGardenAccess:
		_, err = r.renewTokens(ctx, resourcesv1alpha1.ServiceAccountTokenRenewTimestamp, client.MatchingLabels{
			resourcesv1alpha1.ResourcePurpose: resourcesv1alpha1.PurposeTokenRequestor, resourcesv1alpha1.ResourceClass: "garden",
		})
	case corev1beta1.SeedOperationRenewWorkloadIdentity:
		var found int
		if found, err = r.renewTokens(ctx, annotationWorkloadTime, client.MatchingLabels{labelPurpose: purposeWorkload}); found > 0 {
			log.FromContext(ctx).Info("No program of Espalier renews tokens of workload identities: another program must renew them",
				"secrets", found)
		}
	case corev1beta1.SeedOperationRenewKubeconfig:
		err = r.renewKubeconfig(ctx)
	default:
		return ctrl.Result{}, nil // none, or one of another program
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("%s: %w", operation, err)
	}
	if err := r.acknowledge(ctx, seed); err != nil {
		return ctrl.Result{}, err
	}
	log.FromContext(ctx).Info("Requested new credentials", "operation", operation)
	return ctrl.Result{}, nil
}

// renewTokens removes the time of the next renewal from the selected Secrets, so that the tokens in them are renewed at once. It returns
// the number of the selected Secrets.
func (r *Reconciler) renewTokens(ctx context.Context, annotation string, selected client.MatchingLabels) (int, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.Seed.List(ctx, list, selected); err != nil {
		return 0, fmt.Errorf("list Secrets: %w", err)
	}
	var errs []error
	for i := range list.Items {
		if _, isSet := list.Items[i].Annotations[annotation]; isSet {
			errs = append(errs, r.annotateSecret(ctx, client.ObjectKeyFromObject(&list.Items[i]), annotation, nil))
		}
	}
	return len(list.Items), errors.Join(errs...)
}

func (r *Reconciler) renewKubeconfig(ctx context.Context) error {
	if r.KubeconfigSecret == nil {
		return reconcile.TerminalError(errNoKubeconfigSecret)
	}
	return r.annotateSecret(ctx, *r.KubeconfigSecret, corev1beta1.SeedOperation, operationRenew)
}

// annotateSecret sets an annotation, or removes it if the value is nil.
func (r *Reconciler) annotateSecret(ctx context.Context, key types.NamespacedName, annotation string, value any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotation: value}}})
	if err != nil {
		return fmt.Errorf("encode annotation: %w", err)
	}
	secret := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err = r.Seed.Patch(ctx, secret, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(r.FieldManager))
	if value == nil {
		err = client.IgnoreNotFound(err)
	}
	if err != nil {
		return fmt.Errorf("annotate Secret %s: %w", key, err)
	}
	return nil
}

// acknowledge removes the annotation of the operation that was done. If the Seed has changed meanwhile, acknowledge fails, and the
// operation is done again, because the annotation may be new.
func (r *Reconciler) acknowledge(ctx context.Context, seed *corev1beta1.Seed) error {
	after := seed.DeepCopy()
	delete(after.Annotations, corev1beta1.SeedOperation)
	if err := r.Garden.Patch(ctx, after, conflict.MergeFrom(seed)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove annotation of Seed: %w", err)
	}
	return nil
}

// SetupWithManager adds the controller to the manager. The cache is of the garden and has one Seed.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, garden cache.Cache) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		WatchesRawSource(source.Kind(garden, &corev1beta1.Seed{}, process.OnEvent(seedEvent))).
		WithOptions(process.ControllerOptions(1, process.Deadline, shortestPause, longestPause)).
		Complete(conflict.RetryAtOnce(r))
}

// seedEvent enqueues a Seed with an operation.
func seedEvent(_ context.Context, _, after *corev1beta1.Seed, q process.Queue) {
	if after != nil && after.Annotations[corev1beta1.SeedOperation] != "" {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(after)})
	}
}

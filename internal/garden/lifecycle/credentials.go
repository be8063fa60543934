package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/api/references"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/garden/component/vpa"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
	"github.com/espalier-dev/espalier/internal/rollout"
	"github.com/espalier-dev/espalier/internal/secrets"
	"github.com/espalier-dev/espalier/internal/secrets/config"
	"github.com/espalier-dev/espalier/internal/secrets/manager"
)

// secretsIdentity is the identity of the Secrets of a Garden.
const secretsIdentity = "gardener-operator"

// secretWriters are the field managers that have written Secrets of a Garden: this operator, its earlier releases, and Gardener's operator.
var secretWriters = []string{rollout.FieldManager, "espalier-garden-operator", "gardener-operator"}

// Contents of the generic token kubeconfig.
const (
	genericKubeconfigContext = "garden"
	genericTokenFile         = "/var/run/secrets/gardener.cloud/shoot/generic-kubeconfig/token"
)

func (r *Reconciler) secretsManager(
	ctx context.Context, garden *operatorv1alpha1.Garden, clocks *clockFault,
) (*manager.Manager, error) {
	source := r.Random
	if source.Random == nil {
		source = config.RandomSource(r.Clock.Now())
	}
	m, err := manager.New(ctx, r.Client, r.Clock, source, secrets.Options{
		Namespace: r.Operator.Namespace, Identity: secretsIdentity, RotationTimes: rotation.Times(rotationOf(garden)),
		RenewedAuthorities: rotation.RenewedAuthorities(), Writers: secretWriters, ClockProblem: clocks.problem(),
	})
	if err != nil {
		return nil, fmt.Errorf("create secrets manager: %w", err)
	}
	r.guard(m, garden)
	return m, nil
}

func (o *operation) generateAuthorities(ctx context.Context) error {
	for _, authority := range rotation.Authorities {
		if _, err := o.secrets.Generate(ctx, authority.Request(o.values.Phases)); err != nil {
			return err
		}
	}
	if early := o.secrets.EarlyAuthorities(); len(early) > 0 {
		o.Recorder.Eventf(o.status.garden, nil, "Warning", reasonAuthorityNotYetValid, "Reconcile",
			"A clock was ahead when these certificate authorities were issued, and they are not valid yet; rotate them: %s",
			strings.Join(early, ", "))
	}
	return o.reportExpiry(ctx)
}

// findWildcardCertificate sets the name of the Secret with the wildcard certificate. It fails if there are several.
func (o *operation) findWildcardCertificate(ctx context.Context) error {
	role, err := labels.NewRequirement(operatorv1alpha1.LabelRole, selection.In, []string{
		operatorv1alpha1.RoleWildcardCertificate, operatorv1alpha1.RoleFormerWildcardCertificate,
	})
	if err != nil {
		return fmt.Errorf("select wildcard certificates: %w", err)
	}
	found := &metav1.PartialObjectMetadataList{}
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	selector := client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*role)}
	if err := o.Client.List(ctx, found, client.InNamespace(o.values.Namespace), selector); err != nil {
		return fmt.Errorf("list wildcard certificates: %w", err)
	}
	names := make([]string, 0, len(found.Items))
	for i := range found.Items {
		names = append(names, found.Items[i].Name)
	}
	slices.Sort(names)
	if len(names) > 1 {
		return fmt.Errorf("misconfigured cluster: not possible to provide more than one secret with annotation %s: %s",
			operatorv1alpha1.RoleFormerWildcardCertificate, strings.Join(names, ", "))
	}
	o.wildcard = strings.Join(names, "")
	return nil
}

// generateKubeconfig generates the generic token kubeconfig and names it in an annotation of the Garden.
func (o *operation) generateKubeconfig(ctx context.Context) error {
	bundle, err := o.secrets.Bundle(rotation.KubernetesAuthority)
	if err != nil {
		return err
	}
	secret, err := o.secrets.Generate(ctx, secrets.Request{KeepOld: true, Config: config.Kubeconfig{
		Name: gardenaccess.GenericKubeconfig, ContextName: genericKubeconfigContext,
		Cluster: config.Cluster{Server: network.VirtualAPIServer, CAData: bundle.Data[config.DataKeyCertificateBundle]},
		User:    config.User{TokenFile: genericTokenFile},
	}})
	if err != nil {
		return err
	}
	garden := o.garden.DeepCopy()
	if garden.Annotations[operatorv1alpha1.AnnotationGenericTokenKubeconfig] == secret.Name {
		return nil
	}
	metav1.SetMetaDataAnnotation(&garden.ObjectMeta, operatorv1alpha1.AnnotationGenericTokenKubeconfig, secret.Name)
	if err := o.Client.Patch(ctx, garden, client.MergeFrom(o.garden)); err != nil {
		return fmt.Errorf("annotate Garden: %w", err)
	}
	return nil
}

// formerSecrets are the logical names of Secrets that only some reconciliations need: the certificate of an autoscaler that was
// disabled since, and the certificate with which the resource manager of the virtual cluster got its first token.
var formerSecrets = []string{vpa.ServerSecret, resourcemanager.BootstrapSecret}

// cleanUpSecrets deletes Secrets that are not needed any more. Secrets of components that the flow does not deploy are kept, because a
// landscape that was taken over still needs them. Secrets that are in use are kept until a later reconciliation, because the flow does not
// await each component that gets another certificate; only credentials of a rotation that completes are deleted nevertheless. It fails
// while a rotation would complete although a Secret from before it is left.
func (o *operation) cleanUpSecrets(ctx context.Context) error {
	completing := rotation.CompletingTimes(rotationOf(o.garden))
	inUse := sync.OnceValues(func() (sets.Set[string], error) { return o.secretsInUse(ctx) })
	var unknown error // why it is not known which Secrets are in use
	err := o.secrets.Cleanup(ctx, func(logicalName, name string) bool {
		if _, known := o.secrets.Get(logicalName, secrets.Current); !known && !slices.Contains(formerSecrets, logicalName) {
			return false
		}
		if _, completes := completing[logicalName]; completes {
			return true
		}
		used, failure := inUse()
		unknown = failure
		return failure == nil && !used.Has(name)
	})
	if err = errors.Join(err, unknown); err != nil {
		return fmt.Errorf("clean up Secrets: %w", err)
	}
	if len(completing) == 0 {
		return nil
	}
	managed := &corev1.SecretList{}
	err = o.Client.List(ctx, managed, client.InNamespace(o.values.Namespace), client.MatchingLabels{
		secrets.LabelManagedBy: secrets.ManagedBy, secrets.LabelManagerIdentity: secretsIdentity,
	})
	if err != nil {
		return fmt.Errorf("list managed Secrets: %w", err)
	}
	var left []string
	for i := range managed.Items {
		began, completes := completing[managed.Items[i].Labels[secrets.LabelName]]
		if !completes {
			continue
		}
		precedes, err := secrets.PrecedesRotation(&managed.Items[i], began)
		if err != nil {
			return err
		}
		if precedes {
			left = append(left, managed.Items[i].Name)
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("the rotation does not complete while Secrets from before it are left in namespace %s; "+
			"delete them, or remove their finalizers: %s", o.values.Namespace, strings.Join(left, ", "))
	}
	return nil
}

// Secrets that workloads use are kept.
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets,verbs=list,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups="",resources=pods,verbs=list,namespace=garden,roleName=espalier-garden-operator-garden

// secretsInUse returns the names of the Secrets in the namespace of the Garden that Pods, Deployments and StatefulSets use.
func (o *operation) secretsInUse(ctx context.Context) (sets.Set[string], error) {
	used := sets.New[string]()
	for _, list := range []client.ObjectList{&corev1.PodList{}, &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}} {
		if err := o.Client.List(ctx, list, client.InNamespace(o.values.Namespace)); err != nil {
			return nil, fmt.Errorf("list workloads (%T): %w", list, err)
		}
		err := meta.EachListItem(list, func(workload runtime.Object) error {
			if err := references.InjectAnnotations(workload); err != nil {
				return err
			}
			annotated, err := meta.Accessor(workload)
			if err != nil {
				return err
			}
			for key, name := range annotated.GetAnnotations() {
				if kind, isReference := references.KindFromAnnotationKey(key); isReference && kind == references.KindSecret {
					used.Insert(name)
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("find Secrets of workloads: %w", err)
		}
	}
	return used, nil
}

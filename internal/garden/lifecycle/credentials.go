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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/api/references"
	"github.com/espalier-dev/espalier/internal/garden/component/judgement"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/secrets"
	"github.com/espalier-dev/espalier/internal/secrets/config"
	"github.com/espalier-dev/espalier/internal/secrets/manager"
)

// SecretsIdentity is the identity of the manager of the Secrets of a Garden.
const SecretsIdentity = "gardener-operator"

// secretWriters are the field managers that have written Secrets of a Garden: this operator, its earlier releases, and Gardener's operator.
var secretWriters = []string{fieldManager, "espalier-garden-operator", "gardener-operator"}

func (r *Reconciler) secretsManager(
	ctx context.Context, garden *operatorv1alpha1.Garden, clocks *clockFault,
) (*manager.Manager, error) {
	rotated := components.RotatedSecrets()
	m, err := manager.New(ctx, r.Client, r.Clock, r.source(), secrets.Options{
		Namespace: r.Operator.Namespace, Identity: SecretsIdentity,
		RotationTimes: rotated.Times(rotationOf(garden)), Aborted: rotated.Aborted(rotationOf(garden)),
		RenewedAuthorities: rotation.RenewedAuthorities(), Writers: secretWriters, ClockProblem: clocks.problem(),
	})
	if err != nil {
		return nil, fmt.Errorf("create secrets manager: %w", err)
	}
	r.guard(m, garden)
	return m, nil
}

// source returns the source of random numbers, and the time, for new credentials.
func (r *Reconciler) source() config.Source {
	source, now := r.Random, r.Clock.Now()
	if source.Random == nil {
		return config.RandomSource(now)
	}
	source.Now = now
	return source
}

func (r *Reconciler) generateAuthorities(ctx context.Context, s *status, m *manager.Manager, phases rotation.Phases) error {
	for _, authority := range rotation.Authorities {
		if _, err := m.Generate(ctx, authority.Request(phases)); err != nil {
			return err
		}
	}
	if early := m.EarlyAuthorities(); len(early) > 0 {
		r.Recorder.Eventf(s.garden, nil, "Warning", reasonAuthorityNotYetValid, "Reconcile",
			"A clock was ahead when these certificate authorities were issued, and they are not valid yet; rotate them: %s",
			strings.Join(early, ", "))
	}
	return r.reportExpiry(ctx, s, m)
}

// cleanUpSecrets deletes Secrets that are not needed any more. It keeps Secrets of components that the flow does not deploy, except
// temporary Secrets, because a landscape that was taken over still needs them. It keeps Secrets that workloads use until a later
// reconciliation, because the flow does not wait for every component that gets another certificate. There is one exception: it deletes the
// former credentials of a rotation in phase Completing although workloads use them. It fails if a Secret from before such a rotation is
// left afterwards.
func (r *Reconciler) cleanUpSecrets(ctx context.Context, garden *operatorv1alpha1.Garden, m *manager.Manager) error {
	completing := components.RotatedSecrets().CompletingTimes(rotationOf(garden))
	temporary := components.TemporarySecrets()
	inUse := sync.OnceValues(func() (sets.Set[string], error) { return r.secretsInUse(ctx) })
	var unknown error // why it is not known which Secrets are in use
	err := m.Cleanup(ctx, func(logicalName, name string) bool {
		if _, known := m.Get(logicalName, secrets.Current); !known && !slices.Contains(temporary, logicalName) {
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
	err = r.Client.List(ctx, managed, client.InNamespace(r.Operator.Namespace), client.MatchingLabels{
		secrets.LabelManagedBy: secrets.ManagedBy, secrets.LabelManagerIdentity: SecretsIdentity,
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
			"delete them, or remove their finalizers: %s", r.Operator.Namespace, strings.Join(left, ", "))
	}
	return nil
}

// clientProblem returns the reason why the rotation of the certificate authorities must not complete, or "". The reason is that Pods use a
// kubeconfig of the virtual cluster from before the last reconciliation, for example Pods of admission controllers of Extensions. No other
// check waits until these Pods are replaced.
func (r *Reconciler) clientProblem(ctx context.Context, garden *operatorv1alpha1.Garden) (string, error) {
	current := garden.Annotations[operatorv1alpha1.AnnotationGenericTokenKubeconfig]
	if current == "" {
		return "", nil // no Pod has a kubeconfig
	}
	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.InNamespace(r.Operator.Namespace)); err != nil {
		return "", fmt.Errorf("list Pods: %w", err)
	}
	former := judgement.FormerClients(pods.Items, current)
	if len(former) == 0 {
		return "", nil
	}
	names, remedies := []string{}, []string{}
	for i := range former {
		name, remedy := former[i].Name, "wait until the Extensions that they belong to are installed again"
		kind, owner := judgement.OwnerOf(&former[i])
		if owner != "" {
			name += " of " + kind + " " + owner
		}
		if slices.Contains(components.Skippable(), owner) {
			remedy = fmt.Sprintf("if %s does not become healthy, repair it, or add it to espalier.garden.skipComponents in the configuration of "+
				"the operator", owner)
		}
		names = append(names, name)
		if !slices.Contains(remedies, remedy) {
			remedies = append(remedies, remedy)
		}
	}
	return "Pods do not have Secret " + current + " with the new authorities yet: " + strings.Join(names, ", ") + "; " +
		strings.Join(remedies, "; "), nil
}

// Secrets that workloads use are kept.
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets,verbs=list,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups="",resources=pods,verbs=list,namespace=garden,roleName=espalier-garden-operator-garden

// secretsInUse returns the names of the Secrets in the namespace of the Garden that Pods, Deployments and StatefulSets use.
func (r *Reconciler) secretsInUse(ctx context.Context) (sets.Set[string], error) {
	used := sets.New[string]()
	for _, list := range []client.ObjectList{&corev1.PodList{}, &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}} {
		if err := r.Client.List(ctx, list, client.InNamespace(r.Operator.Namespace)); err != nil {
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

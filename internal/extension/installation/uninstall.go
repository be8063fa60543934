package installation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/extension/conditions"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// errWaiting means that an object still exists whose deletion is requested.
var errWaiting = errors.New("deletion is pending")

// errLeft is errWaiting for objects that the program does not watch. They are read again after leftPause.
var errLeft = fmt.Errorf("%w: these objects still exist", errWaiting)

const leftPause = 5 * time.Second

// uninstall deletes the objects of an installation in this order: the ManagedResource, with the objects of the chart; the Secrets of the
// ManagedResource; the namespace, with the Secrets for access to the garden; the ServiceAccount in the garden. The ServiceAccount comes
// last, because token-controllers would create it again while the Secrets for access exist. At the end, uninstall reads live that these
// objects are gone from both clusters. A ManagedResource or namespace of the same name that does not belong to the installation stays, and
// fails the deletion.
func (r *Reconciler) uninstall(ctx context.Context, ci *corev1beta1.ControllerInstallation) ([]conditions.Verdict, error) {
	if !controllerutil.ContainsFinalizer(ci, corev1beta1.FinalizerControllerInstallation) {
		return nil, nil
	}
	if _, err := r.readSeed(ctx); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context, *corev1beta1.ControllerInstallation) error{
		r.deleteSet, r.deleteNamespace, r.deleteAccount, r.proveGone,
	} {
		err := step(ctx, ci)
		switch {
		case errors.Is(err, errWaiting):
			return nil, uninstallable(reasonDeletionPending, err)
		case err != nil:
			return nil, uninstallable(reasonDeletionFailed, err)
		}
	}
	return []conditions.Verdict{installed(reasonDeleted, "Deletion of old resources succeeded.")}, nil
}

// deleteSet deletes the ManagedResource, waits until the objects of the chart are gone, and then deletes its Secrets.
func (r *Reconciler) deleteSet(ctx context.Context, ci *corev1beta1.ControllerInstallation) error {
	set := rollout.Identity(rollout.ManagedResource, GardenNamespace, ci.Name)
	exists, err := r.cluster(ci).Delete(ctx, set, r.cluster(ci).IsOurs)
	if err != nil {
		return fmt.Errorf("delete ManagedResource: %w", err)
	}
	if exists {
		return r.waitForSet(ctx, ci)
	}
	secrets, err := r.setSecrets(ctx, ci)
	if err != nil {
		return err
	}
	for _, name := range secrets {
		if err := r.deleteSecret(ctx, GardenNamespace, name); err != nil {
			return err
		}
	}
	return nil
}

// waitForSet returns an error: the deletion of the ManagedResource is pending. The error also contains the objects that the deletion waits
// for. waitForSet never returns nil: only the next attempt finds that the ManagedResource is gone.
func (r *Reconciler) waitForSet(ctx context.Context, ci *corev1beta1.ControllerInstallation) error {
	live, err := rollout.Find(ctx, r.Seed, GardenNamespace, ci.Name, &resourcesv1alpha1.ManagedResource{})
	if err != nil {
		return err
	}
	message := fmt.Sprintf("Deletion of ManagedResource %q is still pending.", ci.Name)
	if live == nil {
		return fmt.Errorf("%w: %s", errWaiting, message)
	}
	applied := corev1beta1.GetCondition(live.Status.Conditions, resourcesv1alpha1.ResourcesApplied)
	if applied != nil && applied.Reason == resourcesv1alpha1.ConditionDeletionPending {
		message += " " + applied.Message
	}
	return fmt.Errorf("%w: %s", errWaiting, message)
}

// setSecrets returns the names of the Secrets with the contents of the ManagedResource. It does not return Secrets that gardenlet created,
// because they do not have the label of the installation. The garbage collector deletes them.
func (r *Reconciler) setSecrets(ctx context.Context, ci *corev1beta1.ControllerInstallation) ([]string, error) {
	secrets, err := r.secrets(ctx, GardenNamespace)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range secrets {
		if r.cluster(ci).IsOurs(&secrets[i]) {
			names = append(names, secrets[i].Name)
		}
	}
	return names, nil
}

// deleteNamespace deletes the namespace of the installation, and waits until it is gone.
func (r *Reconciler) deleteNamespace(ctx context.Context, ci *corev1beta1.ControllerInstallation) error {
	name := namespaceOf(ci.Name)
	live, err := r.metadata(ctx, corev1.SchemeGroupVersion.WithKind("Namespace"), "", name)
	if err != nil || live == nil || !isOurNamespace(live, ci.Spec.RegistrationRef.Name) {
		return err
	}
	if live.DeletionTimestamp == nil {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := r.Seed.Delete(ctx, namespace, client.Preconditions{UID: &live.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Namespace %s: %w", name, err)
		}
	}
	return fmt.Errorf("%w: Namespace %q still exists", errWaiting, name)
}

// remains reads the ManagedResource and the namespace with the names of the installation. The result left lists the objects that exist and
// belong to the installation. The result foreign lists the objects that exist and belong to other programs.
func (r *Reconciler) remains(ctx context.Context, ci *corev1beta1.ControllerInstallation) (left, foreign []string, err error) {
	set, err := r.metadata(ctx, rollout.ManagedResource, GardenNamespace, ci.Name)
	if err != nil {
		return nil, nil, err
	}
	namespace, err := r.metadata(ctx, corev1.SchemeGroupVersion.WithKind("Namespace"), "", namespaceOf(ci.Name))
	if err != nil {
		return nil, nil, err
	}
	sort := func(name string, isOurs bool) {
		if isOurs {
			left = append(left, name)
		} else {
			foreign = append(foreign, name)
		}
	}
	if set != nil {
		sort("ManagedResource "+GardenNamespace+"/"+ci.Name, r.cluster(ci).IsOurs(set))
	}
	if namespace != nil {
		sort("Namespace "+namespace.Name, isOurNamespace(namespace, ci.Spec.RegistrationRef.Name))
	}
	return left, foreign, nil
}

// proveGone returns an error that names the objects with the names of the installation that still exist in one of the clusters. An object
// that does not belong to the installation is an error, too: it may be left from the installation, without the labels that would prove it.
func (r *Reconciler) proveGone(ctx context.Context, ci *corev1beta1.ControllerInstallation) error {
	left, foreign, err := r.remains(ctx, ci)
	if err != nil {
		return err
	}
	secrets, err := r.setSecrets(ctx, ci)
	if err != nil {
		return err
	}
	for _, name := range secrets {
		left = append(left, "Secret "+name)
	}
	account, err := r.account(ctx, ci)
	if err != nil {
		return err
	}
	if account != nil {
		left = append(left, "ServiceAccount "+account.Namespace+"/"+account.Name+" in the garden")
	}
	if len(foreign) > 0 {
		return fmt.Errorf("%s exists, and does not belong to this installation; delete it if nothing else needs it, or remove the finalizer "+
			"of the ControllerInstallation", strings.Join(foreign, ", "))
	}
	if len(left) > 0 {
		return fmt.Errorf("%w: %s", errLeft, strings.Join(left, ", "))
	}
	return nil
}

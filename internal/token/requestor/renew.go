package requestor

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/token/kubeconfig"
)

// renew writes a new token to the Secret that must contain it. It does all possible checks before it requests a token.
func (r *Reconciler) renew(ctx context.Context, w *work) (issued, error) {
	configured := r.instance(ctx)
	wanted, err := configured.accountOf(w.secret.Annotations, w.key.Namespace)
	if err != nil {
		return issued{}, err
	}
	of := order{account: wanted.NamespacedName}
	of.uid, err = r.ensureAccount(ctx, wanted, early(w.secret.Annotations) == reasonFirst)
	if err != nil {
		return issued{}, err
	}
	if of.lifetime, err = lifetimeOf(w.secret.Annotations); err != nil {
		return issued{}, err
	}
	if of.audiences, err = configured.audiencesOf(w.secret.Annotations); err != nil {
		return issued{}, err
	}
	content, err := r.holderContent(ctx, w)
	if err != nil {
		return issued{}, err
	}
	config, err := prepared(content, w.ca)
	if err != nil {
		return issued{}, w.holder().fault(fmt.Errorf("could not update Secret with token: %w", err))
	}
	token, err := r.token(ctx, w.key, of)
	if err != nil {
		return issued{}, err
	}
	token.ca = w.ca
	if err := r.write(ctx, w, config, token); err != nil {
		return token, err
	}
	if config != nil && len(config.Removed()) > 0 {
		r.Events.fieldsRemoved(w.secret, config.Removed())
	}
	return token, nil
}

// ensureAccount creates or corrects a ServiceAccount and returns its UID. For the first token of a Secret it begins with the creation,
// because the ServiceAccount most likely does not exist.
func (r *Reconciler) ensureAccount(ctx context.Context, wanted account, first bool) (types.UID, error) {
	if first {
		uid, err := r.createAccount(ctx, wanted)
		if !apierrors.IsAlreadyExists(err) {
			return uid, err
		}
	}
	have := &corev1.ServiceAccount{}
	err := r.TargetAccounts.Get(ctx, wanted.NamespacedName, have)
	if apierrors.IsNotFound(err) {
		return r.createAccount(ctx, wanted)
	}
	if err != nil {
		return "", aboutAccount("read", wanted.NamespacedName, err)
	}
	if have.DeletionTimestamp != nil {
		return "", fmt.Errorf("request token of ServiceAccount %s: it is being deleted, and its tokens would be worthless; wait for its "+
			"finalizers %q, or remove them", wanted.NamespacedName, have.Finalizers)
	}
	desired, changed := desiredAccount(have, wanted)
	if !changed {
		return have.UID, nil
	}
	if err := r.Target.Update(ctx, desired); err != nil {
		return "", aboutAccount("update", wanted.NamespacedName, err)
	}
	return have.UID, nil
}

func (r *Reconciler) createAccount(ctx context.Context, wanted account) (types.UID, error) {
	object := newAccount(wanted)
	if err := r.Target.Create(ctx, object); err != nil {
		return "", aboutAccount("create", wanted.NamespacedName, err)
	}
	return object.UID, nil
}

// holderContent returns the kubeconfig into which the token is to be written, nil if the Secret has no kubeconfig. It reads the target
// Secret, or the Secret of the source if that has a kubeconfig, from the API server: no cache has the contents of these Secrets. It fails
// if the token could not be written into the Secret.
func (r *Reconciler) holderContent(ctx context.Context, w *work) ([]byte, error) {
	if w.target != nil && !w.targetRead {
		if err := r.readTarget(ctx, w); err != nil {
			return nil, aboutWriting(nil, fmt.Errorf("read target Secret %s: %w", w.target, err))
		}
	}
	if w.isItsOwnTarget() {
		return nil, ownTarget()
	}
	if err := writable(w.holder()); err != nil {
		return nil, err
	}
	if w.target != nil {
		return kubeconfigOf(w.targetSecret), nil
	}
	if !w.held.Kubeconfig {
		return nil, nil
	}
	live := &corev1.Secret{}
	if err := r.Source.Get(ctx, w.key, live); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, errBehind
		}
		return nil, fmt.Errorf("read Secret: %w", err)
	}
	if live.ResourceVersion != w.secret.ResourceVersion {
		return nil, errBehind
	}
	return kubeconfigOf(live), nil
}

// kubeconfigOf returns the kubeconfig of a Secret. It returns nil only if the key does not exist.
func kubeconfigOf(secret *corev1.Secret) []byte {
	if secret == nil {
		return nil
	}
	content, found := secret.Data[resourcesv1alpha1.DataKeyKubeconfig]
	if found && content == nil {
		return []byte{}
	}
	return content
}

// token returns a token that was recently issued for the same order and could not be written, or else requests a new one.
func (r *Reconciler) token(ctx context.Context, secret types.NamespacedName, of order) (issued, error) {
	if kept := r.Memory.kept(secret, of, r.Clock.Now()); kept != nil {
		return *kept, nil
	}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: of.audiences, ExpirationSeconds: new(int64(of.lifetime / time.Second))},
	}
	subject := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: of.account.Namespace, Name: of.account.Name}}
	err := r.Target.SubResource("token").Create(ctx, subject, request)
	r.Metrics.requested(err)
	if err != nil {
		return issued{}, aboutToken(of.account, err)
	}
	now := r.Clock.Now()
	expiry := request.Status.ExpirationTimestamp.Time
	if expiry.Sub(now) < leastRemaining {
		return issued{}, alreadyExpired(of)
	}
	renewAt := now.Add(renewAfter(expiry.Sub(now), r.Spread.Next()))
	token := issued{token: request.Status.Token, expiry: expiry, renewAt: renewAt.UTC(), at: now}
	r.Memory.keep(secret, token, of)
	return token, nil
}

// write writes a token into its holder, and records the renewal time on the Secret of the source.
func (r *Reconciler) write(ctx context.Context, w *work, config *kubeconfig.Config, token issued) error {
	change, err := changesFor(config, token)
	if err != nil {
		return aboutWriting(nil, err)
	}
	if w.target != nil {
		if err = r.writeTarget(ctx, w, change); err != nil {
			return aboutWriting(w.target, err)
		}
		change = emptied()
	}
	patch, err := patchFor(w.secret.ResourceVersion, token.renewAt, change)
	if err != nil {
		return err
	}
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: w.secret.Namespace, Name: w.secret.Name}}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err = r.Source.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) {
		return errBehind // the Secret was deleted
	}
	if err != nil {
		return aboutWriting(nil, err)
	}
	r.Memory.wrote(w.key, w.secret.ResourceVersion, token.expiry)
	return nil
}

func (r *Reconciler) writeTarget(ctx context.Context, w *work, change changes) error {
	if w.targetSecret == nil {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.target.Namespace, Name: w.target.Name}, Type: corev1.SecretTypeOpaque}
		change.applyTo(secret)
		return r.Target.Create(ctx, secret)
	}
	secret := w.targetSecret.DeepCopy()
	change.applyTo(secret)
	return r.Target.Update(ctx, secret)
}

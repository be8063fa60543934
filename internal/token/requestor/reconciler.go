// Package requestor keeps short-lived ServiceAccount tokens of the target cluster in Secrets of the source cluster, for programs that run
// in the source and use the API server of the target.
//
// It watches Secrets of the source that have the label resources.gardener.cloud/purpose: token-requestor; the API server sends no other
// Secrets. It stores only a digest of their contents (see package digest). The digest shows whether a token exists and when it expires. So
// an unchanged Secret costs no request, and a restart costs one list. If the token is in a target Secret, each check also reads the target
// Secret. In the target, the requestor reads and writes the ServiceAccount, requests the token, and reads and writes the target Secret if
// there is one, all without a cache. Then it patches the Secret of the source.
//
// If the process dies after a token was issued and before the token was written, the token is lost, and the next process requests another
// token. If the process dies between the writes to target and source, the next process renews the token in the target once more.
package requestor

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/token/digest"
)

// To find and watch Secrets that want a token by their label, to read them live if they contain a kubeconfig, and to patch them.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;patch,roleName=espalier-token-controllers-source
// To send Events about them.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,roleName=espalier-token-controllers-source
// To create ServiceAccounts, and to correct them if they mount their token or have other labels.
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;create;update,roleName=espalier-token-controllers-target
// To request their tokens.
// +kubebuilder:rbac:groups="",resources=serviceaccounts/token,verbs=create,roleName=espalier-token-controllers-target
// To write tokens into target Secrets.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;update,roleName=espalier-token-controllers-target

// errBehind means that the cache does not contain the latest version of a Secret yet. The event for that version will follow.
var errBehind = errors.New("the cache is behind")

// Reconciler keeps the tokens in Secrets valid. Each call of Reconcile handles one Secret. Its fields are set once, before start.
type Reconciler struct {
	// Secrets reads digests of Secrets of the source from the cache; see SourceCache.
	Secrets client.Reader
	// Source reads and patches Secrets live.
	Source client.Client
	// Target writes ServiceAccounts, and reads and writes target Secrets live.
	Target client.Client
	// TargetAccounts reads ServiceAccounts live: each is read only when its token is renewed, which does not justify a watch.
	TargetAccounts client.Reader
	// CA returns the certificate authority of the target in PEM.
	CA     func() ([]byte, error)
	Clock  clock.WithTicker
	Spread *Spread
	// Memory is shared with Metrics.
	Memory  *Memory
	Events  *Events
	Metrics *Metrics

	// Limits define the tokens that Secrets may ask for.
	Limits Limits
	// Own are the settings of the requestor. Limits combine some of them with the namespaces of the connections.
	Own config.EspalierToken
	// SameCluster reports whether source and target are one cluster. It returns an error if the process does not know this yet; until then,
	// the limits for one cluster apply.
	SameCluster func(context.Context) (bool, error)
}

// Reconcile implements reconcile.Reconciler. A failure that only an edit of the Secret can fix is a terminal error, because the edit
// triggers an event. All other failures cause a retry, for example a target Secret that cannot be written.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	secret := &corev1.Secret{}
	err := r.Secrets.Get(ctx, request.NamespacedName, secret)
	if apierrors.IsNotFound(err) {
		r.Memory.forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read Secret: %w", err)
	}
	if r.Memory.outdated(request.NamespacedName, secret.ResourceVersion) {
		return ctrl.Result{}, nil // the event for our write has not arrived
	}
	held, err := digest.Read(secret)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read Secret: %w", err)
	}
	result, err := r.keepFresh(ctx, secret, held)
	switch {
	case errors.Is(err, errBehind):
		return ctrl.Result{}, nil
	case errors.Is(ctx.Err(), context.Canceled):
		return ctrl.Result{}, err // the process is stopping; the next process reports the error
	}
	return r.conclude(secret, held, result, err)
}

// conclude reports a failure, and the end of a failure, once.
func (r *Reconciler) conclude(secret *corev1.Secret, held digest.Digest, result ctrl.Result, err error) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(secret)
	r.Memory.tidy(key, err != nil && !isMistake(err), r.Clock.Now())
	if err == nil {
		if r.Memory.news(key, "") {
			r.Events.recovered(secret)
		}
		return result, nil
	}
	r.Metrics.failed(err)
	err = &bounded{err, excerpt.Of(err.Error(), maxNote)}
	if kindOf(err) == kindConflict {
		return ctrl.Result{}, err // a write conflict: another client was faster; a retry follows, without a report
	}
	if r.Memory.news(key, err.Error()) {
		r.Events.failed(secret, held.Token || hasTarget(secret.Annotations) && early(secret.Annotations) != reasonFirst, err.Error())
	}
	if isMistake(err) {
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	priority := urgency(r.Clock.Now(), secret.Annotations, held)
	return ctrl.Result{Priority: &priority}, err
}

// work is the state of the reconciliation of one Secret.
type work struct {
	secret *corev1.Secret // from the cache, with a digest instead of contents
	key    types.NamespacedName
	held   digest.Digest
	// target is the Secret that receives the token; nil if the token is written into the Secret itself.
	target *types.NamespacedName
	// targetSecret is the target Secret as it was read; nil if it does not exist or was not read yet.
	targetSecret *corev1.Secret
	targetRead   bool
	ca           []byte // nil if the Secret does not ask for it
}

// keepFresh requests and writes a token if the rules require it, and returns when to check again.
func (r *Reconciler) keepFresh(ctx context.Context, secret *corev1.Secret, held digest.Digest) (ctrl.Result, error) {
	w := &work{secret: secret, key: client.ObjectKeyFromObject(secret), held: held}
	var err error
	if w.target, err = r.instance(ctx).targetOf(secret); err != nil {
		return ctrl.Result{}, err
	}
	if w.ca, err = r.wantedCA(secret.Annotations); err != nil {
		return ctrl.Result{}, err
	}
	if w.target != nil && early(secret.Annotations) == "" {
		if err = r.readTarget(ctx, w); err != nil {
			return ctrl.Result{}, fmt.Errorf("could not read target secret: %w", err)
		}
	}
	if w.isItsOwnTarget() {
		return ctrl.Result{}, ownTarget()
	}
	r.Memory.looked(w.key, w.holder().digest.Token, expiryOf(secret.Annotations, w.holder().digest))
	now := r.Clock.Now()
	decided, err := decide(facts{now: now, annotations: secret.Annotations, ca: digest.Hash(w.ca), holder: w.holder()})
	if err != nil {
		return ctrl.Result{}, err
	}
	due := priorityDue
	if decided.reason == "" {
		return ctrl.Result{RequeueAfter: decided.wait, Priority: &due}, nil
	}
	token, err := r.renew(ctx, w)
	if err != nil {
		return ctrl.Result{}, err
	}
	log.FromContext(ctx).Info("Wrote a new token", "reason", decided.reason, "expires", token.expiry, "renewal", token.renewAt)
	return ctrl.Result{RequeueAfter: token.renewAt.Sub(r.Clock.Now()), Priority: &due}, nil
}

// holder returns the Secret that must contain the token, with the contents that are read so far.
func (w *work) holder() holder {
	switch {
	case w.target == nil:
		return holder{found: true, digest: w.held}
	case w.targetSecret == nil:
		return holder{remote: true}
	}
	return holder{found: true, digest: digest.Of(w.targetSecret), remote: true}
}

// isItsOwnTarget reports whether the target Secret and the Secret of the source are the same object. This can happen if source and target
// are one cluster and the process does not notice it, for example because the cluster has two addresses.
func (w *work) isItsOwnTarget() bool {
	return w.targetSecret != nil && w.targetSecret.UID == w.secret.UID
}

func (r *Reconciler) wantedCA(annotations map[string]string) ([]byte, error) {
	inject, err := injectsCA(annotations)
	if err != nil || !inject {
		return nil, err
	}
	ca, err := r.CA()
	if err != nil {
		return nil, fmt.Errorf("read certificate authority of target: %w", err)
	}
	if len(ca) == 0 {
		return nil, fmt.Errorf("annotation %q asks for the certificate authority of the target, but the kubeconfig of the target connection "+
			"has none, or names an empty file: add it there, or remove the annotation", resourcesv1alpha1.ServiceAccountInjectCABundle)
	}
	return ca, nil
}

// readTarget reads the target Secret live: it carries no label by which it could be watched.
func (r *Reconciler) readTarget(ctx context.Context, w *work) error {
	secret := &corev1.Secret{}
	err := r.Target.Get(ctx, *w.target, secret)
	switch {
	case apierrors.IsNotFound(err):
		w.targetSecret = nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w%s", err, bindRole)
	case err != nil:
		return err
	default:
		w.targetSecret = secret
	}
	w.targetRead = true
	return nil
}

func (r *Reconciler) instance(ctx context.Context) instance {
	same, err := r.SameCluster(ctx)
	return instance{Limits: r.Limits, own: r.Own, same: same, unknown: err}
}

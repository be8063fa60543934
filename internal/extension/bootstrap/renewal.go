package bootstrap

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/reflector"
)

// checkPeriod is the time between two checks of the clock. maxPause is the longest pause after failed renewals.
const (
	checkPeriod = 10 * time.Second
	maxPause    = 5 * time.Minute
)

// Runnables returns the watcher and the renewer, which the process runs with these credentials. The watcher runs in every replica: it
// watches the Secret for itself and for the renewer, and ends the process when the Secret contains other credentials or is deleted, or
// when the certificate expires. The next process reads the Secret again. The renewer runs in the leader: it renews the certificate in
// time, or when an annotation of the Secret requests a renewal.
func (m *Manager) Runnables(current *Credentials) []manager.Runnable {
	s := &observed{key: m.Settings.Kubeconfig, wakeWatcher: make(chan struct{}, 1), wakeRenewer: make(chan struct{}, 1)}
	return []manager.Runnable{
		&watcher{Manager: m, current: current, observed: s}, &renewer{Manager: m, current: current, observed: s},
	}
}

// observed is the Secret with the kubeconfig as the watch shows it.
type observed struct {
	key         types.NamespacedName
	table       reflector.Table[*corev1.Secret]
	isKnown     atomic.Bool
	wakeWatcher chan struct{}
	wakeRenewer chan struct{}
}

// follow watches the Secret until the context ends.
func (s *observed) follow(ctx context.Context, m *Manager) {
	wake := func() {
		s.isKnown.Store(true)
		for _, each := range []chan struct{}{s.wakeWatcher, s.wakeRenewer} {
			select {
			case each <- struct{}{}:
			default: // it is awake
			}
		}
	}
	s.table.Changed = func(types.NamespacedName, **corev1.Secret, **corev1.Secret) { wake() }
	s.table.Listed = func(map[types.NamespacedName]*corev1.Secret) { wake() }
	selection := client.ListOptions{
		Namespace: s.key.Namespace, FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, s.key.Name),
	}
	reflector.Run(ctx, reflector.Options{
		Name: "kubeconfig for the garden cluster", Client: reflector.Objects(m.Watch, &corev1.SecretList{}, selection),
		Connection: m.Watch, Log: m.Log,
	}, func(object client.Object) (*corev1.Secret, bool) {
		secret, isSecret := object.(*corev1.Secret)
		return secret, isSecret
	}, &s.table)
}

// secret returns the Secret, nil if it does not exist; isKnown is false before the first answer of the API server.
func (s *observed) secret() (found *corev1.Secret, isKnown bool) {
	if !s.isKnown.Load() {
		return nil, false
	}
	found, _ = s.table.Get(s.key)
	return found, true
}

// watcher ends the process when the Secret contains other credentials, or when the certificate expires.
type watcher struct {
	*Manager

	current  *Credentials
	observed *observed
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (w *watcher) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (w *watcher) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go w.observed.follow(ctx, w.Manager)
	return w.repeat(ctx, w.observed.wakeWatcher, func(context.Context) error {
		secret, isKnown := w.observed.secret()
		if isKnown && secret == nil {
			return &process.EndError{Reason: fmt.Sprintf("Secret %s was deleted, and the next process requests a new client certificate",
				w.Settings.Kubeconfig)}
		}
		if isKnown && !bytes.Equal(secret.Data[kubeconfigKey], w.current.Kubeconfig) {
			return &process.EndError{Reason: fmt.Sprintf("the kubeconfig in Secret %s has changed, and the next process uses it",
				w.Settings.Kubeconfig)}
		}
		if notAfter := w.current.Certificate.NotAfter; !notAfter.After(w.Clock.Now()) {
			return fmt.Errorf("the client certificate for the garden cluster has expired at %s, and could not be renewed: the next process "+
				"requests another one with the bootstrap kubeconfig", notAfter.UTC().Format(time.RFC3339))
		}
		return nil
	})
}

// renewer renews the certificate.
type renewer struct {
	*Manager

	current  *Credentials
	observed *observed
}

// Start implements manager.Runnable.
func (r *renewer) Start(ctx context.Context) error {
	due := r.Settings.renewalOf(r.current.Certificate, r.Random())
	r.Log.Info("The client certificate will be renewed", "at", due.UTC().Format(time.RFC3339),
		"validUntil", r.current.Certificate.NotAfter.UTC().Format(time.RFC3339))
	pauses := newPauses()
	notBefore, isRenewed := r.Clock.Now(), false
	return r.repeat(ctx, r.observed.wakeRenewer, func(ctx context.Context) error {
		now := r.Clock.Now()
		secret, _ := r.observed.secret()
		// If the content differs or the Secret is gone, the watcher ends this process.
		if isRenewed || now.Before(notBefore) || secret == nil || !bytes.Equal(secret.Data[kubeconfigKey], r.current.Kubeconfig) ||
			now.Before(due) && !isRenewalRequested(secret) {
			return nil
		}
		err := r.Renew(ctx, r.current.Config)
		isRenewed = err == nil // the watch may still show the former content
		if err != nil && ctx.Err() == nil {
			pause := pauses.Step()
			r.Log.Error(err, "Cannot renew the client certificate", "nextAttempt", pause.String())
			notBefore = r.Clock.Now().Add(pause)
		}
		return nil
	})
}

func newPauses() *wait.Backoff {
	return &wait.Backoff{Duration: checkPeriod, Factor: 2, Jitter: 0.1, Steps: 10, Cap: maxPause}
}

// repeat calls a function every checkPeriod, and when it is woken, until the context ends or the function returns an error.
func (m *Manager) repeat(ctx context.Context, wake <-chan struct{}, check func(context.Context) error) error {
	ticker := m.Clock.NewTicker(checkPeriod)
	defer ticker.Stop()
	for {
		if err := check(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-ticker.C():
		}
	}
}

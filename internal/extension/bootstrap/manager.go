package bootstrap

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/process"
)

// To read and watch the credentials for the garden, to store new ones, and to delete the credentials of the bootstrap.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch;delete

// The ConfigMap in the garden cluster with the certificate authority of its API server.
const (
	authorityNamespace = "gardener-system-public"
	authorityName      = "kube-root-ca.crt"
	authorityKey       = "ca.crt"
)

// kubeconfigKey is the key of a kubeconfig in a Secret.
const kubeconfigKey = "kubeconfig"

// Manager gets and renews the client certificate. All fields are required.
type Manager struct {
	Settings Settings
	// Seed reads and writes in the cluster of the Seed, live.
	Seed client.Client
	// Watch is connected to the same cluster, and watches the Secret with the kubeconfig.
	Watch client.WithWatch
	// Connect returns a client of the garden cluster, which reads and writes live. It sends no request.
	Connect func(*rest.Config) (client.Client, error)
	// Check returns an error if the process must not work for the Seed. It reads from the garden cluster, with the credentials that it gets.
	Check func(context.Context, client.Client) error
	// Await repeats a request while the API server does not answer.
	Await func(context.Context, func(context.Context) error) error
	Clock clock.WithTicker
	// Random returns a number that is at least 0 and less than 1.
	Random func() float64
	Log    logr.Logger
}

// Credentials are the credentials of a Secret.
type Credentials struct {
	Config *rest.Config
	// Kubeconfig is the content of the Secret.
	Kubeconfig  []byte
	Certificate *x509.Certificate
}

// Credentials returns the credentials in the Secret. If the Secret does not exist, or if its certificate has expired, Credentials requests
// a certificate with the bootstrap kubeconfig, which may take minutes. Then it deletes the credentials that are no longer needed.
// Credentials calls Check before it requests a certificate, and before it writes or deletes a Secret. If the bootstrap kubeconfig does not
// have the rights for Check, the request for the certificate goes on, and Check is called again with the new certificate.
func (m *Manager) Credentials(ctx context.Context) (*Credentials, error) {
	found, err := m.stored(ctx)
	if err != nil {
		return nil, err
	}
	var first *rest.Config
	if found == nil {
		found, first, err = m.bootstrap(ctx)
	} else if err = m.check(ctx, found.Config); err == nil {
		found, err = m.withAuthority(ctx, found)
	}
	if err != nil {
		return nil, err
	}
	if err := m.cleanUp(ctx, found.Config, first); err != nil {
		m.Log.Error(err, "Cannot delete the credentials of the bootstrap yet; the next start tries again")
	}
	return found, nil
}

// check calls Check with a client for these credentials.
func (m *Manager) check(ctx context.Context, credentials *rest.Config) error {
	garden, err := m.Connect(credentials)
	if err != nil {
		return fmt.Errorf("connect to garden cluster: %w", err)
	}
	return m.Check(ctx, garden)
}

// stored returns the credentials in the Secret; nil if the Secret does not exist, or if its certificate has expired.
func (m *Manager) stored(ctx context.Context) (*Credentials, error) {
	secret, err := m.secret(ctx, m.Settings.Kubeconfig)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", m.Settings.Kubeconfig, err)
	}
	found, err := m.parse(secret.Data[kubeconfigKey])
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig in Secret %s: %w", m.Settings.Kubeconfig, err)
	}
	if !found.Certificate.NotAfter.After(m.Clock.Now()) {
		m.Log.Info("The client certificate has expired", "secret", m.Settings.Kubeconfig.String(), "at", found.Certificate.NotAfter)
		return nil, nil
	}
	return found, nil
}

func (m *Manager) parse(kubeconfig []byte) (*Credentials, error) {
	parsed, err := process.StoredKubeconfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	certificate, err := certificateOf(parsed, m.Settings.Seed)
	return &Credentials{Config: parsed, Kubeconfig: kubeconfig, Certificate: certificate}, err
}

func (m *Manager) secret(ctx context.Context, key client.ObjectKey) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, m.Await(ctx, func(ctx context.Context) error { return m.Seed.Get(ctx, key, secret) })
}

// bootstrap requests a certificate with the bootstrap kubeconfig. The result found contains the certificate, and the result first contains
// the credentials of the bootstrap kubeconfig. If another replica stores a certificate in the meantime, bootstrap returns the credentials
// of that replica, and first is nil: the other replica deletes the credentials of the bootstrap.
func (m *Manager) bootstrap(ctx context.Context) (found *Credentials, first *rest.Config, err error) {
	if m.Settings.Bootstrap == nil {
		return nil, nil, fmt.Errorf("there is no Secret %s with a valid client certificate for the garden cluster: create it, or name a Secret "+
			"in gardenClientConnection.bootstrapKubeconfig", m.Settings.Kubeconfig)
	}
	secret, err := m.secret(ctx, *m.Settings.Bootstrap)
	if apierrors.IsNotFound(err) {
		return nil, nil, fmt.Errorf("there is neither a Secret %s with a valid client certificate for the garden cluster, nor a Secret %s to "+
			"request one: create the second, with the kubeconfig of a bootstrap token", m.Settings.Kubeconfig, m.Settings.Bootstrap)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read Secret %s: %w", m.Settings.Bootstrap, err)
	}
	first, err = process.StoredKubeconfig(secret.Data[kubeconfigKey])
	if err != nil {
		return nil, nil, fmt.Errorf("use the kubeconfig in Secret %s: %w", m.Settings.Bootstrap, err)
	}
	// The user of a bootstrap may usually do nothing but request certificates. Then the new certificate is used for the check.
	if failed := m.check(ctx, first); failed != nil && !apierrors.IsForbidden(failed) {
		return nil, nil, failed
	}
	credentials, err := m.request(ctx, first, m.isStored)
	if err != nil && !errors.Is(err, errStored) {
		return nil, nil, err
	}
	if other, failed := m.stored(ctx); failed != nil || other != nil {
		return other, nil, failed
	}
	if credentials == nil {
		return nil, nil, err // the Secret of the other replica was deleted again
	}
	if failed := m.check(ctx, credentials); failed != nil {
		return nil, nil, failed
	}
	found, err = m.store(ctx, credentials)
	return found, first, err
}

// errStored ends the wait for a certificate, because another replica has stored credentials.
var errStored = errors.New("another replica has stored credentials")

func (m *Manager) isStored(ctx context.Context) error {
	if other, err := m.stored(ctx); err == nil && other != nil {
		return errStored
	}
	return nil
}

// Renew requests another certificate with the current one, and stores it.
func (m *Manager) Renew(ctx context.Context, current *rest.Config) error {
	credentials, err := m.request(ctx, current, func(context.Context) error { return nil })
	if err != nil {
		return err
	}
	_, err = m.store(ctx, credentials)
	return err
}

// withAuthority returns the credentials with the certificate authority that the garden cluster publishes. If this authority differs from
// the authority in the kubeconfig, withAuthority writes the new authority into the Secret. It changes nothing if the API server cannot be
// reached with the published authority, or if the kubeconfig contains no authority.
func (m *Manager) withAuthority(ctx context.Context, found *Credentials) (*Credentials, error) {
	if len(found.Config.CAData) == 0 {
		return found, nil // the authorities of the system are used
	}
	published := m.authority(ctx, found.Config)
	if len(published) == 0 || bytes.Equal(bytes.TrimSpace(published), bytes.TrimSpace(found.Config.CAData)) {
		return found, nil
	}
	changed := rest.CopyConfig(found.Config)
	changed.CAData = published
	kubeconfig, err := kubeconfigOf(changed)
	if err != nil {
		return nil, err
	}
	if _, err := m.parse(kubeconfig); err != nil || !bytes.Equal(m.authority(ctx, changed), published) {
		m.Log.Info("Keeping the certificate authority of the garden cluster, because the published one does not work", "reason", err)
		return found, nil
	}
	m.Log.Info("Updating the certificate authority of the garden cluster", "secret", m.Settings.Kubeconfig.String())
	return m.store(ctx, changed)
}

// authority returns the certificate authority that the garden cluster publishes; nil if it cannot be read.
func (m *Manager) authority(ctx context.Context, with *rest.Config) []byte {
	garden, err := m.Connect(with)
	if err != nil {
		return nil
	}
	published := &corev1.ConfigMap{}
	err = m.Await(ctx, func(ctx context.Context) error {
		return garden.Get(ctx, client.ObjectKey{Namespace: authorityNamespace, Name: authorityName}, published)
	})
	if err != nil {
		m.Log.V(1).Info("Cannot read the certificate authority of the garden cluster", "reason", err.Error())
		return nil
	}
	return []byte(published.Data[authorityKey])
}

// store writes the kubeconfig with these credentials into the Secret, and removes the request for a renewal from the Secret. If another
// replica has created the Secret in the meantime, store returns the credentials of that replica.
func (m *Manager) store(ctx context.Context, credentials *rest.Config) (*Credentials, error) {
	kubeconfig, err := kubeconfigOf(credentials)
	if err != nil {
		return nil, err
	}
	stored, err := m.parse(kubeconfig)
	if err != nil {
		return nil, err
	}
	secret, err := m.secret(ctx, m.Settings.Kubeconfig)
	switch {
	case apierrors.IsNotFound(err):
		err = m.Seed.Create(ctx, newSecret(m.Settings.Kubeconfig, kubeconfig))
		if apierrors.IsAlreadyExists(err) {
			if other, otherErr := m.stored(ctx); otherErr == nil && other != nil {
				return other, nil
			}
		}
	case err == nil:
		err = m.Seed.Patch(ctx, renewed(secret, kubeconfig), client.MergeFromWithOptions(secret, client.MergeFromWithOptimisticLock{}))
	}
	if err != nil {
		return nil, fmt.Errorf("write Secret %s: %w", m.Settings.Kubeconfig, err)
	}
	m.Log.Info("Stored the kubeconfig for the garden cluster", "secret", m.Settings.Kubeconfig.String(),
		"validUntil", stored.Certificate.NotAfter.UTC().Format(time.RFC3339))
	return stored, nil
}

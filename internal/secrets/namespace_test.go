package secrets_test

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/secrets"
	"github.com/espalier-dev/espalier/internal/secrets/config"
)

const identity = "gardener-operator"

var start = time.Date(2026, time.February, 28, 12, 0, 0, 0, time.UTC)

// keyPool holds keys that are generated once, because keys take long.
var keyPool = sync.OnceValues(func() ([]*rsa.PrivateKey, error) {
	pool := make([]*rsa.PrivateKey, 6)
	for i := range pool {
		key, err := rsa.GenerateKey(rand.Reader, 1024)
		if err != nil {
			return nil, err
		}
		pool[i] = key
	}
	return pool, nil
})

// namespace stands for the Secrets of a namespace. Every write fails when writesLeft is 0, as if the process had died.
type namespace struct {
	now        time.Time
	options    secrets.Options
	random     *mathrand.ChaCha8
	keys       int
	secrets    []corev1.Secret
	written    []string
	writesLeft int
}

func newNamespace() *namespace {
	return &namespace{
		now:        start,
		options:    secrets.Options{Namespace: "garden", Identity: identity, RotationTimes: map[string]time.Time{}},
		random:     mathrand.NewChaCha8([32]byte{7}),
		writesLeft: -1,
	}
}

var errDied = errors.New("process died")

func (n *namespace) write(what string) error {
	if n.writesLeft == 0 {
		return errDied
	}
	n.writesLeft--
	n.written = append(n.written, what)
	return nil
}

func (n *namespace) source() config.Source {
	return config.Source{
		Now:    n.now,
		Random: n.random,
		RSAKey: func(int) (*rsa.PrivateKey, error) {
			pool, err := keyPool()
			n.keys++
			if err != nil {
				return nil, err
			}
			return pool[n.keys%len(pool)], nil
		},
		HashPassword: func(string) (string, error) { return "hash", nil },
	}
}

func (n *namespace) labelled(labels map[string]string) []corev1.Secret {
	var found []corev1.Secret
	for _, secret := range n.secrets {
		matches := true
		for key, value := range labels {
			got, exists := secret.Labels[key]
			matches = matches && exists && (value == "" || got == value)
		}
		if matches {
			found = append(found, *secret.DeepCopy())
		}
	}
	return found
}

func (n *namespace) managed() []corev1.Secret {
	return n.labelled(map[string]string{"managed-by": "secrets-manager", "manager-identity": identity})
}

func (n *namespace) inventory() (*secrets.Inventory, error) {
	return secrets.NewInventory(n.options, n.managed(), n.labelled(map[string]string{"secrets-manager-use-data-for-name": ""}), n.now)
}

// request carries out a request and the request of its bundle.
func (n *namespace) request(inventory *secrets.Inventory, request secrets.Request) (*corev1.Secret, error) {
	step, err := inventory.Plan(request, n.source())
	if err != nil {
		return nil, err
	}
	switch {
	case step.Creates():
		if died := n.write("create " + step.Desired.Name); died != nil {
			return nil, died
		}
		if n.find(step.Desired.Name) != nil {
			inventory.Observe(n.find(step.Desired.Name))
			return n.request(inventory, request)
		}
		step.Desired.CreationTimestamp = metav1.NewTime(n.now)
		n.secrets = append(n.secrets, *step.Desired.DeepCopy())
	case step.Patches():
		if died := n.write("patch " + step.Desired.Name); died != nil {
			return nil, died
		}
		*n.find(step.Desired.Name) = *step.Desired.DeepCopy()
	}
	bundle, err := inventory.Record(request, step.Desired, n.now)
	if err != nil || bundle == nil {
		return step.Desired, err
	}
	if _, err := n.request(inventory, *bundle); err != nil {
		return nil, err
	}
	return step.Desired, nil
}

// reconcile carries out all requests in order, with a new inventory, and deletes unneeded Secrets.
func (n *namespace) reconcile(requests ...secrets.Request) (*secrets.Inventory, error) {
	inventory, err := n.inventory()
	if err != nil {
		return nil, err
	}
	for _, request := range requests {
		if _, err := n.request(inventory, request); err != nil {
			return inventory, err
		}
	}
	for _, secret := range inventory.Unneeded(n.managed()) {
		if err := n.write("delete " + secret.Name); err != nil {
			return inventory, err
		}
		n.secrets = slices.DeleteFunc(n.secrets, func(s corev1.Secret) bool { return s.Name == secret.Name })
	}
	return inventory, nil
}

func (n *namespace) mustReconcile(t *testing.T, requests ...secrets.Request) *secrets.Inventory {
	t.Helper()
	n.written = nil
	inventory, err := n.reconcile(requests...)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return inventory
}

func (n *namespace) find(name string) *corev1.Secret {
	for i := range n.secrets {
		if n.secrets[i].Name == name {
			return &n.secrets[i]
		}
	}
	return nil
}

func (n *namespace) names() []string {
	var names []string
	for _, secret := range n.secrets {
		names = append(names, secret.Name)
	}
	slices.Sort(names)
	return names
}

// only returns the single Secret of a logical name.
func (n *namespace) only(t *testing.T, logicalName string) *corev1.Secret {
	t.Helper()
	found := n.labelled(map[string]string{"name": logicalName})
	NewWithT(t).Expect(found).To(HaveLen(1), fmt.Sprint(n.names()))
	return &found[0]
}

func (n *namespace) rotate(names ...string) {
	for _, name := range names {
		n.options.RotationTimes[name] = n.now
	}
}

func get(t *testing.T, inventory *secrets.Inventory, name string, class secrets.Class) *corev1.Secret {
	t.Helper()
	secret, ok := inventory.Get(name, class)
	NewWithT(t).Expect(ok).To(BeTrue(), "%s has no secret of class %d", name, class)
	return secret
}

func certificateRequest(name string, kind config.CertificateType, change func(*secrets.Request)) secrets.Request {
	request := secrets.Request{
		Config: config.Certificate{Name: name, CommonName: name, Type: kind, SkipPublishingCACertificate: kind != config.CA},
	}
	if change != nil {
		change(&request)
	}
	return request
}

func keptAuthority(name string) secrets.Request {
	return certificateRequest(name, config.CA, func(r *secrets.Request) { r.KeepOld = true })
}

func signed(name string, kind config.CertificateType, signer secrets.Signer) secrets.Request {
	return certificateRequest(name, kind, func(r *secrets.Request) { r.SignedBy, r.Signer = "ca", signer })
}

func seconds(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

func labelsOf(secret *corev1.Secret, without ...string) map[string]string {
	labels := maps.Clone(secret.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return slices.Contains(without, key) })
	return labels
}

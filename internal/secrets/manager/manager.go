// Package manager reads and writes the Secrets that internal/secrets decides about.
//
// It lists the managed Secrets and the donors once when it starts, creates and patches Secrets when they are generated, and lists and
// deletes Secrets at the clean-up. A Secret is created in one request with all its labels, and a bundle is written directly after the
// Secret that it contains. If the process dies at any request, the next manager continues with the same names and the same data.
package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/secrets"
	"github.com/espalier-dev/espalier/internal/secrets/config"
)

// maxParallelDeletions bounds the requests of a clean-up that run at the same time.
const maxParallelDeletions = 10

// Manager generates the Secrets of one reconciliation. It is safe for concurrent use.
type Manager struct {
	client  client.Client
	options secrets.Options
	clock   clock.PassiveClock
	source  config.Source

	mu        sync.Mutex // guards inventory; it is held during requests, so that no Secret is generated twice
	inventory *secrets.Inventory
}

// New reads the Secrets of the namespace. The client must read live: a Secret that a cache does not show yet would be generated again,
// which costs a new key, although the Secret that exists is used then. The time of the source is set by the manager.
func New(ctx context.Context, c client.Client, now clock.PassiveClock, source config.Source, options secrets.Options) (*Manager, error) {
	m := &Manager{client: c, clock: now, source: source, options: options}
	observed, err := m.list(ctx, m.managed())
	if err != nil {
		return nil, err
	}
	donors, err := m.list(ctx, client.HasLabels{secrets.LabelUseDataFor})
	if err != nil {
		return nil, err
	}
	m.inventory, err = secrets.NewInventory(options, observed, donors, now.Now())
	return m, err
}

// Generate returns the current Secret of a request. It creates or patches the Secret and its bundle where necessary, and writes nothing if
// both are as requested.
func (m *Manager) Generate(ctx context.Context, request secrets.Request) (*corev1.Secret, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	secret, bundle, err := m.ensure(ctx, request)
	if err == nil && bundle != nil {
		_, _, err = m.ensure(ctx, *bundle)
	}
	if err != nil {
		return nil, fmt.Errorf("generate %s: %w", request.Config.LogicalName(), err)
	}
	return secret, nil
}

// Bundle returns the bundle of a Secret that this manager has generated before, or that Secret if it has no bundle. It sends no request.
func (m *Manager) Bundle(name string) (*corev1.Secret, error) {
	return m.required(name, secrets.BundleOrCurrent)
}

// Current returns a Secret that this manager has generated before. It sends no request.
func (m *Manager) Current(name string) (*corev1.Secret, error) {
	return m.required(name, secrets.Current)
}

func (m *Manager) required(name string, class secrets.Class) (*corev1.Secret, error) {
	secret, found := m.Get(name, class)
	if !found {
		return nil, fmt.Errorf("secret of %s was not generated", name)
	}
	return secret, nil
}

// Get returns a Secret that this manager has generated before. It sends no request.
func (m *Manager) Get(name string, class secrets.Class) (*corev1.Secret, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	secret, found := m.inventory.Get(name, class)
	return secret.DeepCopy(), found
}

// Newest returns the Secret of a logical name that was created last, whether this manager has generated it or an earlier one; nil if there
// is none. It sends no request.
func (m *Manager) Newest(name string) *corev1.Secret {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inventory.Newest(name, "").DeepCopy()
}

// ExpiringAuthorities returns the logical names of certificate authorities that expire soon and that only a rotation replaces.
func (m *Manager) ExpiringAuthorities() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inventory.ExpiringAuthorities()
}

// Cleanup deletes the Secrets of this identity that are not needed for what was generated. It must only be called after all Secrets of the
// reconciliation were generated: without any, it deletes all Secrets of the identity.
func (m *Manager) Cleanup(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	listed, err := m.list(ctx, m.managed())
	if err != nil {
		return err
	}
	unneeded := m.inventory.Unneeded(listed)
	failures := make([]error, len(unneeded))
	slots := make(chan struct{}, maxParallelDeletions)
	var deletions sync.WaitGroup
	for i := range unneeded {
		slots <- struct{}{}
		deletions.Go(func() {
			defer func() { <-slots }()
			uid := unneeded[i].UID
			if err := m.client.Delete(ctx, &unneeded[i], client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
				failures[i] = fmt.Errorf("delete secret %q: %w", unneeded[i].Name, err)
			}
		})
	}
	deletions.Wait()
	return errors.Join(failures...)
}

// ensure carries out the plan of a request, and records the result.
func (m *Manager) ensure(ctx context.Context, request secrets.Request) (*corev1.Secret, *secrets.Request, error) {
	secret, err := m.write(ctx, request)
	if err != nil {
		return nil, nil, err
	}
	bundle, err := m.inventory.Record(request, secret, m.clock.Now())
	return secret, bundle, err
}

func (m *Manager) write(ctx context.Context, request secrets.Request) (*corev1.Secret, error) {
	step, err := m.plan(request)
	if err != nil {
		return nil, err
	}
	if step.Creates() {
		err = m.client.Create(ctx, step.Desired)
		if err == nil {
			return step.Desired, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("create secret %q: %w", step.Desired.Name, err)
		}
		// Another process was faster, or the labels of the Secret had been removed. Its data is used.
		existing := &corev1.Secret{}
		if err = m.client.Get(ctx, client.ObjectKeyFromObject(step.Desired), existing); err != nil {
			return nil, fmt.Errorf("get secret %q: %w", step.Desired.Name, err)
		}
		m.inventory.Observe(existing)
		if step, err = m.plan(request); err != nil {
			return nil, err
		}
	}
	if step.Patches() {
		if err := m.client.Patch(ctx, step.Desired, client.MergeFrom(step.Observed)); err != nil {
			return nil, fmt.Errorf("patch secret %q: %w", step.Observed.Name, err)
		}
	}
	return step.Desired, nil
}

func (m *Manager) plan(request secrets.Request) (secrets.Step, error) {
	source := m.source
	source.Now = m.clock.Now()
	return m.inventory.Plan(request, source)
}

func (m *Manager) managed() client.MatchingLabels {
	return client.MatchingLabels{secrets.LabelManagedBy: secrets.ManagedBy, secrets.LabelManagerIdentity: m.options.Identity}
}

func (m *Manager) list(ctx context.Context, selector client.ListOption) ([]corev1.Secret, error) {
	listed := &corev1.SecretList{}
	if err := m.client.List(ctx, listed, client.InNamespace(m.options.Namespace), selector); err != nil {
		return nil, fmt.Errorf("list secrets in namespace %q: %w", m.options.Namespace, err)
	}
	return listed.Items, nil
}

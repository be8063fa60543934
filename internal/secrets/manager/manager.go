// Package manager reads and writes Secrets; internal/secrets decides which.
//
// A Manager lists the managed Secrets and the donors once, in New. It creates and patches Secrets when they are generated, and lists and
// deletes Secrets at the clean-up. It creates a Secret in one request with all labels, and writes a bundle directly after the Secret whose
// content the bundle contains. If the process dies at any request, the next Manager continues with the same names and the same data.
package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
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

	observe, observeUse Observe // nil if nothing is guarded
	guarded             []string

	mu        sync.Mutex // guards inventory; it is held during requests, so that no Secret is generated twice
	inventory *secrets.Inventory
}

// New reads the Secrets of the namespace. The client must read from the API server: if a cache does not show a Secret yet, the manager
// would generate a new key first, and use the existing Secret only after the API server has refused the new Secret. The manager sets the
// time of the source.
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

// Observe reads the evidence for keys of a logical name, other than the current one.
type Observe func(ctx context.Context, logicalName, current string) (secrets.Evidence, error)

// Guard protects the content of the given logical names. The manager then generates new content only if there is no evidence that old
// content was lost. It returns existing content only if no other content is in use that was lost. The manager calls observeUse for each
// request of such a name, and reads only InUse and Confirmed of the result. It calls observe only if content is missing. Call Guard before
// the first request.
func (m *Manager) Guard(logicalNames []string, observe, observeUse Observe) {
	m.guarded, m.observe, m.observeUse = logicalNames, observe, observeUse
}

// Generate returns the current Secret of a request. It creates or patches the Secret and its bundle where necessary, and writes nothing if
// both are as requested.
func (m *Manager) Generate(ctx context.Context, request secrets.Request) (*corev1.Secret, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	secret, bundle, err := m.ensure(ctx, request)
	if err == nil && bundle != nil {
		err = m.checkBundle(ctx, request, *bundle, secret.Name)
	}
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

// Newest returns the newest Secret of a logical name, nil if there is none. This manager or an earlier manager has generated the Secret.
// The comment of secrets.Inventory.Newest defines the order. Newest sends no request.
func (m *Manager) Newest(name string) *corev1.Secret {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inventory.Newest(name, "").DeepCopy()
}

// Former returns the newest Secret of a logical name from before its last rotation with other data than the current Secret, nil if there is
// none. The manager must have generated the current Secret before. It sends no request.
func (m *Manager) Former(logicalName string) (*corev1.Secret, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	secret, err := m.inventory.Former(logicalName)
	return secret.DeepCopy(), err
}

// Before returns the newest Secret of a logical name from before a rotation; began is the start of the rotation: see secrets.Inventory. It
// sends no request.
func (m *Manager) Before(logicalName string, began time.Time) (*corev1.Secret, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	secret, err := m.inventory.Before(logicalName, began)
	return secret.DeepCopy(), err
}

// Certificates returns the Secret of each signed certificate by its logical name: see secrets.Inventory. It sends no request. The caller
// must not change the Secrets.
func (m *Manager) Certificates() map[string]*corev1.Secret {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inventory.Certificates()
}

// ExpiringAuthorities returns the logical names of certificate authorities that expire soon and that only a rotation replaces.
func (m *Manager) ExpiringAuthorities() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inventory.ExpiringAuthorities()
}

// EarlyAuthorities returns the logical names of certificate authorities that only a rotation replaces and that are not valid yet.
func (m *Manager) EarlyAuthorities() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inventory.EarlyAuthorities()
}

// Cleanup deletes the observed Secrets of this identity that are not the current, old or bundle Secret of a request. Call it only after
// all Secrets of the reconciliation were generated: if no Secret was generated, Cleanup deletes all Secrets of the identity. If the
// argument covers is not nil, Cleanup deletes only Secrets for which covers returns true. It calls covers with the name of the Secret, and
// with the logical name of the Secret or, for a bundle, the logical name of the bundled Secret.
func (m *Manager) Cleanup(ctx context.Context, covers func(logicalName, name string) bool) error {
	listed, err := m.list(ctx, m.managed())
	if err != nil {
		return err
	}
	unneeded := slices.DeleteFunc(m.unneeded(listed), func(secret corev1.Secret) bool {
		return covers != nil && !covers(cmp.Or(secret.Labels[secrets.LabelBundleFor], secret.Labels[secrets.LabelName]), secret.Name)
	})
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

// Renew issues signed certificates again if they expire soon, or if their authority has renewed itself. It needs no requests for these
// certificates. The authorities that renew themselves must have been generated before. The result replaced maps each outdated text in
// objects to the text that must replace it: see secrets.Renewals. Renew deletes nothing, and can be repeated until all objects are
// changed.
func (m *Manager) Renew(ctx context.Context) (replaced map[string]string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	source := m.source
	source.Now = m.clock.Now()
	renewals, err := m.inventory.Renewals(source)
	if err != nil {
		return nil, err
	}
	for _, each := range renewals.Created {
		err = m.client.Create(ctx, each, m.writer())
		if apierrors.IsAlreadyExists(err) {
			// Another process was faster, or the Secret has lost its labels.
			_, err = m.adopted(ctx, each.Labels[secrets.LabelName], each.Name)
		} else if err == nil {
			m.inventory.Observe(each)
		}
		if err != nil {
			return nil, fmt.Errorf("create secret %q: %w", each.Name, err)
		}
	}
	return renewals.Replaced, nil
}

// adopted returns an existing Secret that is used for a logical name. It fails if the Secret is no donor, and nothing shows that the
// operator wrote it.
func (m *Manager) adopted(ctx context.Context, logicalName, name string) (*corev1.Secret, error) {
	existing := &corev1.Secret{}
	if err := m.client.Get(ctx, client.ObjectKey{Namespace: m.options.Namespace, Name: name}, existing); err != nil {
		return nil, fmt.Errorf("get secret %q: %w", name, err)
	}
	return existing, m.inventory.CheckAdoption(logicalName, existing)
}

// Keep copies the observed Secrets of logical names, so that their data stays when the Secrets are deleted. It returns the number of
// copies that it wrote. The argument origin is the value of secrets.LabelKeptFrom. If a copy already exists for the same origin, Keep does
// not change it. So Keep can be repeated until the clean-up that follows is complete.
func (m *Manager) Keep(ctx context.Context, logicalNames []string, origin string) (int, error) {
	m.mu.Lock()
	kept := m.inventory.Kept(logicalNames, origin)
	m.mu.Unlock()
	return m.KeepCopies(ctx, kept)
}

// KeepCopies writes copies that secrets.KeptCopy returned, as Keep does, and returns the number of copies that it wrote.
func (m *Manager) KeepCopies(ctx context.Context, kept []*corev1.Secret) (int, error) {
	written := 0
	for _, each := range kept {
		wrote, err := m.keep(ctx, each)
		if err != nil {
			return written, fmt.Errorf("keep secret %q: %w", each.Name, err)
		}
		if wrote {
			written++
		}
	}
	return written, nil
}

func (m *Manager) keep(ctx context.Context, kept *corev1.Secret) (bool, error) {
	err := m.client.Create(ctx, kept.DeepCopy())
	if !apierrors.IsAlreadyExists(err) {
		return err == nil, err
	}
	existing := &corev1.Secret{}
	err = m.client.Get(ctx, client.ObjectKeyFromObject(kept), existing)
	if err != nil {
		return false, err
	}
	step, err := secrets.PlanKept(existing, kept)
	if err != nil || !step.Patches() {
		return false, err
	}
	return true, m.client.Patch(ctx, step.Desired, client.MergeFrom(step.Observed))
}

func (m *Manager) unneeded(listed []corev1.Secret) []corev1.Secret {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inventory.Unneeded(listed)
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
	if err := m.checkLost(ctx, request); err != nil {
		return nil, err
	}
	step, err := m.plan(request)
	if err != nil {
		return nil, err
	}
	if step.Creates() {
		err = m.client.Create(ctx, step.Desired, m.writer())
		if err == nil {
			return step.Desired, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("create secret %q: %w", step.Desired.Name, err)
		}
		// A Secret with this name exists: another process was faster, or the labels of the Secret had been removed. The data of the existing
		// Secret is used if the operator wrote the Secret, or if the Secret is a donor. Otherwise the request fails.
		existing, err := m.adopted(ctx, request.Config.LogicalName(), step.Desired.Name)
		if err != nil {
			return nil, err
		}
		m.inventory.Observe(existing)
		if step, err = m.plan(request); err != nil {
			return nil, err
		}
	}
	if step.Patches() {
		if err := m.client.Patch(ctx, step.Desired, client.MergeFrom(step.Observed), m.writer()); err != nil {
			return nil, fmt.Errorf("patch secret %q: %w", step.Observed.Name, err)
		}
	}
	return step.Desired, nil
}

// writer is the field manager of all writes: the first of the Writers, if there is any.
func (m *Manager) writer() client.FieldOwner {
	return client.FieldOwner(strings.Join(m.options.Writers[:min(len(m.options.Writers), 1)], ""))
}

// LostError is returned instead of a key or authority that would replace one that was lost.
type LostError struct {
	// Name is the value by which a user confirms the loss. It is the name of the Secret. Before it are the names of the Secrets whose loss
	// was confirmed earlier and must stay confirmed. If Name is empty, a confirmation does not help, and Problem names another remedy.
	Name string
	// Problem is a sentence without a period that names the Secret and the evidence for the old key.
	Problem string
}

func (e *LostError) Error() string { return e.Problem }

// checkLost returns an error in two cases, if the request is guarded. The Secret does not exist and must not be generated, because another
// Secret was lost. Or the Secret exists and must not be used instead of another Secret that was lost.
func (m *Manager) checkLost(ctx context.Context, request secrets.Request) error {
	logicalName := request.Config.LogicalName()
	if !slices.Contains(m.guarded, logicalName) {
		return nil
	}
	present, err := m.inventory.Present(request, m.clock.Now())
	if err != nil {
		return err
	}
	if present != "" {
		return m.checkUsed(ctx, logicalName, present)
	}
	return m.checkMissing(ctx, request)
}

// checkUsed fails if the current Secret of a guarded request, which exists, must not replace one that was lost.
func (m *Manager) checkUsed(ctx context.Context, logicalName, current string) error {
	evidence, err := m.observeUse(ctx, logicalName, current)
	if err != nil {
		return fmt.Errorf("find out whether another secret than %q is in use: %w", current, err)
	}
	lost := evidence.Replaced()
	if lost == nil {
		return nil
	}
	return &LostError{lost.Name, fmt.Sprintf("Secret %s/%s is missing, and Secret %s does not replace it because %s uses it",
		m.options.Namespace, lost.Name, current, lost.User)}
}

// checkMissing fails if the Secret of a guarded request does not exist, and must not be generated. If the Secret exists, but has lost its
// labels, checkUsed decides.
func (m *Manager) checkMissing(ctx context.Context, request secrets.Request) error {
	logicalName := request.Config.LogicalName()
	missing, err := m.inventory.Missing(request, m.clock.Now())
	if missing == "" || err != nil {
		return err
	}
	err = m.client.Get(ctx, client.ObjectKey{Namespace: m.options.Namespace, Name: missing}, &corev1.Secret{})
	if err == nil { // its labels may have been removed
		return m.checkUsed(ctx, logicalName, missing)
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("get secret %q: %w", missing, err)
	}
	evidence, err := m.observe(ctx, logicalName, missing)
	if err != nil {
		return fmt.Errorf("find out whether secret %q was lost: %w", missing, err)
	}
	evidence.Secrets = slices.DeleteFunc(evidence.Secrets, func(each metav1.ObjectMeta) bool { return m.inventory.WasForgotten(each.Name) })
	refusal := evidence.Refusal()
	if refusal == "" {
		return nil
	}
	lost := &LostError{Problem: fmt.Sprintf("Secret %s/%s is missing, and is not generated again because %s",
		m.options.Namespace, missing, refusal)}
	if evidence.Confirmable() {
		lost.Name = missing
	}
	return lost
}

// checkBundle fails if the bundle of a guarded Secret would lose a key or certificate only because the Secret with it was lost.
func (m *Manager) checkBundle(ctx context.Context, request, bundle secrets.Request, current string) error {
	logicalName := request.Config.LogicalName()
	if !slices.Contains(m.guarded, logicalName) {
		return nil
	}
	if missing, err := m.inventory.Missing(bundle, m.clock.Now()); missing == "" || err != nil {
		return err
	}
	evidence, err := m.observeUse(ctx, logicalName, current)
	if err != nil {
		return fmt.Errorf("find out whether the loss of secret %q is confirmed: %w", current, err)
	}
	former, err := m.inventory.Dropped(request, bundle, m.clock.Now())
	if former == "" || err != nil || evidence.Confirmed {
		return err
	}
	confirmed := sets.Set[string]{} // these losses must stay confirmed
	for _, each := range evidence.InUse {
		if each.Confirmed {
			confirmed.Insert(each.Name)
		}
	}
	if evidence, err = m.observeUse(ctx, logicalName, former); err != nil || evidence.Confirmed {
		return err
	}
	return &LostError{strings.Join(append(sets.List(confirmed), former), ", "), fmt.Sprintf("not all former keys or certificates of %s "+
		"that bundle %s/%s has, or had before it was lost, are in the Secret of the last rotation before",
		logicalName, m.options.Namespace, former)}
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

package manager_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/secrets"
	"github.com/espalier-dev/espalier/internal/secrets/config"
	"github.com/espalier-dev/espalier/internal/secrets/manager"
	"github.com/espalier-dev/espalier/test/binary"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

var start = time.Date(2026, time.February, 28, 12, 0, 0, 0, time.UTC)

// keyPool holds keys that are generated once, because keys take long.
var keyPool = sync.OnceValues(func() ([]*rsa.PrivateKey, error) {
	pool := make([]*rsa.PrivateKey, 8)
	for i := range pool {
		key, err := rsa.GenerateKey(rand.Reader, 1024)
		if err != nil {
			return nil, err
		}
		pool[i] = key
	}
	return pool, nil
})

// scene is a namespace on a real API server.
type scene struct {
	*WithT
	t       *testing.T
	client  client.WithWatch
	options secrets.Options
	clock   *clocktesting.FakePassiveClock
	keys    atomic.Int64
}

func newScene(t *testing.T) *scene {
	t.Helper()
	c, err := client.NewWithWatch(binary.Servers(t).Source.Config, client.Options{})
	s := &scene{WithT: NewWithT(t), t: t, client: c, clock: clocktesting.NewFakePassiveClock(start)}
	s.Expect(err).NotTo(HaveOccurred())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "secrets-"}}
	s.Expect(s.client.Create(t.Context(), namespace)).To(Succeed())
	t.Cleanup(func() { _ = s.client.Delete(context.WithoutCancel(t.Context()), namespace) })
	s.options = secrets.Options{
		Namespace: namespace.Name, Identity: "gardener-operator", RotationTimes: map[string]time.Time{}, Writers: []string{"garden-operator"},
	}
	return s
}

func (s *scene) manager(c client.Client) (*manager.Manager, error) {
	source := config.Source{Random: rand.Reader, RSAKey: func(int) (*rsa.PrivateKey, error) {
		pool, err := keyPool()
		if err != nil {
			return nil, err
		}
		return pool[int(s.keys.Add(1))%len(pool)], nil
	}}
	return manager.New(s.t.Context(), c, s.clock, source, s.options)
}

func requests() []secrets.Request {
	return []secrets.Request{
		{Config: config.Certificate{Name: "ca", CommonName: "kubernetes", Type: config.CA}, KeepOld: true},
		{Config: config.Certificate{Name: "server", CommonName: "server", Type: config.Server}, SignedBy: "ca"},
		{Config: config.Certificate{Name: "client", CommonName: "client", Type: config.Client}, SignedBy: "ca"},
		{Config: config.RSAKey{Name: "service-account-key", Bits: 4096}, KeepOld: true, Persist: true},
	}
}

// reconcile generates all secrets with this client, and cleans up.
func (s *scene) reconcile(c client.Client) (*manager.Manager, error) {
	m, err := s.manager(c)
	if err != nil {
		return nil, err
	}
	for _, request := range requests() {
		if _, failure := m.Generate(s.t.Context(), request); failure != nil {
			return nil, failure
		}
	}
	err = m.Cleanup(s.t.Context(), nil)
	return m, err
}

func (s *scene) mustReconcile() *manager.Manager {
	s.t.Helper()
	m, err := s.reconcile(s.client)
	s.Expect(err).NotTo(HaveOccurred())
	return m
}

// rotate starts a rotation of the CA and the key.
func (s *scene) rotate() {
	s.clock.SetTime(s.clock.Now().Add(time.Hour))
	s.options.RotationTimes["ca"], s.options.RotationTimes["service-account-key"] = s.clock.Now(), s.clock.Now()
}

func (s *scene) list(logicalName string) []corev1.Secret {
	s.t.Helper()
	listed := &corev1.SecretList{}
	selected := client.MatchingLabels{"name": logicalName}
	s.Expect(s.client.List(s.t.Context(), listed, client.InNamespace(s.options.Namespace), selected)).To(Succeed())
	return listed.Items
}

func (s *scene) only(logicalName string) *corev1.Secret {
	s.t.Helper()
	listed := s.list(logicalName)
	s.Expect(listed).To(HaveLen(1))
	return &listed[0]
}

var errDied = errors.New("process died")

// wire is a client of a process that dies at its request number cut, before the API server gets it or after it has answered. A negative cut
// never comes.
type wire struct {
	mu         sync.Mutex
	cut        int
	afterwards bool
	requests   []string
}

func (w *wire) request(verb string, send func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut >= 0 && len(w.requests) > w.cut {
		return errDied
	}
	w.requests = append(w.requests, verb)
	dies := len(w.requests) == w.cut+1
	if dies && !w.afterwards {
		return errDied
	}
	if err := send(); err != nil || !dies {
		return err
	}
	return errDied
}

func (w *wire) writes() []string {
	return slices.DeleteFunc(slices.Clone(w.requests), func(verb string) bool { return verb == "list" || verb == "get" })
}

func (w *wire) wrap(c client.WithWatch) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return w.request("get", func() error { return c.Get(ctx, key, o, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			return w.request("list", func() error { return c.List(ctx, l, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return w.request("create", func() error { return c.Create(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return w.request("patch", func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return w.request("delete", func() error { return c.Delete(ctx, o, opts...) })
		},
	})
}

func TestUnchangedSecretsCostThreeListsAndNoWrite(t *testing.T) {
	s := newScene(t)
	s.mustReconcile()
	w := &wire{cut: -1}
	_, err := s.reconcile(w.wrap(s.client))
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(w.requests).To(Equal([]string{"list", "list", "list"}))
}

func TestAManagerThatDiesAtAnyRequestOfARotationLosesNothing(t *testing.T) {
	s := newScene(t)
	s.mustReconcile()
	s.rotate()
	whole := &wire{cut: -1}
	_, err := s.reconcile(whole.wrap(s.client))
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(whole.writes()).To(HaveLen(8), "CA, key and client certificate, two bundles, three deletions")

	for cut, verb := range whole.requests {
		for _, afterwards := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d %s answered %t", cut, verb, afterwards), func(t *testing.T) {
				s := newScene(t)
				s.mustReconcile()
				ca, key := s.only("ca"), s.only("service-account-key")
				s.rotate()
				w := &wire{cut: cut, afterwards: afterwards}
				_, err := s.reconcile(w.wrap(s.client))
				s.Expect(err).To(MatchError(errDied))

				s.clock.SetTime(s.clock.Now().Add(time.Minute))
				m := s.mustReconcile()
				s.Expect(s.list("ca")).To(HaveLen(2))
				s.Expect(s.list("service-account-key")).To(HaveLen(2))
				oldCA, _ := m.Get("ca", secrets.Old)
				oldKey, _ := m.Get("service-account-key", secrets.Old)
				s.Expect([]string{oldCA.Name, oldKey.Name}).To(Equal([]string{ca.Name, key.Name}))
				currentCA, _ := m.Get("ca", secrets.Current)
				currentKey, _ := m.Get("service-account-key", secrets.Current)
				s.Expect(s.only("ca-bundle").Data["bundle.crt"]).To(Equal(slices.Concat(currentCA.Data["ca.crt"], ca.Data["ca.crt"])))
				s.Expect(s.only("service-account-key-bundle").Data["bundle.key"]).To(Equal(
					slices.Concat(currentKey.Data["id_rsa"], key.Data["id_rsa"])))
				s.only("server")
				s.only("client")
			})
		}
	}
}

func TestAManagerThatDiesAtAnyRequestOfTheFirstRunLeavesOneAuthority(t *testing.T) {
	whole := &wire{cut: -1}
	s := newScene(t)
	_, err := s.reconcile(whole.wrap(s.client))
	s.Expect(err).NotTo(HaveOccurred())
	for cut, verb := range whole.requests {
		t.Run(fmt.Sprintf("%d %s", cut, verb), func(t *testing.T) {
			s := newScene(t)
			w := &wire{cut: cut, afterwards: true}
			_, err := s.reconcile(w.wrap(s.client))
			s.Expect(err).To(MatchError(errDied))
			existing := s.list("ca")
			s.mustReconcile()
			ca := s.only("ca")
			for _, before := range existing {
				s.Expect(ca.UID).To(Equal(before.UID))
			}
			s.Expect(s.only("ca-bundle").Data["bundle.crt"]).To(Equal(ca.Data["ca.crt"]))
		})
	}
}

func TestTwoManagersThatCreateTheSameSecretUseTheSameData(t *testing.T) {
	s := newScene(t)
	first, err := s.manager(s.client)
	s.Expect(err).NotTo(HaveOccurred())
	second, err := s.manager(s.client)
	s.Expect(err).NotTo(HaveOccurred())
	created, err := first.Generate(t.Context(), requests()[0])
	s.Expect(err).NotTo(HaveOccurred())
	found, err := second.Generate(t.Context(), requests()[0])
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(found.UID).To(Equal(created.UID))
	s.Expect(found.Data).To(Equal(created.Data))
	s.only("ca-bundle")
}

func TestACollectorStopsAtTheFirstError(t *testing.T) {
	s := newScene(t)
	m, err := s.manager(s.client)
	s.Expect(err).NotTo(HaveOccurred())
	collector := m.Collect()
	authority := collector.Generate(t.Context(), requests()[0])
	s.Expect(collector.Current("ca").Name).To(Equal(authority.Name))
	s.Expect(collector.Bundle("ca").Data).To(HaveKey(config.DataKeyCertificateBundle))
	s.Expect(collector.Err()).NotTo(HaveOccurred())

	s.Expect(collector.Current("other")).To(Equal(&corev1.Secret{}))
	s.Expect(collector.Err()).To(MatchError("secret of other was not generated"))
	s.Expect(collector.Generate(t.Context(), requests()[1])).To(Equal(&corev1.Secret{}))
	s.Expect(collector.Bundle("ca")).To(Equal(&corev1.Secret{}))
	s.Expect(collector.Err()).To(MatchError("secret of other was not generated"))
	s.Expect(s.list("server")).To(BeEmpty())
}

func TestConcurrentCallsOfGenerateCreateOneSecret(t *testing.T) {
	s := newScene(t)
	m, err := s.manager(s.client)
	s.Expect(err).NotTo(HaveOccurred())
	failures := make([]error, 5)
	var calls sync.WaitGroup
	for i := range failures {
		calls.Go(func() { _, failures[i] = m.Generate(t.Context(), requests()[0]) })
	}
	calls.Go(func() { m.Newest("ca"); m.ExpiringAuthorities() }) // the race detector reports a read without the lock
	calls.Wait()
	s.Expect(errors.Join(failures...)).NotTo(HaveOccurred())
	s.only("ca")
	s.Expect(s.keys.Load()).To(BeEquivalentTo(1))
}

func TestRemovedAndForeignLabelsAreCorrected(t *testing.T) {
	s := newScene(t)
	s.mustReconcile()
	want := s.only("ca")
	changed := want.DeepCopy()
	changed.Labels = map[string]string{"foreign": "label"}
	s.Expect(s.client.Update(t.Context(), changed)).To(Succeed())

	s.mustReconcile()
	got := s.only("ca")
	s.Expect(got.UID).To(Equal(want.UID))
	s.Expect(got.Labels).To(Equal(want.Labels))
	s.Expect(got.Data).To(Equal(want.Data))
}

func TestForeignSecretIsNotAdopted(t *testing.T) {
	s := newScene(t)
	s.mustReconcile()
	foreign := s.only("ca")
	s.Expect(s.client.Delete(t.Context(), foreign)).To(Succeed())
	foreign.ObjectMeta = metav1.ObjectMeta{Namespace: foreign.Namespace, Name: foreign.Name}
	s.Expect(s.client.Create(t.Context(), foreign)).To(Succeed())
	_, err := s.reconcile(s.client)
	s.Expect(err).To(MatchError(ContainSubstring(fmt.Sprintf("secret %q exists, and ", foreign.Name))))
	left := &corev1.Secret{}
	s.Expect(s.client.Get(t.Context(), client.ObjectKeyFromObject(foreign), left)).To(Succeed())
	s.Expect(left.Labels).To(BeEmpty())

	metav1.SetMetaDataLabel(&left.ObjectMeta, "secrets-manager-use-data-for-name", "ca")
	s.Expect(s.client.Update(t.Context(), left)).To(Succeed())
	s.mustReconcile()
	s.Expect(s.only("ca").UID).To(Equal(left.UID))
}

func TestForeignSecretIsNoRenewedCertificate(t *testing.T) {
	s := newScene(t)
	s.mustReconcile()
	first := s.only("server")
	s.clock.SetTime(s.clock.Now().AddDate(9, 0, 0)) // certificates are valid for ten years
	renew := func() (map[string]string, error) {
		t.Helper()
		m, err := s.manager(s.client)
		s.Expect(err).NotTo(HaveOccurred())
		replaced, err := m.Renew(t.Context())
		if err == nil {
			s.Expect(m.Certificates()).To(HaveKeyWithValue("server", HaveField("Name", replaced[first.Name])))
		}
		return replaced, err
	}
	replaced, err := renew()
	s.Expect(err).NotTo(HaveOccurred())
	next := &corev1.Secret{}
	key := client.ObjectKey{Namespace: first.Namespace, Name: replaced[first.Name]}
	s.Expect(s.client.Get(t.Context(), key, next)).To(Succeed())
	s.Expect(next.ManagedFields).To(ContainElement(HaveField("Manager", "garden-operator")), "its labels can be restored")

	s.Expect(s.client.Delete(t.Context(), next)).To(Succeed())
	next.ObjectMeta = metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	s.Expect(s.client.Create(t.Context(), next)).To(Succeed())
	_, err = renew()
	s.Expect(err).To(MatchError(ContainSubstring(fmt.Sprintf("secret %q exists, and ", key.Name))))
}

func TestCleanupOfANewManagerDeletesAllSecretsOfItsIdentity(t *testing.T) {
	s := newScene(t)
	s.mustReconcile()
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.options.Namespace, Name: "webhook", Labels: map[string]string{
		"name": "ca", "managed-by": "secrets-manager", "manager-identity": "gardener-operator-webhook",
	}}}
	s.Expect(s.client.Create(t.Context(), foreign)).To(Succeed())
	m, err := s.manager(s.client)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(m.Cleanup(t.Context(), nil)).To(Succeed())

	left := &corev1.SecretList{}
	s.Expect(s.client.List(t.Context(), left, client.InNamespace(s.options.Namespace))).To(Succeed())
	s.Expect(left.Items).To(HaveLen(1))
	s.Expect(left.Items[0].UID).To(Equal(foreign.UID))
}

// Another process may create a Secret of the same name after the list.
func TestCleanupDeletesOnlyTheSecretThatItListed(t *testing.T) {
	s := newScene(t)
	s.mustReconcile()
	listed := s.only("service-account-key")
	m, err := s.manager(interceptor.NewClient(s.client, interceptor.Funcs{Delete: func(
		ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption,
	) error {
		s.Expect(s.client.Delete(ctx, listed)).To(Succeed())
		s.Expect(s.client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: listed.Namespace, Name: listed.Name, Labels: listed.Labels,
		}})).To(Succeed())
		return c.Delete(ctx, o, options...)
	}}))
	s.Expect(err).NotTo(HaveOccurred())
	err = m.Cleanup(t.Context(), func(_, name string) bool { return name == listed.Name })
	s.Expect(err).To(MatchError(ContainSubstring("does not match the UID in record")))
	s.Expect(s.only("service-account-key").UID).NotTo(Equal(listed.UID))
}

func TestAManagerThatDiesWhileItKeepsAndDeletesSecretsLosesNone(t *testing.T) {
	names := []string{"ca", "service-account-key"}
	rotated := func(t *testing.T) *scene {
		t.Helper()
		s := newScene(t)
		s.mustReconcile()
		s.rotate()
		s.mustReconcile()
		return s
	}
	remove := func(s *scene, c client.Client) error {
		m, err := s.manager(c)
		if err != nil {
			return err
		}
		if _, err := m.Keep(s.t.Context(), names, "garden"); err != nil {
			return err
		}
		return m.Cleanup(s.t.Context(), nil)
	}
	whole := &wire{cut: -1}
	s := rotated(t)
	s.Expect(remove(s, whole.wrap(s.client))).To(Succeed())
	s.Expect(whole.writes()).To(HaveLen(4+8), "two generations of two kept, and these with two bundles and two certificates deleted")
	for cut, verb := range whole.requests {
		for _, afterwards := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d %s answered %t", cut, verb, afterwards), func(t *testing.T) {
				s := rotated(t)
				want := map[string]map[string][]byte{} // by logical name and generation
				for _, name := range names {
					for _, each := range s.list(name) {
						generation := "earlier"
						if each.Labels["last-rotation-initiation-time"] != "" {
							generation = "current"
						}
						want[name+" "+generation] = each.Data
					}
				}
				s.Expect(remove(s, (&wire{cut: cut, afterwards: afterwards}).wrap(s.client))).To(MatchError(errDied))
				s.Expect(remove(s, s.client)).To(Succeed())

				left := &corev1.SecretList{}
				s.Expect(s.client.List(t.Context(), left, client.InNamespace(s.options.Namespace))).To(Succeed())
				got := map[string]map[string][]byte{}
				for _, each := range left.Items {
					got[each.Labels["espalier.dev/kept-credential"]+" "+each.Labels["espalier.dev/kept-generation"]] = each.Data
				}
				s.Expect(left.Items).To(HaveLen(4))
				s.Expect(got).To(Equal(want))
			})
		}
	}
}

func TestSecretOfAnotherContentIsNeverTakenForAKeptOne(t *testing.T) {
	s := newScene(t)
	s.mustReconcile()
	m, err := s.manager(s.client)
	s.Expect(err).NotTo(HaveOccurred())
	written, err := m.Keep(t.Context(), []string{"ca"}, "first")
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(written).To(Equal(1))
	kept := &corev1.SecretList{}
	selected := client.MatchingLabels{"espalier.dev/kept-from": "first"}
	s.Expect(s.client.List(t.Context(), kept, client.InNamespace(s.options.Namespace), selected)).To(Succeed())
	s.Expect(kept.Items).To(HaveLen(1))
	s.Expect(kept.Items[0].Immutable).To(HaveValue(BeTrue()))
	s.Expect(s.client.Delete(t.Context(), &kept.Items[0])).To(Succeed())
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.options.Namespace, Name: kept.Items[0].Name}}
	s.Expect(s.client.Create(t.Context(), foreign)).To(Succeed())
	_, err = m.Keep(t.Context(), []string{"ca"}, "first")
	s.Expect(err).To(MatchError(ContainSubstring("exists with other data")))
}

func TestDonorIsReadWhenTheManagerStarts(t *testing.T) {
	s := newScene(t)
	donor := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.options.Namespace, Name: "mine", Labels: map[string]string{"secrets-manager-use-data-for-name": "key"},
		},
		Data: map[string][]byte{"key": []byte("key1"), "secret": []byte("0123456789abcdefghijklmnopqrstuv")},
	}
	s.Expect(s.client.Create(t.Context(), donor)).To(Succeed())
	m, err := s.manager(s.client)
	s.Expect(err).NotTo(HaveOccurred())
	secret, err := m.Generate(t.Context(), secrets.Request{Config: config.EncryptionKey{Name: "key", SecretLength: 32}})
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(secret.Data).To(Equal(donor.Data))
}

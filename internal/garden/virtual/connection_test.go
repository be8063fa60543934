package virtual_test

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/virtual"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }

// place is a namespace with kubeconfigs for the API server itself, which plays that of the virtual cluster.
type place struct {
	*WithT
	t          *testing.T
	admin      client.Client
	clock      *clocktesting.FakePassiveClock
	connection *virtual.Connection
	// resolves is whether the host in the runtime cluster has an address.
	resolves bool
	asked    string
}

func newPlace(t *testing.T, namespace string) *place {
	t.Helper()
	admin, err := client.New(binary.Servers(t).Source.Config, client.Options{})
	p := &place{
		WithT: NewWithT(t), t: t, admin: admin, clock: clocktesting.NewFakePassiveClock(time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)),
	}
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(p.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
	p.connection = &virtual.Connection{
		Reader: p.admin, Namespace: namespace, Clock: p.clock, Resolves: func(_ context.Context, host string) bool {
			p.asked = host
			return p.resolves
		},
	}
	return p
}

// kubeconfig returns a kubeconfig with a new token.
func (p *place) kubeconfig() []byte {
	p.t.Helper()
	servers := binary.Servers(p.t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.connection.Namespace, Name: "operator"}}
	p.Expect(client.IgnoreAlreadyExists(p.admin.Create(p.t.Context(), account))).To(Succeed())
	kubeconfig, err := local.ServiceAccountKubeconfig(p.t.Context(), servers.Source.Config, account.Namespace, account.Name, time.Hour)
	p.Expect(err).NotTo(HaveOccurred())
	return kubeconfig
}

func (p *place) store(name string, kubeconfig []byte) {
	p.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.connection.Namespace, Name: name}}
	p.Expect(client.IgnoreNotFound(p.admin.Delete(p.t.Context(), secret.DeepCopy()))).To(Succeed())
	secret.Data = map[string][]byte{"kubeconfig": kubeconfig}
	p.Expect(p.admin.Create(p.t.Context(), secret)).To(Succeed())
}

func (p *place) clients() *virtual.Clients {
	p.t.Helper()
	clients, err := p.connection.Clients(p.t.Context())
	p.Expect(err).NotTo(HaveOccurred())
	return clients
}

func TestConnectionNeedsAToken(t *testing.T) {
	p := newPlace(t, "needs-a-token")
	_, err := p.connection.Clients(t.Context())
	p.Expect(err).To(Satisfy(apierrors.IsNotFound))
	p.store("gardener", []byte("{current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], users: [{name: a}]}"))
	_, err = p.connection.Clients(t.Context())
	p.Expect(err).To(MatchError(virtual.ErrNoToken))
	p.Expect(err).To(MatchError("token for virtual garden kubeconfig was not populated yet (see Secret needs-a-token/gardener)"))
	p.store("gardener", p.kubeconfig())
	body, err := p.clients().REST.Get().AbsPath("/healthz").Do(t.Context()).Raw()
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(string(body)).To(Equal("ok"))
	own := &corev1.Namespace{}
	p.Expect(p.clients().Client.Get(t.Context(), client.ObjectKey{Name: "needs-a-token"}, own)).To(Satisfy(apierrors.IsForbidden))
}

func TestClientsAreKeptUntilTheKubeconfigChanges(t *testing.T) {
	p := newPlace(t, "kept")
	p.store("gardener", p.kubeconfig())
	first := p.clients()
	p.clock.SetTime(p.clock.Now().Add(time.Hour))
	p.Expect(p.clients()).To(BeIdenticalTo(first), "the kubeconfig is the same")
	p.store("gardener", p.kubeconfig())
	p.clock.SetTime(p.clock.Now().Add(4 * time.Second))
	p.Expect(p.clients()).To(BeIdenticalTo(first), "it was read four seconds ago")
	p.clock.SetTime(p.clock.Now().Add(time.Second))
	second := p.clients()
	p.Expect(second).NotTo(BeIdenticalTo(first))
	p.connection.Forget()
	p.Expect(p.clients()).NotTo(BeIdenticalTo(second))
	p.Expect(p.admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kept", Name: "gardener"}})).To(Succeed())
	p.clock.SetTime(p.clock.Now().Add(time.Hour))
	_, err := p.connection.Clients(t.Context())
	p.Expect(err).To(Satisfy(apierrors.IsNotFound))
}

func TestAddressInTheRuntimeClusterIsPreferred(t *testing.T) {
	p := newPlace(t, "preferred")
	p.store("gardener", p.kubeconfig())
	external := p.clients()
	p.Expect(p.asked).To(Equal("virtual-garden-kube-apiserver.preferred.svc.cluster.local"))
	p.resolves = true
	p.clock.SetTime(p.clock.Now().Add(time.Minute))
	_, err := p.connection.Clients(t.Context())
	p.Expect(err).To(MatchError(ContainSubstring(`secrets "gardener-internal" not found`)))
	p.store("gardener-internal", p.kubeconfig())
	p.Expect(p.clients()).NotTo(BeIdenticalTo(external))
}

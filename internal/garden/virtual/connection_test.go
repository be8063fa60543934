package virtual_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
	"github.com/espalier-dev/espalier/internal/rollout"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }

// place is a namespace with kubeconfigs for the API server itself, which plays the API server of the virtual cluster.
type place struct {
	*WithT
	t          *testing.T
	admin      client.Client
	clock      *clocktesting.FakePassiveClock
	connection *virtual.Connection
	// resolves is true if the host in the runtime cluster has an address.
	resolves bool
	asked    string
}

func newPlace(t *testing.T, namespace string) *place {
	t.Helper()
	scheme := runtime.NewScheme()
	adding := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, operatorv1alpha1.AddToScheme)
	NewWithT(t).Expect(adding.AddToScheme(scheme)).To(Succeed())
	admin, err := client.New(binary.Servers(t).Source.Config, client.Options{Scheme: scheme})
	p := &place{
		WithT: NewWithT(t), t: t, admin: admin, clock: clocktesting.NewFakePassiveClock(time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)),
	}
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(p.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
	if gardens := (&operatorv1alpha1.GardenList{}); p.admin.List(t.Context(), gardens) != nil {
		_, err = binary.Install(t.Context(), p.admin, "deploy/garden-operator/crds/*.yaml")
		p.Expect(err).NotTo(HaveOccurred())
		p.Eventually(func() error { return p.admin.List(t.Context(), gardens) }, binary.Patience).Should(Succeed())
	}
	host := binary.Servers(t).Source.Config.Host
	p.connection = &virtual.Connection{
		Tune:   func(config *rest.Config) { config.Host = host },
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
	return bytes.ReplaceAll(kubeconfig, []byte(servers.Source.Config.Host), []byte(p.server()))
}

// server returns the address of the virtual cluster in the runtime cluster.
func (p *place) server() string {
	return "https://virtual-garden-kube-apiserver." + p.connection.Namespace + ".svc.cluster.local"
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

func TestGroupWhoseServerDoesNotAnswerIsNotGone(t *testing.T) {
	p := newPlace(t, "stale")
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1.stale.example.com"},
		"spec": map[string]any{
			"group": "stale.example.com", "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": "stale", "name": "missing"},
		},
	}}
	p.Expect(p.admin.Create(t.Context(), service)).To(Succeed())
	t.Cleanup(func() { p.Expect(p.admin.Delete(context.WithoutCancel(t.Context()), service)).To(Succeed()) })
	p.store("gardener", p.kubeconfig())
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "stale.example.com", Version: "v1", Kind: "SeedList"})
	p.Eventually(func() bool {
		p.connection.Forget()
		return rollout.IsGone(p.clients().Client.List(t.Context(), list))
	}, binary.Patience).Should(BeFalse())
}

// The token of the operator must not reach another server, and no kubeconfig may read files or run programs.
func TestKubeconfigCannotMisuseTheOperator(t *testing.T) {
	p := newPlace(t, "misuse")
	good := p.kubeconfig()
	var used *rest.Config
	p.connection.Tune = func(config *rest.Config) { used = rest.CopyConfig(config) }
	for sentence, tc := range map[string]struct {
		change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)
		want   string // "" connects
	}{
		"a foreign server": {
			change: func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "https://example.com" },
			want:   "the server in the kubeconfig of Secret misuse/gardener must be one of: " + p.server(),
		},
		"a server without TLS": {
			change: func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
				c.Server = strings.Replace(p.server(), "https", "http", 1)
			},
			want: "must be one of",
		},
		"no authority": {
			change: func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
				c.CertificateAuthorityData, c.InsecureSkipTLSVerify = nil, true
			},
			want: "has no certificate-authority-data",
		},
		"files, a program, another user and a proxy": {
			change: func(c *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
				c.ProxyURL, c.TLSServerName, c.CertificateAuthority = "http://example.com", "example.com", "/etc/hosts"
				u.TokenFile, u.ClientCertificate, u.ClientKey, u.Impersonate = "/etc/hosts", "/etc/hosts", "/etc/hosts", "admin"
				u.Username, u.Password = "a", "b"
				u.Exec = &clientcmdapi.ExecConfig{Command: "/bin/true", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: "Never"}
			},
		},
	} {
		kubeconfig, err := clientcmd.Load(good)
		p.Expect(err).NotTo(HaveOccurred())
		chosen := kubeconfig.Contexts[kubeconfig.CurrentContext]
		cluster, user := kubeconfig.Clusters[chosen.Cluster], kubeconfig.AuthInfos[chosen.AuthInfo]
		token, authority := user.Token, cluster.CertificateAuthorityData
		tc.change(cluster, user)
		content, err := clientcmd.Write(*kubeconfig)
		p.Expect(err).NotTo(HaveOccurred())
		p.store("gardener", content)
		p.connection.Forget()
		_, err = p.connection.Clients(t.Context())
		if tc.want != "" {
			p.Expect(err).To(MatchError(ContainSubstring(tc.want)), sentence)
			continue
		}
		p.Expect(err).NotTo(HaveOccurred(), sentence)
		p.Expect(used).To(BeComparableTo(&rest.Config{
			Host: p.server(), BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: authority},
		}), sentence)
	}
}

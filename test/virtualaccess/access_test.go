// Package virtualaccess_test shows that the example of Gardener's documentation for access to the virtual cluster works word by word.
package virtualaccess_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/managedresource"
	"github.com/espalier-dev/espalier/internal/token"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServers(m)) }

const (
	namespace = "garden"
	// account is the ServiceAccount of the resource manager in the virtual cluster.
	account  = "gardener-resource-manager"
	interval = 100 * time.Millisecond
)

// landscape is a runtime cluster with the resource manager of a virtual cluster, as the operator deploys it.
type landscape struct {
	*WithT
	t                *testing.T
	servers          local.Servers
	runtime, virtual client.Client
}

func newLandscape(t *testing.T) *landscape {
	t.Helper()
	l := &landscape{WithT: NewWithT(t), t: t, servers: binary.Servers(t)}
	l.runtime, l.virtual = l.connect(l.servers.Source.Config), l.connect(l.servers.Target.Config)
	_, err := binary.Install(t.Context(), l.runtime, "deploy/crds/*.yaml", "internal/garden/component/crds/vpa/*.yaml")
	l.Expect(err).NotTo(HaveOccurred())
	l.create(l.runtime, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	v := values.Values{Operator: values.Operator{
		Namespace: namespace, Image: func(binary string) string { return "registry.example.com/" + binary },
	}}
	objects, err := resourcemanager.VirtualObjects(v, resourcemanager.Credentials{Kubeconfig: "kubeconfig"})
	l.Expect(err).NotTo(HaveOccurred())
	l.create(l.runtime, objects...)
	l.create(l.virtual, object.Owner{Namespace: metav1.NamespaceSystem}.ServiceAccount(account))
	l.create(l.virtual, resourcemanager.TargetObjects()...)
	l.awaitRight(l.runtime, namespace, resourcemanager.VirtualName, "managedresources", "resources.gardener.cloud")
	l.awaitRight(l.runtime, namespace, resourcemanager.VirtualTokens, "secrets", "")
	l.awaitRight(l.virtual, metav1.NamespaceSystem, account, "secrets", "")
	l.run(resourcemanager.VirtualName, binary.Binary{
		Name: "managedresource-controller", Needs: managedresource.Needs, Add: managedresource.Add,
	})
	l.run(resourcemanager.VirtualTokens, binary.Binary{Name: "token-controllers", Needs: token.Needs, Add: token.Add})
	return l
}

func (l *landscape) connect(config *rest.Config) client.Client {
	l.t.Helper()
	c, err := client.New(config, client.Options{})
	l.Expect(err).NotTo(HaveOccurred())
	return c
}

func (l *landscape) create(c client.Client, objects ...client.Object) {
	l.t.Helper()
	for _, each := range objects {
		l.Expect(c.Create(l.t.Context(), each)).To(Succeed(), each.GetName())
	}
}

// awaitRight waits until the authorizer of an API server knows that a ServiceAccount may list a resource in the namespace.
func (l *landscape) awaitRight(c client.Client, in, account, resource, group string) {
	l.t.Helper()
	right := &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "list", Group: group, Resource: resource}
	l.Eventually(func() (bool, error) {
		return binary.Allowed(l.t.Context(), c, "system:serviceaccount:"+in+":"+account, right)
	}, binary.Patience, interval).Should(BeTrue())
}

// run runs a binary with the configuration, the ServiceAccounts and the rights that the operator deploys.
func (l *landscape) run(deployment string, b binary.Binary) {
	l.t.Helper()
	deployed := client.ObjectKey{Namespace: namespace, Name: deployment}
	b.RunDeployed(l.t, l.runtime, deployed, func(cfg *config.ResourceManagerConfiguration) {
		cfg.SourceClientConnection.Kubeconfig = l.kubeconfig(l.servers.Source.Config, namespace, deployment)
		cfg.TargetClientConnection.Kubeconfig = l.kubeconfig(l.servers.Target.Config, metav1.NamespaceSystem, account)
	})
}

// kubeconfig returns a file with a kubeconfig of a ServiceAccount.
func (l *landscape) kubeconfig(admin *rest.Config, namespace, account string) string {
	l.t.Helper()
	content, err := local.ServiceAccountKubeconfig(l.t.Context(), admin, namespace, account, time.Hour)
	l.Expect(err).NotTo(HaveOccurred())
	return binary.WriteKubeconfig(l.t, content)
}

// The objects of the example have no class; the objects of Gardener's own components have one.
func TestUserOfTheExampleIsClusterAdminOfTheVirtualCluster(t *testing.T) {
	l := newLandscape(t)
	root, err := local.RepositoryRoot()
	l.Expect(err).NotTo(HaveOccurred())
	example, err := local.ReadManifests(filepath.Join(root, "examples", "virtual-garden-access.yaml"))
	l.Expect(err).NotTo(HaveOccurred())
	l.Expect(example).To(HaveLen(3))
	for _, each := range example {
		l.create(l.runtime, each)
	}
	secret := &corev1.Secret{}
	l.Eventually(func() (map[string][]byte, error) {
		key := client.ObjectKey{Namespace: namespace, Name: "shoot-access-virtual-garden"}
		return secret.Data, l.runtime.Get(t.Context(), key, secret)
	}, binary.Patience, interval).Should(HaveKey("token"))

	user := rest.AnonymousClientConfig(l.servers.Target.Config)
	user.BearerToken = string(secret.Data["token"])
	virtual, err := kubernetes.NewForConfig(user)
	l.Expect(err).NotTo(HaveOccurred())
	reviews := virtual.AuthenticationV1().SelfSubjectReviews()
	review, err := reviews.Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	l.Expect(err).NotTo(HaveOccurred())
	l.Expect(review.Status.UserInfo.Username).To(Equal("system:serviceaccount:kube-system:virtual-garden-user"))
	l.Eventually(func() (bool, error) {
		everything := &authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"}
		return binary.Allowed(t.Context(), l.virtual, review.Status.UserInfo.Username, everything)
	}, binary.Patience, interval).Should(BeTrue())
}

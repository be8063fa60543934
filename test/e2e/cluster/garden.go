package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const extensionController = "extension-controller"

// Names of the Seed and of the Secrets of extension-controller, for which the cluster under test is both the cluster of the Seed and the
// garden.
const (
	SeedName              = "cellar"
	SeedKubeconfig        = "espalier-extension-controller-garden"
	SeedBootstrap         = "espalier-extension-controller-bootstrap"
	seedBootstrapper      = "seed-bootstrapper"
	bootstrapTokenSeconds = 3600
)

// errNotEnded makes await repeat a function.
var errNotEnded = errors.New("the test goes on")

// explicitSeed is the configuration of extension-controller that names a Seed. It sets the version of Gardener for charts, because the
// cluster has no gardener-apiserver whose version they could get.
const explicitSeed = `apiVersion: gardenlet.config.gardener.cloud/v1alpha1
kind: GardenletConfiguration
leaderElection: {resourceNamespace: espalier-system}
gardenClientConnection:
  bootstrapKubeconfig: {name: ` + SeedBootstrap + `, namespace: espalier-system}
  kubeconfigSecret: {name: ` + SeedKubeconfig + `, namespace: espalier-system}
seedConfig: {metadata: {name: ` + SeedName + `}}
espalier:
  extension: {gardenerVersion: v1.149.3}
`

// prepareSeed creates the definitions and rights that extension-controller finds in a garden, and credentials with which it requests its
// certificate, unless it has one.
func (c *Cluster) prepareSeed(ctx context.Context) error {
	_, err := c.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", filepath.Join("deploy", "namespace"),
		"-f", filepath.Join("deploy", "garden-operator", "namespace"), "-f", filepath.Join("deploy", "project-controller", "crds"),
		"-f", filepath.Join("test", "e2e", "extension-controller", "garden.yaml"))
	if err != nil {
		return fmt.Errorf("prepare cluster as a garden: %w", err)
	}
	err = c.Client.Get(ctx, client.ObjectKey{Namespace: SystemNamespace, Name: SeedKubeconfig}, &corev1.Secret{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	return c.BootstrapSeed(ctx)
}

// BootstrapSeed creates the Secret with which extension-controller requests its certificate.
func (c *Cluster) BootstrapSeed(ctx context.Context) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: SystemNamespace, Name: seedBootstrapper}}
	if err := c.Client.Create(ctx, account); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("create ServiceAccount: %w", err)
	}
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](bootstrapTokenSeconds)}}
	if err := c.Client.SubResource("token").Create(ctx, account, token); err != nil {
		return fmt.Errorf("request token: %w", err)
	}
	service := &corev1.Service{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, service); err != nil {
		return fmt.Errorf("read address of the API server: %w", err)
	}
	config := rest.CopyConfig(c.Config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return fmt.Errorf("read certificate authority: %w", err)
	}
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"garden": {
			// a node may have no DNS
			Server: "https://" + net.JoinHostPort(service.Spec.ClusterIP, "443"), CertificateAuthorityData: config.CAData,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"garden": {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"garden": {Cluster: "garden", AuthInfo: "garden"}},
		CurrentContext: "garden",
	})
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: SystemNamespace, Name: SeedBootstrap}, Data: map[string][]byte{"kubeconfig": kubeconfig},
	}
	if err := c.Client.Create(ctx, secret); !apierrors.IsAlreadyExists(err) {
		return err
	}
	return c.Client.Update(ctx, secret)
}

// ApproveSeed approves the requests of extension-controller until the context ends, as gardener-controller-manager does.
func (c *Cluster) ApproveSeed(ctx context.Context) {
	users := []string{"system:serviceaccount:" + SystemNamespace + ":" + seedBootstrapper, "gardener.cloud:system:seed:" + SeedName}
	_ = await(ctx, time.Hour, "end of the test", func(ctx context.Context) error {
		requests := c.Clients.CertificatesV1().CertificateSigningRequests()
		all, err := requests.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range all.Items {
			each := &all.Items[i]
			if !strings.HasPrefix(each.Name, "seed-csr-") || !slices.Contains(users, each.Spec.Username) || len(each.Status.Conditions) > 0 {
				continue
			}
			each.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
				{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"},
			}
			if _, err := requests.UpdateApproval(ctx, each.Name, each, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		return errNotEnded
	})
}

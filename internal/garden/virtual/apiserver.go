package virtual

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/exposure"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/shared"
	"github.com/espalier-dev/espalier/internal/garden/flow"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// kube-apiserver is scaled by an autoscaler, and its rollout is complete when its old Pods are gone.
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;watch;create;update;delete,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch,namespace=garden,roleName=espalier-garden-operator-garden
// Its log says why a rollout is not complete.
// +kubebuilder:rbac:groups="",resources=pods/log,verbs=get,namespace=garden,roleName=espalier-garden-operator-garden

// deployAPIServer deploys kube-apiserver. A new encryption key takes two deployments: all Pods must be able to read with it before one of
// them writes with it.
func (c *ControlPlane) deployAPIServer(ctx context.Context, waitingFor flow.WaitingFor, refs kubeapiserver.References) error {
	if ignored := kubeapiserver.Ignored(c.Values); len(ignored) > 0 {
		log.FromContext(ctx).Info("Ignored settings that kube-apiserver of this version does not have", "settings", ignored)
	}
	key, err := c.Secrets.Generate(ctx, kubeapiserver.EncryptionKey(c.Values))
	if err != nil {
		return err
	}
	live, err := c.readServer(ctx, key.Name)
	if err != nil {
		return err
	}
	if err = c.applyAPIServer(ctx, refs, live); err != nil || !apiserver.AddsKey(c.Values, live) {
		return err
	}
	err = c.untilAPIServerRolledOut(ctx, waitingFor)
	if err != nil {
		return err
	}
	if live, err = c.readDeployment(ctx, kubeapiserver.Name); err != nil {
		return err
	}
	if live == nil {
		return fmt.Errorf("the Deployment %s was deleted in the meantime", kubeapiserver.Name)
	}
	metav1.SetMetaDataAnnotation(&live.ObjectMeta, apiserver.NewKeyPopulated, "true")
	return c.applyAPIServer(ctx, refs, live)
}

// applyAPIServer deploys kube-apiserver once. An annotation of the live Deployment says whether its Pods know a new encryption key.
func (c *ControlPlane) applyAPIServer(ctx context.Context, refs kubeapiserver.References, live *appsv1.Deployment) error {
	generated, err := c.apiServerSecrets(ctx, live)
	if err != nil {
		return err
	}
	objects, err := kubeapiserver.Objects(c.Values, kubeapiserver.Input{Secrets: generated, References: refs, Live: live})
	if err != nil {
		return err
	}
	return c.Cluster.DeployTyped(ctx, objects...)
}

// readServer reads the Deployment of kube-apiserver, nil if there is none. It removes the annotations that are about an earlier rotation of
// the encryption key than that to the current key.
func (c *ControlPlane) readServer(ctx context.Context, key string) (*appsv1.Deployment, error) {
	live, err := c.readDeployment(ctx, kubeapiserver.Name)
	if err != nil {
		return nil, err
	}
	outdated := map[string]any{}
	for _, each := range apiserver.OutdatedMarks(c.Values, live, key) {
		outdated[each] = nil
	}
	if len(outdated) == 0 {
		return live, nil
	}
	if err := c.mark(ctx, outdated); err != nil {
		return nil, err
	}
	return c.readDeployment(ctx, kubeapiserver.Name)
}

// logLines are how many lines of the log of a Pod an error has.
const logLines = 10

// untilAPIServerRolledOut waits until kube-apiserver is rolled out. The error after a timeout has the end of the log of the newest Pod.
func (c *ControlPlane) untilAPIServerRolledOut(ctx context.Context, waitingFor flow.WaitingFor) error {
	err := c.untilRolledOut(ctx, waitingFor, c.Timing.defaulted().APIServer, kubeapiserver.Name)
	var timeout *flow.TimeoutError
	if !errors.As(err, &timeout) || c.Logs == nil {
		return err
	}
	pods := &corev1.PodList{}
	selected := client.MatchingLabels(exposure.Labels())
	if failure := c.Cluster.Client.List(ctx, pods, client.InNamespace(c.Values.Namespace), selected); failure != nil {
		return errors.Join(err, fmt.Errorf("list Pods of kube-apiserver: %w", failure))
	}
	newest := shared.NewestPod(pods.Items)
	if newest == nil {
		return err
	}
	text, failure := c.Logs(ctx, client.ObjectKeyFromObject(newest), logLines)
	if failure != nil {
		return fmt.Errorf("%w, and the log of Pod %s cannot be read: %w", err, newest.Name, failure)
	}
	return fmt.Errorf("%w, and the log of Pod %s ends with: %s", err, newest.Name, text)
}

// apiServerSecrets generates the credentials of kube-apiserver, and returns what it needs of them.
func (c *ControlPlane) apiServerSecrets(ctx context.Context, live *appsv1.Deployment) (kubeapiserver.Secrets, error) {
	const bundle = secretconfig.DataKeyCertificateBundle
	s := c.Secrets.Collect()
	// All authorities come first, so that no Secret is generated if one of them is missing.
	authority, clients, frontProxy := s.Bundle(kubeapiserver.Authority), s.Bundle(kubeapiserver.ClientAuthority),
		s.Bundle(kubeapiserver.FrontProxyAuthority)
	gardenerAuthority, etcdAuthority := s.Bundle(kubeapiserver.GardenerAuthority), s.Bundle(etcd.Authority)
	tokens, key := s.Generate(ctx, kubeapiserver.StaticTokens()), s.Generate(ctx, kubeapiserver.EncryptionKey(c.Values))
	all := kubeapiserver.Secrets{
		Authority: authority.Name, ClientAuthority: clients.Name, FrontProxyAuthority: frontProxy.Name,
		GardenerAuthority: gardenerAuthority.Data[bundle],
		SharedAuthority:   kubeapiserver.SharesAuthority(clients.Data[bundle], frontProxy.Data[bundle]),
		ETCDAuthority:     etcdAuthority.Name, ETCDClient: s.Generate(ctx, etcd.ClientCertificate()).Name,
		Server:             s.Generate(ctx, kubeapiserver.ServerCertificate(c.Values)).Name,
		Aggregator:         s.Generate(ctx, kubeapiserver.AggregatorCertificate()).Name,
		ServiceAccountKey:  s.Generate(ctx, kubeapiserver.ServiceAccountKey(c.Values)).Name,
		ServiceAccountKeys: s.Bundle(kubeapiserver.ServiceAccountKeyName).Name,
		StaticTokens:       tokens.Name, EncryptionKey: key.Name,
	}
	err := s.Err()
	if err != nil {
		return all, err
	}
	if all.HealthToken, err = kubeapiserver.HealthToken(tokens); err != nil {
		return all, err
	}
	oldKey, _ := c.Secrets.Get(kubeapiserver.EncryptionKeyName, secrets.Old) // nil if there is none
	all.EncryptionKeys, err = apiserver.EncryptionKeys(c.Values, key, oldKey, live)
	return all, err
}

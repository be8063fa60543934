package virtual

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/exposure"
	"github.com/espalier-dev/espalier/internal/garden/component/judgement"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// kube-apiserver is scaled by an autoscaler, and its rollout is complete when its old Pods are gone.
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;watch;create;update;delete,namespace=garden,roleName=espalier-garden-operator-garden
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch,namespace=garden,roleName=espalier-garden-operator-garden
// The log of kube-apiserver says why a rollout is not complete.
// +kubebuilder:rbac:groups="",resources=pods/log,verbs=get,namespace=garden,roleName=espalier-garden-operator-garden

// deployAPIServer deploys kube-apiserver. A new encryption key takes two deployments: all Pods must be able to read with it before one of
// them writes with it. So does a resource that was not encrypted before.
func (c *ControlPlane) deployAPIServer(ctx context.Context, refs kubeapiserver.References) error {
	if ignored := kubeapiserver.Ignored(c.Values); len(ignored) > 0 {
		log.FromContext(ctx).Info("Ignored settings that kube-apiserver of this version does not have", "settings", ignored)
	}
	key, err := c.Secrets.Generate(ctx, kubeapiserver.EncryptionKey(c.Values))
	if err != nil {
		return err
	}
	live, err := c.readDeployment(ctx, kubeapiserver.Name)
	if err != nil {
		return err
	}
	if err = c.untilOldKeyUnneeded(ctx, c.kubernetesServer(), live, key); err != nil {
		return errors.Join(err, c.keepingOldKey().deployAPIServer(ctx, refs))
	}
	err = c.untilOrphansGone(ctx, c.kubernetesServer(), live)
	if err != nil {
		return err
	}
	outdated := apiserver.OutdatedMarks(c.Values, live, key.Name)
	for _, each := range outdated {
		delete(live.Annotations, each)
	}
	plain, err := c.plainResources(ctx, live, kubeapiserver.EncryptedResources(c.Values))
	if err != nil {
		return err
	}
	addsKey := apiserver.AddsKey(c.Values, live)
	err = c.applyAPIServer(ctx, refs, live, plain)
	if err != nil {
		return err
	}
	// The annotations are only removed now, after the deployment: if it fails, CheckNewKeyUsed must find them in the next attempt.
	if err = c.unmark(ctx, outdated...); err != nil || !addsKey && len(plain) == 0 {
		return err
	}
	err = c.untilAPIServerRolledOut(ctx)
	if err != nil {
		return err
	}
	if live, err = c.readDeployment(ctx, kubeapiserver.Name); err != nil {
		return err
	}
	if live == nil {
		return fmt.Errorf("the Deployment %s was deleted in the meantime", kubeapiserver.Name)
	}
	if addsKey {
		metav1.SetMetaDataAnnotation(&live.ObjectMeta, apiserver.NewKeyPopulated, "true")
	}
	return c.applyAPIServer(ctx, refs, live, nil)
}

// plainResources returns the resources of an API server that the Pods of its live Deployment do not encrypt yet.
func (c *ControlPlane) plainResources(ctx context.Context, live *appsv1.Deployment, resources []string) ([]string, error) {
	name := apiserver.EncryptionSecret(live)
	if name == "" {
		return nil, nil
	}
	configuration, err := c.readSecret(ctx, name)
	if err != nil {
		return nil, err
	}
	return apiserver.PlainResources(resources, configuration)
}

// applyAPIServer deploys kube-apiserver once. An annotation of the live Deployment says whether its Pods know a new encryption key. Plain
// are the encrypted resources that its Pods still write as plain text.
func (c *ControlPlane) applyAPIServer(ctx context.Context, refs kubeapiserver.References, live *appsv1.Deployment, plain []string) error {
	generated, err := c.apiServerSecrets(ctx, live)
	if err != nil {
		return err
	}
	objects, err := kubeapiserver.Objects(c.Values, kubeapiserver.Input{
		Secrets: generated, References: refs, Live: live, PlainResources: plain,
	})
	if err != nil {
		return err
	}
	return c.Cluster.DeployTyped(ctx, objects...)
}

// logLines is the number of lines of the log of a Pod that an error contains.
const logLines = 10

// untilAPIServerRolledOut waits until kube-apiserver is rolled out. The error after a timeout has the end of the log of the newest Pod.
func (c *ControlPlane) untilAPIServerRolledOut(ctx context.Context) error {
	err := c.untilRolledOut(ctx, c.Timing.defaulted().APIServer, kubeapiserver.Name)
	var timeout *flow.TimeoutError
	if !errors.As(err, &timeout) || c.Logs == nil {
		return err
	}
	pods, failure := c.podsOf(ctx, kubeapiserver.Name, exposure.Labels())
	if failure != nil {
		return errors.Join(err, failure)
	}
	newest := judgement.NewestPod(pods)
	if newest == nil {
		return err
	}
	text, failure := c.Logs(ctx, client.ObjectKeyFromObject(newest), logLines)
	if failure != nil {
		return fmt.Errorf("%w, and the log of Pod %s cannot be read: %w", err, newest.Name, failure)
	}
	return fmt.Errorf("%w, and the log of Pod %s ends with: %s", err, newest.Name, text)
}

// apiServerSecrets generates the credentials of kube-apiserver, and returns the names and contents that it needs.
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
	configured, err := c.configuredKeys(ctx, kubeapiserver.EncryptionKeyName, live)
	if err != nil {
		return all, err
	}
	all.EncryptionKeys, err = apiserver.EncryptionKeys(c.Values, key, oldKey, live, configured)
	return all, err
}

package virtual

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/exposure"
	"github.com/espalier-dev/espalier/internal/garden/component/judgement"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// The rollout of kube-apiserver is complete when its old Pods are gone.
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch,namespace=garden,roleName=espalier-garden-operator-garden
// The log of kube-apiserver says why a rollout is not complete.
// +kubebuilder:rbac:groups="",resources=pods/log,verbs=get,namespace=garden,roleName=espalier-garden-operator-garden

// kubeAPIServer deploys kube-apiserver.
type kubeAPIServer struct {
	rewriter
	// logs returns the last lines of the log of a Pod. If logs is nil, errors contain no lines of logs.
	logs func(ctx context.Context, pod client.ObjectKey, lines int64) (string, error)
}

func (k kubeAPIServer) deploy(ctx context.Context, refs kubeapiserver.References) error {
	k.installer.LogIgnored(ctx, kubeapiserver.Component)
	return k.deployServer(ctx, kubernetesServer(k.timing), func(r rewriter) deployment {
		of := kubeAPIServer{r, k.logs}
		return deployment{
			apply: func(ctx context.Context, key *corev1.Secret, live *appsv1.Deployment, plain []string) error {
				return of.apply(ctx, key, refs, live, plain)
			},
			await: of.untilRolledOut, unmark: of.unmark,
		}
	})
}

func (k kubeAPIServer) apply(
	ctx context.Context, key *corev1.Secret, refs kubeapiserver.References, live *appsv1.Deployment, plain []string,
) error {
	generated, err := k.credentials(ctx, key, live)
	if err != nil {
		return err
	}
	objects, err := kubeapiserver.Objects(k.values, kubeapiserver.Input{
		Secrets: generated, References: refs, Live: live, PlainResources: plain,
	})
	if err != nil {
		return err
	}
	return k.DeployTyped(ctx, objects...)
}

func (k kubeAPIServer) await(ctx context.Context) error {
	if err := k.untilRolledOut(ctx); err != nil {
		return err
	}
	return k.releaseConfigurations(ctx, kubernetesServer(k.timing))
}

// logLines is the number of lines of the log of a Pod that an error contains.
const logLines = 10

// untilRolledOut waits until kube-apiserver is rolled out. The error after a timeout has the end of the log of the newest Pod.
func (k kubeAPIServer) untilRolledOut(ctx context.Context) error {
	err := k.namespace.untilRolledOut(ctx, k.timing.APIServer, kubeapiserver.Name)
	var timeout *flow.TimeoutError
	if !errors.As(err, &timeout) || k.logs == nil {
		return err
	}
	pods, failure := k.pods(ctx, kubeapiserver.Name, exposure.Labels())
	if failure != nil {
		return errors.Join(err, failure)
	}
	newest := judgement.NewestPod(pods)
	if newest == nil {
		return err
	}
	text, failure := k.logs(ctx, client.ObjectKeyFromObject(newest), logLines)
	if failure != nil {
		return fmt.Errorf("%w, and the log of Pod %s cannot be read: %w", err, newest.Name, failure)
	}
	return fmt.Errorf("%w, and the log of Pod %s ends with: %s", err, newest.Name, text)
}

// credentials generates the credentials of kube-apiserver, and returns the names and contents that it needs.
func (k kubeAPIServer) credentials(ctx context.Context, key *corev1.Secret, live *appsv1.Deployment) (kubeapiserver.Secrets, error) {
	const bundle = secretconfig.DataKeyCertificateBundle
	s := k.secrets.Collect()
	// All authorities come first, so that no Secret is generated if one of them is missing.
	authority, clients, frontProxy := s.Bundle(kubeapiserver.Authority), s.Bundle(kubeapiserver.ClientAuthority),
		s.Bundle(kubeapiserver.FrontProxyAuthority)
	gardenerAuthority, etcdAuthority := s.Bundle(kubeapiserver.GardenerAuthority), s.Bundle(etcd.Authority)
	tokens := s.Generate(ctx, kubeapiserver.StaticTokens(k.values))
	all := kubeapiserver.Secrets{
		Authority: authority.Name, ClientAuthority: clients.Name, FrontProxyAuthority: frontProxy.Name,
		GardenerAuthority: gardenerAuthority.Data[bundle],
		SharedAuthority:   kubeapiserver.SharesAuthority(clients.Data[bundle], frontProxy.Data[bundle]),
		ETCDAuthority:     etcdAuthority.Name, ETCDClient: s.Generate(ctx, etcd.ClientCertificate(k.values)).Name,
		Server:             s.Generate(ctx, kubeapiserver.ServerCertificate(k.values)).Name,
		Aggregator:         s.Generate(ctx, kubeapiserver.AggregatorCertificate(k.values)).Name,
		ServiceAccountKey:  s.Generate(ctx, kubeapiserver.ServiceAccountKey(k.values)).Name,
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
	all.EncryptionKeys, err = k.encryptionKeys(ctx, kubeapiserver.EncryptionKeyName, key, live)
	return all, err
}

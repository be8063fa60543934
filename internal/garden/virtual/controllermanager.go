package virtual

import (
	"context"

	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubecontrollermanager"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
)

// deployControllerManager deploys kube-controller-manager, and waits until it is rolled out. A new Deployment is created only after the
// Secret with the token for kube-controller-manager contains a token, which the resource manager requests. Without the token, the kubelet
// could not start a Pod, and would try again after longer and longer pauses.
func (w work) deployControllerManager(ctx context.Context) error {
	names, err := w.controllerManagerSecrets(ctx)
	if err != nil {
		return err
	}
	objects, err := kubecontrollermanager.Objects(w.values, names, kubeapiserver.RuntimeConfig(w.values))
	if err != nil {
		return err
	}
	deployment, others := objects[len(objects)-1], objects[:len(objects)-1]
	live, err := w.deployment(ctx, kubecontrollermanager.Name)
	if err != nil {
		return err
	}
	if err := w.DeployTyped(ctx, others...); err != nil {
		return err
	}
	row := kubecontrollermanager.Component
	if err := w.installer.DeploySet(ctx, row, row.Sets[0], kubecontrollermanager.VirtualObjects()); err != nil {
		return err
	}
	timeout := w.timing.ControllerManager
	if live == nil {
		if err := w.untilToken(ctx, timeout, kubecontrollermanager.AccessSecret); err != nil {
			return err
		}
	}
	if err := w.DeployTyped(ctx, deployment); err != nil {
		return err
	}
	return w.untilRolledOut(ctx, timeout, kubecontrollermanager.Name)
}

func (w work) controllerManagerSecrets(ctx context.Context) (kubecontrollermanager.Secrets, error) {
	s := w.secrets.Collect()
	return kubecontrollermanager.Secrets{
		Server:    s.Generate(ctx, kubecontrollermanager.ServerCertificate(w.values)).Name,
		Authority: s.Bundle(kubecontrollermanager.Authority).Name, ClientAuthority: s.Current(kubeapiserver.ClientAuthority).Name,
		ServiceAccountKey: s.Current(kubeapiserver.ServiceAccountKeyName).Name, Kubeconfig: s.Current(gardenaccess.GenericKubeconfig).Name,
	}, s.Err()
}

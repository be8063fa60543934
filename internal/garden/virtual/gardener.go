package virtual

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneradmission"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerscheduler"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// deployAdmission deploys gardener-admission-controller. Its webhooks come last, because requests fail as long as it does not answer them.
func (w work) deployAdmission(ctx context.Context) error {
	s := w.secrets.Collect()
	server, kubeconfig := s.Generate(ctx, gardeneradmission.ServerCertificate(w.values)), s.Current(gardenaccess.GenericKubeconfig)
	bundle := s.Bundle(gardener.Authority).Data[secretconfig.DataKeyCertificateBundle]
	if err := s.Err(); err != nil {
		return err
	}
	objects, err := gardeneradmission.Objects(w.values, gardeneradmission.Input{Kubeconfig: kubeconfig.Name, Server: server.Name})
	if err != nil {
		return err
	}
	set, err := w.managedResource(ctx, gardeneradmission.VirtualManagedResource)
	if err != nil {
		return err
	}
	called := gardeneradmission.CallsWebhooks(set)
	// Clients must trust a new authority before it signs the certificate.
	if err := w.deployVirtual(
		ctx, gardeneradmission.Component, gardeneradmission.VirtualObjects(w.values, bundle, called),
	); err != nil {
		return err
	}
	if err := w.deployProgram(ctx, gardeneradmission.Component, objects); err != nil {
		return err
	}
	row := gardeneradmission.Component
	if err := w.installer.UntilReady(ctx, row, gardener.RuntimeSet(row)); err != nil || called {
		return err
	}
	return w.deployVirtual(ctx, gardeneradmission.Component, gardeneradmission.VirtualObjects(w.values, bundle, true))
}

// schedulerObjects returns the objects of gardener-scheduler, which keeps the strategy that it has.
func (w work) schedulerObjects(ctx context.Context) (component.Objects, error) {
	kubeconfig, err := w.secrets.Current(gardenaccess.GenericKubeconfig)
	if err != nil {
		return component.Objects{}, err
	}
	live, err := w.schedulerConfig(ctx)
	if err != nil {
		return component.Objects{}, err
	}
	strategy, kept := gardenerscheduler.Strategy(w.values, live)
	if kept {
		log.FromContext(ctx).Info("Keeping the strategy that gardener-scheduler had, because the Garden has none", "strategy", strategy)
	}
	objects, err := gardenerscheduler.Objects(w.values, kubeconfig.Name, strategy)
	return objects.With(gardenerscheduler.VirtualObjects()), err
}

// schedulerConfig returns the ConfigMap with the configuration of the live gardener-scheduler, nil if there is none.
func (w work) schedulerConfig(ctx context.Context) (*corev1.ConfigMap, error) {
	live, err := w.deployment(ctx, gardenerscheduler.Name)
	if err != nil || live == nil {
		return nil, err
	}
	for _, each := range live.Spec.Template.Spec.Volumes {
		if each.ConfigMap != nil {
			return read(ctx, w.namespace, each.ConfigMap.Name, &corev1.ConfigMap{})
		}
	}
	return nil, nil
}

// deployProgram deploys the objects of a program in the runtime cluster.
func (w work) deployProgram(ctx context.Context, row component.Component, objects gardener.Objects) error {
	if err := w.DeployTyped(ctx, objects.Direct...); err != nil {
		return err
	}
	return w.installer.DeploySet(ctx, row, gardener.RuntimeSet(row), objects.Set)
}

// deployVirtual deploys the objects of a program in the virtual cluster, and waits until they are healthy.
func (w work) deployVirtual(ctx context.Context, row component.Component, objects []client.Object) error {
	if err := w.installer.DeploySet(ctx, row, gardener.VirtualSet(row), objects); err != nil {
		return err
	}
	return w.installer.UntilReady(ctx, row, gardener.VirtualSet(row))
}

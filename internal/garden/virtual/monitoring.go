package virtual

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/globalmonitoring"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/prometheus"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
)

// deployPrometheus deploys the Prometheus of the garden. This Prometheus reads the Prometheus of each Seed, with the credentials of global
// monitoring that Seeds have. If the virtual cluster does not answer, the operator leaves an existing ManagedResource as it is. If there
// is no ManagedResource yet, the operator assumes that there are no Seeds. While a rotation replaces credentials of Prometheus, the task
// fails instead: the rotation would end with the former credentials.
func (a access) deployPrometheus(ctx context.Context) error {
	found, err := a.findSeeds(ctx)
	if err != nil {
		if replacesCredentials(a.values.Phases) {
			return err
		}
		log.FromContext(ctx).Info("Did not look for Seeds to monitor, because the virtual cluster does not answer", "reason", err.Error())
		set, failure := a.managedResource(ctx, component.PrometheusGarden)
		if failure != nil || set != nil {
			return failure
		}
	}
	seeds, err := a.monitored(found)
	if err != nil {
		return err
	}
	var credentials prometheus.Credentials
	for _, each := range []struct {
		name *string
		read func(string) (*corev1.Secret, error)
		of   string
	}{
		{&credentials.Kubernetes, a.secrets.Bundle, kubeapiserver.Authority},
		{&credentials.Gardener, a.secrets.Bundle, gardener.Authority},
		{&credentials.ETCD, a.secrets.Bundle, etcd.Authority},
		{&credentials.ETCDClient, a.secrets.Current, etcd.ClientCertificateName},
	} {
		secret, failure := each.read(each.of)
		if failure != nil {
			return failure
		}
		*each.name = secret.Name
	}
	objects, err := prometheus.Objects(a.values, credentials, seeds)
	if err != nil {
		return err
	}
	return a.installer.DeployObjects(ctx, prometheus.GardenComponent, component.Objects{
		Direct: objects.Direct, Sets: [][]client.Object{prometheus.VirtualObjects(), objects.Set},
	})
}

// replacesCredentials reports whether a rotation replaces credentials of the Prometheus of the garden.
func replacesCredentials(phases rotation.Phases) bool {
	changing := []operatorv1alpha1.RotationPhase{operatorv1alpha1.RotationPreparing, operatorv1alpha1.RotationCompleting}
	return slices.Contains(changing, phases[rotation.Observability]) || slices.Contains(changing, phases[rotation.CertificateAuthorities])
}

// foundSeeds are the hosts of the Prometheus servers of all Seeds, and, if there are any, the Secrets with credentials of global
// monitoring.
type foundSeeds struct {
	hosts   []string
	secrets []corev1.Secret
}

// findSeeds asks the virtual cluster for Seeds. It returns an error if the connection or a list fails.
func (a access) findSeeds(ctx context.Context) (foundSeeds, error) {
	clients, err := a.connection.Clients(ctx)
	if err != nil {
		return foundSeeds{}, err
	}
	limited, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(seedKind.GroupVersion().WithKind("SeedList"))
	if err = clients.Client.List(limited, list); err != nil {
		return foundSeeds{}, &Error{fmt.Errorf("list Seeds: %w", err)}
	}
	hosts := prometheus.SeedHosts(list.Items)
	if len(hosts) == 0 {
		return foundSeeds{}, nil
	}
	all, err := a.listGlobalMonitoring(ctx)
	if err != nil {
		return foundSeeds{}, err
	}
	return foundSeeds{hosts: hosts, secrets: all}, nil
}

// monitored returns the servers of Seeds and the credentials for them: the Secret of a user, or else the generated Secret.
func (a access) monitored(found foundSeeds) (prometheus.Seeds, error) {
	if len(found.hosts) == 0 {
		return prometheus.Seeds{}, nil
	}
	used, err := globalmonitoring.OfUser(found.secrets)
	if err != nil {
		return prometheus.Seeds{}, err
	}
	if used == nil {
		if used, err = a.secrets.Current(globalmonitoring.SecretName); err != nil {
			return prometheus.Seeds{}, err
		}
	}
	return prometheus.Seeds{Hosts: found.hosts, Data: used.Data}, nil
}

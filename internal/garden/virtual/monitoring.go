package virtual

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/globalmonitoring"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/prometheus"
)

// deployPrometheus deploys the Prometheus of the garden, which reads the Prometheus of each Seed with the credentials of global monitoring
// that Seeds have. While the virtual cluster does not answer, the operator leaves an existing ManagedResource as it is, and takes a new
// virtual cluster for one without Seeds.
func (a access) deployPrometheus(ctx context.Context) error {
	seeds, err := a.monitoredSeeds(ctx)
	if err != nil {
		log.FromContext(ctx).Info("Did not look for Seeds to monitor, because the virtual cluster does not answer", "reason", err.Error())
		set, failure := a.managedResource(ctx, component.PrometheusGarden)
		if failure != nil || set != nil {
			return failure
		}
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

// monitoredSeeds returns the servers of all Seeds, and the credentials for them.
func (a access) monitoredSeeds(ctx context.Context) (prometheus.Seeds, error) {
	clients, err := a.connection.Clients(ctx)
	if err != nil {
		return prometheus.Seeds{}, err
	}
	limited, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(seedKind.GroupVersion().WithKind("SeedList"))
	if err = clients.Client.List(limited, list); err != nil {
		return prometheus.Seeds{}, &Error{fmt.Errorf("list Seeds: %w", err)}
	}
	seeds := prometheus.Seeds{Hosts: prometheus.SeedHosts(list.Items)}
	if len(seeds.Hosts) == 0 {
		return seeds, nil
	}
	all, err := a.listGlobalMonitoring(ctx)
	if err != nil {
		return prometheus.Seeds{}, err
	}
	used, err := globalmonitoring.OfUser(all)
	if err != nil {
		return prometheus.Seeds{}, err
	}
	if used == nil {
		if used, err = a.secrets.Current(globalmonitoring.SecretName); err != nil {
			return prometheus.Seeds{}, err
		}
	}
	seeds.Data = used.Data
	return seeds, nil
}

package virtual

import (
	"context"

	"github.com/espalier-dev/espalier/internal/garden/component/gardeneradmission"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubecontrollermanager"
	"github.com/espalier-dev/espalier/internal/secrets"
)

// generateKeys generates the private keys of the control plane while its etcds start. A key takes up to some seconds, for which
// kube-apiserver and the programs of Gardener would wait otherwise. The tasks that deploy them request the same keys again.
func (c *ControlPlane) generateKeys(ctx context.Context) error {
	namespace, s := c.Values.Namespace, c.Secrets.Collect()
	for _, each := range []secrets.Request{
		kubeapiserver.ServiceAccountKey(c.Values), kubeapiserver.ServerCertificate(c.Values), kubeapiserver.AggregatorCertificate(),
		kubecontrollermanager.ServerCertificate(namespace),
		gardenerapiserver.WorkloadIdentityKey(c.Values), gardenerapiserver.ServerCertificate(namespace),
		gardeneradmission.ServerCertificate(namespace),
	} {
		s.Generate(ctx, each)
	}
	return s.Err()
}

package virtual

import (
	"context"

	"github.com/espalier-dev/espalier/internal/garden/components"
)

// generateKeys generates the private keys of the control plane while its etcds start. A key takes up to some seconds, for which
// kube-apiserver and the programs of Gardener would wait otherwise. The tasks that deploy them request the same keys again.
func (w work) generateKeys(ctx context.Context) error {
	s := w.secrets.Collect()
	for _, each := range components.Credentials() {
		if each.Early {
			s.Generate(ctx, each.Request(w.values))
		}
	}
	return s.Err()
}

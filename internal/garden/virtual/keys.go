package virtual

import (
	"context"

	"github.com/espalier-dev/espalier/internal/garden/components"
)

// generateKeys generates the private keys of the control plane while the etcds of the control plane start. A key takes up to some seconds.
// Without generateKeys, kube-apiserver and the programs of Gardener would have to wait for the keys. The tasks that deploy these programs
// request the same keys again.
func (w work) generateKeys(ctx context.Context) error {
	s := w.secrets.Collect()
	for _, each := range components.Credentials() {
		if each.Early {
			s.Generate(ctx, each.Request(w.values))
		}
	}
	return s.Err()
}

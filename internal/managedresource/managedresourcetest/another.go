package managedresourcetest

import (
	"github.com/espalier-dev/espalier/internal/config"
)

// StartAnother starts a second controller in addition to the first, for the same namespaces and with the same rights. It has the
// configuration of the first one after change, counts its own requests, and stops when the test ends.
func (e *Env) StartAnother(change func(*config.ResourceManagerConfiguration)) *Env {
	e.T.Helper()
	other, cfg := *e, *e.Config
	change(&cfg)
	other.Config, other.Requests = &cfg, &Requests{}
	other.Runner = other.runner()
	other.Start()
	e.T.Cleanup(func() { other.Stop() })
	return &other
}

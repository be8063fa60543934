package managedresourcetest

import (
	"github.com/espalier-dev/espalier/internal/config"
)

// StartAnother starts a second controller beside the first, for the same namespaces and with the same rights. It has
// the configuration of the first one after change, counts its requests on its own, and ends with the test.
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

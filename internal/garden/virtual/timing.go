package virtual

import (
	"cmp"
	"time"

	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
)

// Timing are durations of waits. A zero duration stands for its default.
type Timing struct {
	// LoadBalancer is the longest wait for the load balancer of the gateway; default 10m.
	LoadBalancer time.Duration
	// APIServer is the longest wait for kube-apiserver to be rolled out or gone; default 5m.
	APIServer time.Duration
	// ControllerManager is the longest wait for kube-controller-manager to be rolled out; default 3m.
	ControllerManager time.Duration
	// Bootstrap is the longest wait for the first token of the resource manager; default 2m.
	Bootstrap time.Duration
	// ResourceManager is the longest wait for the resource manager to be healthy; default 5m.
	ResourceManager time.Duration
	// Connection is the longest wait for the token of the operator, and for the removal of leftovers in the virtual cluster; default 30s.
	Connection time.Duration
	// Gardener is the longest wait for a program of Gardener to be rolled out; default 5m.
	Gardener time.Duration
	// Snapshot is the longest wait for a snapshot of the main etcd; default 15m: a large database takes minutes.
	Snapshot time.Duration
	// Seeds is the longest wait for a renewal of credentials in all Seeds; default 10m.
	Seeds time.Duration
	// Proof is the longest wait for the proof of a phase of a rotation; default 5m.
	Proof time.Duration
	// TokenUse is the time after which programs use a token that was renewed in a Secret; default 3m.
	TokenUse time.Duration
}

func (t Timing) defaulted() Timing {
	return Timing{
		LoadBalancer:      cmp.Or(t.LoadBalancer, 10*time.Minute),
		APIServer:         cmp.Or(t.APIServer, 5*time.Minute),
		ControllerManager: cmp.Or(t.ControllerManager, 3*time.Minute),
		Bootstrap:         cmp.Or(t.Bootstrap, 2*time.Minute),
		ResourceManager:   cmp.Or(t.ResourceManager, 5*time.Minute),
		Connection:        cmp.Or(t.Connection, 30*time.Second),
		Gardener:          cmp.Or(t.Gardener, gardener.Within),
		Snapshot:          cmp.Or(t.Snapshot, 15*time.Minute),
		Seeds:             cmp.Or(t.Seeds, 10*time.Minute),
		Proof:             cmp.Or(t.Proof, 5*time.Minute),
		TokenUse:          cmp.Or(t.TokenUse, 3*time.Minute),
	}
}

package runtime

import (
	"cmp"
	"time"
)

// Timing are durations of waits. A zero duration stands for its default.
type Timing struct {
	// Definitions is the longest wait for definitions to be served or gone; default 2m.
	Definitions time.Duration
	// ResourceManager is the longest wait for the resource manager to be healthy or gone; default 5m.
	ResourceManager time.Duration
	// ManagedResources is the longest wait for ManagedResources to be healthy or gone; default 2m.
	ManagedResources time.Duration
	// ETCDs is the longest wait for etcds to be ready or gone; default 5m.
	ETCDs time.Duration
}

func (t Timing) defaulted() Timing {
	return Timing{
		Definitions:      cmp.Or(t.Definitions, 2*time.Minute),
		ResourceManager:  cmp.Or(t.ResourceManager, 5*time.Minute),
		ManagedResources: cmp.Or(t.ManagedResources, 2*time.Minute),
		ETCDs:            cmp.Or(t.ETCDs, 5*time.Minute),
	}
}

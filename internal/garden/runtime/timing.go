package runtime

import (
	"cmp"
	"time"
)

// Timing are durations of waits. A zero duration stands for its default.
type Timing struct {
	// ResourceManager is the longest wait for the resource manager to be healthy or gone; default 5m.
	ResourceManager time.Duration
	// ETCDs is the longest wait for etcds to be ready or gone; default 5m.
	ETCDs time.Duration
	// ExtensionObjects is the longest wait for an object of an extension to be reconciled or gone; default 5m.
	ExtensionObjects time.Duration
}

func (t Timing) defaulted() Timing {
	return Timing{
		ResourceManager:  cmp.Or(t.ResourceManager, 5*time.Minute),
		ETCDs:            cmp.Or(t.ETCDs, 5*time.Minute),
		ExtensionObjects: cmp.Or(t.ExtensionObjects, 5*time.Minute),
	}
}

package lifecycle

import (
	"cmp"
	"time"

	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
)

// Timing are durations of an operation. A zero one stands for its default.
type Timing struct {
	// ReportDelay is how long an operation takes before its progress is reported; default 2s. A shorter one that changes nothing writes
	// nothing but its start and its end.
	ReportDelay time.Duration
	// ReportInterval is the shortest time between two reports of progress; default 5s.
	ReportInterval time.Duration
	// Definitions is the longest wait for definitions to be served or gone; default 2m.
	Definitions time.Duration
	// ResourceManager is the longest wait for the resource manager to be healthy or gone; default 5m.
	ResourceManager time.Duration
	// ManagedResources is the longest wait for ManagedResources to be healthy or gone; default 2m.
	ManagedResources time.Duration
	// ETCDs is the longest wait for etcds to be ready or gone; default 5m.
	ETCDs time.Duration
	// WaitEvent is how long a task waits before an Event says so; default 10s.
	WaitEvent time.Duration
	// Virtual are the times of the virtual cluster.
	Virtual virtual.Timing
}

func (t Timing) defaulted() Timing {
	return Timing{
		ReportDelay:      cmp.Or(t.ReportDelay, 2*time.Second),
		ReportInterval:   cmp.Or(t.ReportInterval, flow.GardenReportInterval),
		Definitions:      cmp.Or(t.Definitions, 2*time.Minute),
		ResourceManager:  cmp.Or(t.ResourceManager, 5*time.Minute),
		ManagedResources: cmp.Or(t.ManagedResources, 2*time.Minute),
		ETCDs:            cmp.Or(t.ETCDs, 5*time.Minute),
		WaitEvent:        cmp.Or(t.WaitEvent, 10*time.Second),
		Virtual:          t.Virtual,
	}
}

package lifecycle

import (
	"cmp"
	"time"

	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/garden/install"
	"github.com/espalier-dev/espalier/internal/garden/runtime"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
)

// Timing are durations of an operation. A zero duration stands for its default.
type Timing struct {
	// ReportDelay is how long an operation takes before its progress is reported; default 2s. A shorter operation that changes nothing writes
	// only its start and its end.
	ReportDelay time.Duration
	// ReportInterval is the shortest time between two reports of progress; default 5s.
	ReportInterval time.Duration
	// WaitEvent is how long a task waits before an Event reports the wait; default 10s.
	WaitEvent time.Duration
	// Limits are the longest waits for the components of both clusters.
	Limits install.Limits
	// Runtime are the times of the runtime cluster.
	Runtime runtime.Timing
	// Virtual are the times of the virtual cluster.
	Virtual virtual.Timing
}

func (t Timing) defaulted() Timing {
	return Timing{
		ReportDelay:    cmp.Or(t.ReportDelay, 2*time.Second),
		ReportInterval: cmp.Or(t.ReportInterval, flow.GardenReportInterval),
		WaitEvent:      cmp.Or(t.WaitEvent, 10*time.Second),
		Limits:         t.Limits.Defaulted(), Runtime: t.Runtime, Virtual: t.Virtual,
	}
}

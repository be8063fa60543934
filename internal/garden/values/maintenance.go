package values

import (
	"fmt"
	"time"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

const day = 24 * time.Hour

// Maintenance is when disruptive work may happen.
type Maintenance struct {
	// Window is the window as the Garden names it.
	Window operatorv1alpha1.MaintenanceTimeWindow
	// Begin is the first moment of the window, in UTC, as the time since midnight. Length is 0 if the window is the whole day or not set.
	Begin, Length time.Duration
}

// NewMaintenance parses a window, whose times have the form HHMMSS+ZZ00.
func NewMaintenance(window operatorv1alpha1.MaintenanceTimeWindow) (Maintenance, error) {
	const form = "150405-0700"
	m := Maintenance{Window: window}
	if window.Begin == "" && window.End == "" || window.Begin == "000000+0000" && window.End == "235959+0000" {
		return m, nil
	}
	begin, err := time.Parse(form, window.Begin)
	if err != nil {
		return Maintenance{}, fmt.Errorf("begin: %w", err)
	}
	end, err := time.Parse(form, window.End)
	if err != nil {
		return Maintenance{}, fmt.Errorf("end: %w", err)
	}
	m.Begin = timeOfDay(begin)
	m.Length = (timeOfDay(end) - m.Begin + day) % day
	return m, nil
}

// IsAt reports whether the window is open at a time. Remains is the time until it closes or opens, and 0 if it is always open.
func (m Maintenance) IsAt(at time.Time) (open bool, remains time.Duration) {
	if m.Length == 0 {
		return true, 0
	}
	sinceBegin := (timeOfDay(at) - m.Begin + day) % day
	if sinceBegin < m.Length {
		return true, m.Length - sinceBegin
	}
	return false, day - sinceBegin
}

// timeOfDay returns the time since midnight in UTC.
func timeOfDay(at time.Time) time.Duration {
	at = at.UTC()
	return at.Sub(at.Truncate(day))
}

package vali

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Component is vali. Its volume stays when the component is removed.
var Component = row()

func row() component.Component {
	row := observability.Component(Name, "Vali",
		"creates ManagedResource `vali`, unless feature gate `RemoveVali` is `true` and VictoriaLogs has run for 15 days, or Pods have IPv6", nil,
		func(v values.Values, _ component.Secrets) ([]client.Object, error) { return Objects(v) })
	row.Volumes = true
	row.Unless = Unless
	row.Stays = "vali stays until VictoriaLogs has run for 15 days."
	row.Destroy.After = []string{component.FluentBit}
	return row
}

// Retention is how long vali and VictoriaLogs keep lines.
const Retention = 15 * 24 * time.Hour

// Successor describes VictoriaLogs, which replaces vali.
type Successor struct {
	// Since is when VictoriaLogs was deployed, zero if it is not.
	Since time.Time
	// Problem says why VictoriaLogs does not run, "" if it runs.
	Problem string
}

// Stays returns why vali stays for now although feature gate RemoveVali is true, or "". Confirmed is true if the user accepts the loss of
// lines that only vali has.
func Stays(s Successor, confirmed bool, now time.Time) string {
	switch complete := s.Since.Add(Retention); {
	case confirmed:
		return ""
	case s.Since.IsZero():
		return "VictoriaLogs is not deployed yet"
	case s.Problem != "":
		return "VictoriaLogs does not run: " + s.Problem
	case now.Before(complete):
		return "VictoriaLogs has all lines of the last 15 days from " + complete.UTC().Format(time.RFC3339) + " on"
	}
	return ""
}

// Unless returns why a Garden has no vali, or "".
func Unless(v values.Values) string {
	switch {
	case v.RemoveVali:
		return "The configuration of the operator has feature gate RemoveVali."
	case v.PodsHaveIPv6:
		return "Pods of the runtime cluster have IPv6, which vali does not support."
	}
	return ""
}

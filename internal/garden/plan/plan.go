// Package plan foresees a reconciliation of a Garden, and writes nothing. It runs the reconciler itself with a client that keeps all
// writes (overlay.go), so that a plan uses the same rows, rollout and manager of secrets as a real operation. Then it compares the result
// with the cluster.
//
// A plan cannot foresee the answers of controllers of extensions, random keys, and changes in the virtual cluster. Plan.Remarks name them.
package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/internal/apply/difference"
	"github.com/espalier-dev/espalier/internal/garden/takeover"
)

// Plan is the foreseen reconciliation of a Garden.
type Plan struct {
	// Garden is the name of the Garden.
	Garden string `json:"garden"`
	// New is true if the Garden does not exist yet.
	New bool `json:"new,omitempty"`
	// Refused says why the Garden, or a part of the operation, is refused.
	Refused []string `json:"refused,omitempty"`
	// Warnings are the warnings of the webhook.
	Warnings []string `json:"warnings,omitempty"`
	// Fields are the fields of the Garden that the file changes, after defaults.
	Fields     []difference.Field `json:"fields,omitempty"`
	MoreFields int                `json:"moreFields,omitempty"`
	// Lost are the objects, addresses and clients that become unreadable or unreachable.
	Lost []string `json:"lost,omitempty"`
	// Restarts are workloads whose Pods are replaced.
	Restarts []Restart `json:"restarts"`
	// Objects are the objects to write, without the Garden itself.
	Objects []Object `json:"objects"`
	Tasks   []Task   `json:"tasks"`
	// Seconds is the time that the last reconciliation took; 0 if it is not known.
	Seconds float64 `json:"lastReconciliationSeconds,omitempty"`
	// Missing are the findings of the preflight.
	Missing []Finding `json:"missing,omitempty"`
	// TakeOver is the report on the take-over of a garden of other programs; nil unless the user asked for it.
	TakeOver *takeover.Report `json:"takeOver,omitempty"`
	// Remarks name the changes that the plan does not know.
	Remarks []string `json:"remarks,omitempty"`

	// images are the images that no workload has yet.
	images []string
}

// Action is the kind of a write.
type Action string

// The actions.
const (
	Create Action = "create"
	Change Action = "change"
	Delete Action = "delete"
)

// Object is an object to write.
type Object struct {
	Action     Action `json:"action"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// Cluster is runtime or virtual.
	Cluster string `json:"cluster"`
	// Set is the ManagedResource that the object belongs to; empty if the operator writes it itself.
	Set string `json:"set,omitempty"`
	// Task is the name of the task that writes it; empty: the reconciliation writes it before or after its tasks.
	Task   string             `json:"task,omitempty"`
	Fields []difference.Field `json:"fields,omitempty"`
	// MoreFields is how many fields change besides Fields.
	MoreFields int `json:"moreFields,omitempty"`
}

func (o Object) describe() string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	return o.Kind + " " + name
}

// Restart is a workload whose Pods are replaced.
type Restart struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Times is how often its Pods are replaced, one rollout after the other.
	Times int `json:"times"`
	// Reasons name the image, the flag, the file or the Secret.
	Reasons []string `json:"reasons"`
	Task    string   `json:"task,omitempty"`
}

// Task is a task of the reconciliation.
type Task struct {
	Name string `json:"name"`
	// State is runs, skipped, refused, or waits, if a task before it is refused.
	State string `json:"state"`
	// Reason says why the task is skipped, refused or waits.
	Reason string `json:"reason,omitempty"`
	// Writes is the number of objects that the task writes, the objects of its ManagedResources included.
	Writes int `json:"writes"`
	// Seconds is the time that the task took in the last reconciliation; nil if it is not known.
	Seconds *float64 `json:"lastSeconds,omitempty"`
}

// The states of a task.
const (
	runs    = "runs"
	skipped = "skipped"
	refused = "refused"
	waits   = "waits"
)

// Finding is something that is missing or wrong before the first reconciliation.
type Finding struct {
	// Check is the name of the check.
	Check string `json:"check"`
	// Blocks is true if a reconciliation would fail; otherwise it is something to look at.
	Blocks bool `json:"blocks"`
	// Message names the object or field and the remedy.
	Message string `json:"message"`
}

// Changes reports whether the reconciliation changes anything.
func (p *Plan) Changes() bool { return p.New || len(p.Fields)+len(p.Objects)+len(p.Restarts) > 0 }

// IsRefused reports whether the reconciliation would not succeed.
func (p *Plan) IsRefused() bool {
	return len(p.Refused) > 0 || p.TakeOver.Blocks() || slices.ContainsFunc(p.Missing, func(f Finding) bool { return f.Blocks })
}

// counts returns a summary such as "2 to create, 1 to change".
func (p *Plan) counts() string {
	var parts []string
	for _, action := range []Action{Create, Change, Delete} {
		number := 0
		for _, each := range p.Objects {
			if each.Action == action {
				number++
			}
		}
		if number > 0 {
			parts = append(parts, fmt.Sprintf("%d to %s", number, action))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func seconds(value float64) string {
	return time.Duration(value * float64(time.Second)).Round(time.Second).String()
}

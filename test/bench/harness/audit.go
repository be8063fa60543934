package harness

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/test/local"
)

// auditPolicy records only the requests of these users.
func auditPolicy(users ...string) []byte {
	return []byte(`apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: Metadata
  users: ["` + strings.Join(users, `", "`) + `"]
- level: None
`)
}

// Request contains the fields of an audit event that are used.
type Request struct {
	Verb  string `json:"verb"`
	Stage string `json:"stage"`
	User  struct {
		Username string `json:"username"`
	} `json:"user"`
	Object struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		APIGroup    string `json:"apiGroup"`
	} `json:"objectRef"`
	Status struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Begin time.Time `json:"requestReceivedTimestamp"`
	End   time.Time `json:"stageTimestamp"`
}

// Requests are those of a period.
type Requests []Request

// AuditLog is the API server's log of requests.
type AuditLog struct{ file string }

// End returns the current end of the log.
func (l AuditLog) End() (int64, error) {
	info, err := os.Stat(l.file)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("find end of audit log: %w", err)
	}
	return info.Size(), nil
}

// Since returns the requests of the user that were logged after that place, each once: a watch when it started, all others when they ended.
// It also returns the place up to which it has read.
func (l AuditLog) Since(place int64, user string) (requests Requests, end int64, err error) {
	end = place
	for line, err := range local.AuditLines(l.file, place) {
		if err != nil {
			return nil, place, err
		}
		var r Request
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, place, fmt.Errorf("read audit log: %w", err)
		}
		ends := "ResponseComplete"
		if r.Verb == "watch" {
			ends = "ResponseStarted"
		}
		if r.User.Username == user && r.Stage == ends {
			requests = append(requests, r)
		}
		end += int64(len(line))
	}
	return requests, end, nil
}

// Counts reports whether a request counts while the controller is idle: watches, which are renewed every few minutes, and leases do not.
func (r Request) Counts() bool { return r.Verb != "watch" && r.Object.Resource != "leases" }

// IsWrite reports whether the request changes something.
func (r Request) IsWrite() bool { return !slices.Contains([]string{"get", "list", "watch"}, r.Verb) }

// String returns the text by which requests are counted.
func (r Request) String() string {
	text := r.Verb + " " + cmp.Or(r.Object.Resource, "(no resource)")
	if r.Object.Subresource != "" {
		text += "/" + r.Object.Subresource
	}
	if r.Status.Code >= 400 {
		text += fmt.Sprintf(" (%d)", r.Status.Code)
	}
	return text
}

// Only returns the requests that match.
func (all Requests) Only(match func(Request) bool) Requests {
	var some Requests
	for _, r := range all {
		if match(r) {
			some = append(some, r)
		}
	}
	return some
}

// Period returns the time from the beginning of the first request to the end of the last one.
func (all Requests) Period() time.Duration {
	if len(all) == 0 {
		return 0
	}
	begin := slices.MinFunc(all, func(a, b Request) int { return a.Begin.Compare(b.Begin) }).Begin
	return slices.MaxFunc(all, func(a, b Request) int { return a.End.Compare(b.End) }).End.Sub(begin)
}

// Pressure returns how many requests that count the API server processed concurrently, on average from the first to the last one, and how
// long one took. This shows whether the client waits for the API server or for itself.
func (all Requests) Pressure() string {
	some := all.Only(Request.Counts)
	period := some.Period()
	if period <= 0 {
		return "none"
	}
	var busy time.Duration
	for _, r := range some {
		busy += r.End.Sub(r.Begin)
	}
	each := (busy / time.Duration(len(some))).Round(100 * time.Microsecond)
	return fmt.Sprintf("%d, on average %.1f at a time, each %s", len(some), float64(busy)/float64(period), each)
}

// String counts the requests by verb and resource, the most frequent first.
func (all Requests) String() string { return all.Per(1, "%.0f") }

// Per is like String, with the numbers divided and in that format.
func (all Requests) Per(divisor float64, format string) string {
	counts := map[string]int{}
	for _, r := range all {
		counts[r.String()]++
	}
	if len(counts) == 0 {
		return "none"
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	for i, name := range names {
		names[i] = fmt.Sprintf(format+" %s", float64(counts[name])/divisor, name)
	}
	return strings.Join(names, ", ")
}

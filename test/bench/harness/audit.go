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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/espalier-dev/espalier/test/local"
)

// auditPolicy returns an audit policy that logs only the requests of the given users.
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

// Request is an audit event. It always has an object and a status, which may be empty.
type Request struct{ auditv1.Event }

// Requests are requests in the order of the audit log.
type Requests []Request

// auditEnd returns the current end of an audit log.
func auditEnd(file string) (int64, error) {
	info, err := os.Stat(file)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("find end of audit log: %w", err)
	}
	return info.Size(), nil
}

// auditedSince returns the requests of the user that were logged after place, each once: a watch when it started, any other request when it
// ended.
func auditedSince(file string, place int64, user string) (requests Requests, err error) {
	for line, err := range local.AuditLines(file, place) {
		if err != nil {
			return nil, err
		}
		var r Request
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("read audit log: %w", err)
		}
		ends := auditv1.StageResponseComplete
		if r.Verb == "watch" {
			ends = auditv1.StageResponseStarted
		}
		if r.User.Username == user && r.Stage == ends {
			r.ObjectRef = cmp.Or(r.ObjectRef, &auditv1.ObjectReference{})
			r.ResponseStatus = cmp.Or(r.ResponseStatus, &metav1.Status{})
			requests = append(requests, r)
		}
	}
	return requests, nil
}

// Counts reports whether a request counts while the controller is idle: watches, which are renewed every few minutes, and leases do not.
func (r Request) Counts() bool { return r.Verb != "watch" && r.ObjectRef.Resource != "leases" }

// IsWrite reports whether the request changes something.
func (r Request) IsWrite() bool { return !slices.Contains([]string{"get", "list", "watch"}, r.Verb) }

// String returns the text by which requests are counted.
func (r Request) String() string {
	text := r.Verb + " " + cmp.Or(r.ObjectRef.Resource, "(no resource)")
	if r.ObjectRef.Subresource != "" {
		text += "/" + r.ObjectRef.Subresource
	}
	if r.ResponseStatus.Code >= 400 {
		text += fmt.Sprintf(" (%d)", r.ResponseStatus.Code)
	}
	return text
}

// Only returns the requests that match.
func (all Requests) Only(match func(Request) bool) Requests {
	return slices.DeleteFunc(slices.Clone(all), func(r Request) bool { return !match(r) })
}

// Period returns the time from the beginning of the first request to the end of the last one.
func (all Requests) Period() time.Duration {
	if len(all) == 0 {
		return 0
	}
	first := slices.MinFunc(all, func(a, b Request) int { return a.RequestReceivedTimestamp.Compare(b.RequestReceivedTimestamp.Time) })
	last := slices.MaxFunc(all, func(a, b Request) int { return a.StageTimestamp.Compare(b.StageTimestamp.Time) })
	return last.StageTimestamp.Sub(first.RequestReceivedTimestamp.Time)
}

// String counts the requests by verb and resource, the most frequent first.
func (all Requests) String() string {
	counts := map[string]int{}
	for _, r := range all {
		counts[r.String()]++
	}
	if len(counts) == 0 {
		return "none"
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", counts[name], name)
	}
	return strings.Join(names, ", ")
}

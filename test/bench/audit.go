package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// auditPolicy records only the requests of the measured ServiceAccounts, because the log costs time.
func auditPolicy(users ...string) []byte {
	return []byte(`apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["` + strings.Join(users, `", "`) + `"]
- level: None
`)
}

// request contains the fields of an audit event that are used.
type request struct {
	Verb  string `json:"verb"`
	Stage string `json:"stage"`
	User  struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		APIGroup    string `json:"apiGroup"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Begin time.Time `json:"requestReceivedTimestamp"`
	End   time.Time `json:"stageTimestamp"`
}

// auditLog is the API server's log of requests.
type auditLog struct{ file string }

// end returns the current end of the log.
func (l auditLog) end() (int64, error) {
	info, err := os.Stat(l.file)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at audit log: %w", err)
	}
	return info.Size(), nil
}

// since returns the requests of the user that were logged after that place.
func (l auditLog) since(place int64, user string) (requests []request, err error) {
	file, err := os.Open(l.file)
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err = file.Seek(place, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	return parseAudit(data, user)
}

// parseAudit reads one event per line and returns the user's requests, each once: a watch when it started, all others when they ended. It
// skips text after the last line end, which is not complete yet.
func parseAudit(data []byte, user string) ([]request, error) {
	var requests []request
	for {
		line, rest, complete := bytes.Cut(data, []byte("\n"))
		if !complete {
			return requests, nil
		}
		data = rest
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("read audit log: %w", err)
		}
		ends := "ResponseComplete"
		if r.Verb == "watch" {
			ends = "ResponseStarted"
		}
		if r.User.Username == user && r.Stage == ends {
			requests = append(requests, r)
		}
	}
}

func (r request) isWatch() bool { return r.Verb == "watch" }

func (r request) isLease() bool { return r.ObjectRef.Resource == "leases" }

// isManaged reports whether the request was about objects of the sets: of their kinds, and not in the namespace of the Secrets that
// describe them. A request for a kind in all namespaces counts.
func (r request) isManaged() bool {
	return r.ObjectRef.Namespace != sourceNamespace && slices.ContainsFunc(resourcesOf(managedKinds()), func(resource string) bool {
		return resource == r.ObjectRef.APIGroup+"/"+r.ObjectRef.Resource
	})
}

// String returns the text by which requests are counted.
func (r request) String() string {
	resource := r.ObjectRef.Resource
	switch {
	case resource == "":
		resource = "(no resource)"
	case r.ObjectRef.Subresource != "":
		resource += "/" + r.ObjectRef.Subresource
	}
	if r.ObjectRef.Namespace == sourceNamespace && r.ObjectRef.Resource == "secrets" {
		resource += " of the source"
	}
	text := r.Verb + " " + resource
	if r.ResponseStatus.Code >= 400 {
		text += fmt.Sprintf(" (%d)", r.ResponseStatus.Code)
	}
	return text
}

// count returns how many requests match.
func count(requests []request, match func(request) bool) int {
	n := 0
	for _, r := range requests {
		if match(r) {
			n++
		}
	}
	return n
}

// pressure returns how many requests the API server processed concurrently, on average from the first to the last one, and how long one
// took. This shows whether the client waits for the API server or for itself.
func pressure(requests []request) string {
	var begin, end time.Time
	var busy time.Duration
	n := 0
	for _, r := range requests {
		if !counted(r) {
			continue
		}
		if n == 0 || r.Begin.Before(begin) {
			begin = r.Begin
		}
		if r.End.After(end) {
			end = r.End
		}
		busy += r.End.Sub(r.Begin)
		n++
	}
	if n == 0 || !end.After(begin) {
		return "none"
	}
	return fmt.Sprintf("%d, on average %.1f at a time, each %s", n, float64(busy)/float64(end.Sub(begin)), (busy / time.Duration(n)).Round(100*time.Microsecond))
}

// counted reports whether a request counts while the controller is idle: watches and leases do not.
func counted(r request) bool { return !r.isWatch() && !r.isLease() }

// summary counts the requests that match by verb and resource, the most frequent first.
func summary(requests []request, match func(request) bool) string {
	counts := map[string]int{}
	for _, r := range requests {
		if match(r) {
			counts[r.String()]++
		}
	}
	if len(counts) == 0 {
		return "none"
	}
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if d := counts[b] - counts[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, 0, len(names))
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	return strings.Join(parts, ", ")
}

func (r request) isWrite() bool {
	switch r.Verb {
	case "get", "list", "watch":
		return false
	default:
		return true
	}
}

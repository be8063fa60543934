package harness

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// route is the resource that the path of a request addresses.
type route struct{ group, resource, namespace, name, subresource string }

// parse reads the path of an API request; ok is false for discovery and for paths outside of the API.
func parse(path string) (at route, ok bool) {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(segments) > 2 && segments[0] == "api":
		segments = segments[2:]
	case len(segments) > 3 && segments[0] == "apis":
		at.group, segments = segments[1], segments[3:]
	default:
		return route{}, false
	}
	if segments[0] == "namespaces" && len(segments) > 2 && segments[2] != "finalize" && segments[2] != "status" {
		at.namespace, segments = segments[1], segments[2:]
	}
	for i, part := range []*string{&at.resource, &at.name, &at.subresource} {
		if i < len(segments) {
			*part = segments[i]
		}
	}
	return at, true
}

// Counts reports whether a request is a point at which a process can be cut off. Excluded are requests whose number does not depend on the
// work alone: watches and the lists that start them, requests of every start (discovery, access reviews, the identity of the cluster),
// leases, Events, and two kinds of reads: that of a ManagedResource, which happens when a cache is behind, and that of a
// CustomResourceDefinition, which is repeated until it is served. A cut at a read that does not count is equivalent to one at the next or
// last request that counts: the state of the API servers is the same.
func Counts(request *http.Request) bool {
	at, ok := parse(request.URL.Path)
	if !ok || at.namespace == "kube-system" || at.resource == "namespaces" && at.name == "kube-system" {
		return false
	}
	if slices.Contains([]string{"events", "leases", "selfsubjectaccessreviews"}, at.resource) {
		return false
	}
	if request.Method != http.MethodGet {
		return true
	}
	query := request.URL.Query()
	if query.Has("watch") || at.name == "" && (query.Has("resourceVersion") || query.Has("sendInitialEvents")) {
		return false
	}
	return at.resource != "managedresources" && at.resource != "customresourcedefinitions"
}

// watches reports whether a request opens a watch.
func watches(request *http.Request) bool { return request.URL.Query().Has("watch") }

// CountsWithoutVerdicts is Counts without the writes that only report the health of a set's objects. If controllers of the cluster work on
// these objects, the number of such writes depends on their speed.
func CountsWithoutVerdicts(request *http.Request) bool { return Counts(request) && !isVerdict(request) }

// isVerdict reports whether a request writes only conditions of a set that is applied.
func isVerdict(request *http.Request) bool {
	at, _ := parse(request.URL.Path)
	if request.Method != http.MethodPatch || at.resource != "managedresources" || at.subresource != "status" || request.GetBody == nil {
		return false
	}
	body, err := request.GetBody()
	if err != nil {
		return false
	}
	var patch struct {
		Status map[string]json.RawMessage `json:"status"`
	}
	if json.NewDecoder(body).Decode(&patch) != nil || len(patch.Status) != 1 {
		return false
	}
	conditions := string(patch.Status["conditions"])
	return strings.Contains(conditions, `"ApplySucceeded"`) && !strings.Contains(conditions, `"DeletionPending"`) &&
		!strings.Contains(conditions, `"ChecksPending"`)
}

package harness

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/test/binary"
)

// Counts reports whether a request is a point at which a process can be cut off. Excluded are requests whose number does not depend on the
// work alone: watches and the lists that start them, requests of every start (discovery, access reviews, the identity of the cluster),
// leases, Events, and two kinds of reads: the read of a ManagedResource, which happens when a cache is behind, and the read of a
// CustomResourceDefinition, which is repeated until it is served. A cut at a read that does not count is equivalent to a cut at the next or
// last request that counts: the state of the API servers is the same.
func Counts(request *http.Request) bool {
	info := binary.Info(request)
	switch {
	case !info.IsResourceRequest, info.Namespace == metav1.NamespaceSystem,
		slices.Contains([]string{"events", "leases", "selfsubjectaccessreviews"}, info.Resource):
		return false
	case request.Method != http.MethodGet:
		return true
	case info.Verb == "watch", info.Verb == "list" && request.URL.Query().Has("resourceVersion"):
		return false
	}
	return info.Resource != "managedresources" && info.Resource != "customresourcedefinitions"
}

// CountsWithoutVerdicts is Counts without the writes that only report the health of a set's objects. If controllers of Kubernetes process
// these objects, the number of such writes depends on the speed of these controllers.
func CountsWithoutVerdicts(request *http.Request) bool { return Counts(request) && !isVerdict(request) }

// isVerdict reports whether a request writes only conditions of a set that is applied.
func isVerdict(request *http.Request) bool {
	info := binary.Info(request)
	if info.Verb != "patch" || info.Resource != "managedresources" || info.Subresource != "status" || request.GetBody == nil {
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

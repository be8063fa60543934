package served

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// State says whether a kind is served.
type State string

const (
	// Served means that the API server serves the kind, and that the cache has all of its objects.
	Served State = "served"
	// Absent means that the API server certainly has no objects of the kind.
	Absent State = "absent"
	// Unknown means that there may be objects that the cache does not have.
	Unknown State = "unknown"
)

// Finding is the knowledge of the Tracker about a kind.
type Finding struct {
	State State
	// Why names the obstacle to a definite answer. It is empty while the Tracker is still asking and has seen no error.
	Why string
}

func unknown(format string, args ...any) Finding {
	return Finding{State: Unknown, Why: fmt.Sprintf(format, args...)}
}

// service is an APIService of a group.
type service struct {
	name, version string
	uid           types.UID
	// backed is true if this version is served by another server, not by the API server itself.
	backed, available bool
	message           string
}

// facts are the answers of the API server about the group of a kind.
type facts struct {
	// problem is why the other facts are incomplete; nil if they are complete.
	problem  error
	services []service
	// definitions are the existing CustomResourceDefinitions: the name is the key, the UID the value.
	definitions map[string]types.UID
	// listed are the kinds that discovery lists for the group's version.
	listed map[Kind]bool
	// complete is true if discovery lists the resource that is typical of the group.
	complete bool
}

// judge derives the state of a kind from the facts, and returns the UID of the CustomResourceDefinition or APIService that serves
// it. If that UID changes, the kind has other objects.
func judge(f facts, kind Kind) (Finding, types.UID) {
	if f.problem != nil {
		return unknown("%v", f.problem), ""
	}
	version, own, others := kind.version(), service{}, false
	for _, each := range f.services {
		switch {
		case each.backed && !each.available:
			return unknown("APIService %s is not available: %s", each.name, each.message), ""
		case each.version == version.Version:
			own = each
		case each.backed:
			others = true
		}
	}
	if own.backed {
		return judgeAggregated(f, kind), own.uid
	}
	uid, defined := f.definitions[kind.definition()]
	switch listed := f.listed[kind]; {
	case listed && defined:
		return Finding{State: Served}, uid
	case listed:
		return unknown("%s are listed, but have no CustomResourceDefinition", kind.Resource().Resource), ""
	case defined:
		return unknown("CustomResourceDefinition %s is there, but %s does not list its kind", kind.definition(), version), ""
	case others:
		return unknown("another version of %s may serve the kind", version.Group), ""
	default:
		return Finding{State: Absent}, ""
	}
}

// judgeAggregated judges a kind of an aggregated API. The kind is Absent only if the API's server lists the resource that is typical of the
// group: without it, the server is still starting or is shutting down.
func judgeAggregated(f facts, kind Kind) Finding {
	switch {
	case f.listed[kind]:
		return Finding{State: Served}
	case f.complete:
		return Finding{State: Absent}
	default:
		return unknown("the server of %s lists no %s", kind.version(), typicalResource(kind.version()))
	}
}

// answer is the result of one attempt to find out which kinds are served.
type answer struct {
	judged map[Kind]Finding
	// servedBy has the UID of the CustomResourceDefinition, or of the APIService of an aggregated API, on which each finding rests.
	servedBy map[Kind]types.UID
	// failed is true if the API server did not answer every request.
	failed bool
}

// judgeAll judges all kinds by the facts of their groups. Secrets are served in any case.
func judgeAll(known map[schema.GroupVersion]facts) answer {
	a := answer{judged: map[Kind]Finding{}, servedBy: map[Kind]types.UID{}}
	for _, kind := range Kinds() {
		f := known[kind.version()]
		a.judged[kind], a.servedBy[kind] = judge(f, kind)
		a.failed = a.failed || f.problem != nil
	}
	a.judged[Secret], a.servedBy[Secret] = Finding{State: Served}, ""
	return a
}

// needsRetry reports whether to ask again after a pause although nothing has changed. If the API server or the server of an aggregated API
// has not answered properly, the Tracker asks until it does. If an APIService is unavailable, or if the answers of the API server
// contradict each other, the Tracker stops when the pause has reached longestPause: this state may be permanent, and a watch reports the
// change that would end it. The Tracker does not ask again because of watches that have not filled their caches yet: they call back when
// they have.
func (a answer) needsRetry(pause time.Duration) bool {
	for kind, finding := range a.judged {
		if finding.State == Unknown && finding.Why != "" && (a.failed || a.servedBy[kind] != "" || pause < longestPause) {
			return true
		}
	}
	return false
}

// absentPerAggregatedAPI reports whether a kind is Absent only because an aggregated API says so. No watch reports when that API begins to
// serve the kind.
func (a answer) absentPerAggregatedAPI(kind Kind) bool {
	return a.judged[kind].State == Absent && a.servedBy[kind] != ""
}

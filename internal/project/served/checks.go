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
	// Served means that the API server has objects of the kind, and that the cache holds them.
	Served State = "served"
	// Absent means that the API server certainly has no objects of the kind.
	Absent State = "absent"
	// Unknown means that there may be objects which nobody sees now.
	Unknown State = "unknown"
)

// Finding is what is known of a kind.
type Finding struct {
	State State
	// Why says what is in the way. It is empty while the process is finding out, and nothing has gone wrong so far.
	Why string
}

func unknown(format string, args ...any) Finding {
	return Finding{State: Unknown, Why: fmt.Sprintf(format, args...)}
}

// service is an APIService of a group.
type service struct {
	name, version string
	uid           types.UID
	// backed tells that another server than the API server itself serves this version.
	backed, available bool
	message           string
}

// facts are what the API server has said of the group of a kind.
type facts struct {
	services []service
	// definitions are the CustomResourceDefinitions that there are, by name.
	definitions map[string]types.UID
	// listed are the kinds that discovery of the group's version has named.
	listed map[Kind]bool
	// complete says that discovery has named the resource that is typical of the group.
	complete bool
}

// judge returns what the facts say of a kind, and who serves it: a kind that is served by somebody else has other objects.
func judge(f facts, kind Kind) (Finding, types.UID) {
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

// judgeAggregated takes the word of a server of its own that it has no such kind only if it has what is typical of the group:
// without that it is not complete yet, or no longer.
func judgeAggregated(f facts, kind Kind) Finding {
	switch {
	case f.listed[kind]:
		return Finding{State: Served}
	case f.complete:
		return Finding{State: Absent}
	default:
		return unknown("the server of %s lists no %s", kind.version(), typical(kind.version()))
	}
}

// answer is what an attempt to find out has come to.
type answer struct {
	judged map[Kind]Finding
	// servedBy is whose word it is: that of a CustomResourceDefinition or of an APIService of another server.
	servedBy map[Kind]types.UID
	// failed tells that the API server has not answered everything.
	failed bool
}

// unanswered is what there is if nobody answers. Secrets are served in any case.
func unanswered(problem Finding) answer {
	a := answer{judged: map[Kind]Finding{}, servedBy: map[Kind]types.UID{}, failed: true}
	for _, kind := range Kinds() {
		a.judged[kind] = problem
	}
	a.judged[Secret] = Finding{State: Served}
	return a
}

// judgeAll returns what the facts of each group say. A group that has a problem has no facts.
func judgeAll(known map[schema.GroupVersion]facts, problems map[schema.GroupVersion]error) answer {
	a := answer{judged: map[Kind]Finding{}, servedBy: map[Kind]types.UID{}, failed: len(problems) > 0}
	for _, kind := range Kinds() {
		if problem := problems[kind.version()]; problem != nil {
			a.judged[kind] = unknown("%v", problem)
			continue
		}
		a.judged[kind], a.servedBy[kind] = judge(known[kind.version()], kind)
	}
	a.judged[Secret], a.servedBy[Secret] = Finding{State: Served}, ""
	return a
}

// asksAgain tells whether to ask again after a pause although nothing has changed: for ever if somebody has not answered
// well, but only for some time if what the API server has said of itself does not fit together. That may be so for good,
// and what would end it is watched. Watches that have not filled their caches yet call when they have.
func (a answer) asksAgain(pause time.Duration) bool {
	for kind, finding := range a.judged {
		if finding.State == Unknown && finding.Why != "" && (a.failed || a.servedBy[kind] != "" || pause < longestPause) {
			return true
		}
	}
	return false
}

// hearsay tells whether a kind is absent only because another server has said so. When that one begins to serve it, nothing
// that is watched changes.
func (a answer) hearsay(kind Kind) bool {
	return a.judged[kind].State == Absent && a.servedBy[kind] != ""
}

package highavailability

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/patch"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

// affinity is the part of a Pod's affinity that the handler reads. A term that is null in JSON is a nil pointer.
type affinity struct {
	Node *struct {
		Required *struct {
			Terms []object.Kept[*nodeSelectorTerm] `json:"nodeSelectorTerms"`
		} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
	} `json:"nodeAffinity"`
}

type nodeSelectorTerm struct {
	Expressions []object.Kept[expression] `json:"matchExpressions"`
	Others      jsontext.Value            `json:",embed"`
}

type expression struct {
	Key      string         `json:"key"`
	Operator string         `json:"operator"`
	Values   []string       `json:"values"`
	Others   jsontext.Value `json:",embed"`
}

// pin makes a requirement the last requirement of each node selector term: the Node is in one of the given zones. It removes all other
// requirements on zones. Every term needs the requirement, because a Node has to match only one of the terms.
func pin(changes *patch.Patch, have *affinity, zones []string) {
	const path = specOfPods + "/affinity"
	want := corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: zones}
	terms := []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{want}}}
	required := corev1.NodeSelector{NodeSelectorTerms: terms}
	switch {
	case have == nil:
		changes.Add(path, corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &required}})
	case have.Node == nil:
		changes.Add(path+"/nodeAffinity", corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &required})
	case have.Node.Required == nil:
		changes.Add(path+"/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution", required)
	case len(have.Node.Required.Terms) == 0:
		changes.Add(path+"/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms", terms)
	default:
		pinTerms(changes, path+"/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms", have.Node.Required.Terms, want)
	}
}

// pinTerms replaces the whole list if one of its terms must change: there may be more terms than a patch may have operations.
func pinTerms(changes *patch.Patch, path string, have []object.Kept[*nodeSelectorTerm], want corev1.NodeSelectorRequirement) {
	if !slices.ContainsFunc(have, func(term object.Kept[*nodeSelectorTerm]) bool { return !term.Read.isPinned(want) }) {
		return
	}
	list := make([]any, 0, len(have))
	for _, term := range have {
		if term.Read.isPinned(want) {
			list = append(list, term)
		} else {
			list = append(list, term.Read.pinned(want))
		}
	}
	changes.Add(path, list)
}

// isPinned reports whether want is the last requirement of the term, and its only one on zones.
func (t *nodeSelectorTerm) isPinned(want corev1.NodeSelectorRequirement) bool {
	if t == nil {
		return false
	}
	first := slices.IndexFunc(t.Expressions, func(each object.Kept[expression]) bool { return each.Read.Key == want.Key })
	return first >= 0 && first == len(t.Expressions)-1 && t.Expressions[first].Read.is(want)
}

// pinned returns the term with want as its last requirement, and its only one on zones.
func (t *nodeSelectorTerm) pinned(want corev1.NodeSelectorRequirement) pinnedTerm {
	if t == nil {
		return pinnedTerm{Expressions: []any{want}}
	}
	list := make([]any, 0, len(t.Expressions)+1)
	for _, each := range t.Expressions {
		if each.Read.Key != want.Key {
			list = append(list, each)
		}
	}
	return pinnedTerm{Expressions: append(list, want), Others: t.Others}
}

// pinnedTerm is a term in the form in which the patch contains it.
type pinnedTerm struct {
	Expressions []any          `json:"matchExpressions"`
	Others      jsontext.Value `json:",embed"`
}

// MarshalJSON encodes the term with its other members, also if the caller uses encoding/json.
func (t pinnedTerm) MarshalJSON() ([]byte, error) {
	type plain pinnedTerm
	return json.Marshal(plain(t), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

func (e expression) is(want corev1.NodeSelectorRequirement) bool {
	return e.Key == want.Key && e.Operator == string(want.Operator) && slices.Equal(e.Values, want.Values) && len(e.Others) == 0
}

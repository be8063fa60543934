package highavailability

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/patch"
)

// affinity is what is read of a Pod's. Terms are nil where they are null.
type affinity struct {
	Node *struct {
		Required *struct {
			Terms []*nodeSelectorTerm `json:"nodeSelectorTerms"`
		} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
	} `json:"nodeAffinity"`
}

type nodeSelectorTerm struct {
	Expressions []kept[expression] `json:"matchExpressions"`
}

type expression struct {
	Key      string         `json:"key"`
	Operator string         `json:"operator"`
	Values   []string       `json:"values"`
	Others   jsontext.Value `json:",embed"`
}

// pin lets every required term end with the requirement to be in one of the zones, and removes what else a term says of
// zones. Terms are alternatives, hence each needs it.
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
		for i, term := range have.Node.Required.Terms {
			pinTerm(changes, path+"/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"+patch.Pointer(i), term, want)
		}
	}
}

func pinTerm(changes *patch.Patch, path string, have *nodeSelectorTerm, want corev1.NodeSelectorRequirement) {
	if have == nil {
		changes.Remove(path)
		changes.Add(path, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{want}})
		return
	}
	ofZones := func(each kept[expression]) bool { return each.Read.Key == want.Key }
	if first := slices.IndexFunc(have.Expressions, ofZones); first >= 0 && first == len(have.Expressions)-1 && have.Expressions[first].Read.is(want) {
		return
	}
	list := make([]any, 0, len(have.Expressions)+1)
	for _, each := range have.Expressions {
		if !ofZones(each) {
			list = append(list, each)
		}
	}
	changes.Add(path+"/matchExpressions", append(list, want))
}

func (e expression) is(want corev1.NodeSelectorRequirement) bool {
	return e.Key == want.Key && e.Operator == string(want.Operator) && slices.Equal(e.Values, want.Values) && len(e.Others) == 0
}

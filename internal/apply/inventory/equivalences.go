package inventory

import (
	"cmp"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// builtInEquivalences returns the kinds that moved from one API group to another, each with all its groups.
func builtInEquivalences() [][]metav1.GroupKind {
	return [][]metav1.GroupKind{
		{{Group: "extensions", Kind: "Deployment"}, {Group: "apps", Kind: "Deployment"}},
		{{Group: "extensions", Kind: "DaemonSet"}, {Group: "apps", Kind: "DaemonSet"}},
		{{Group: "extensions", Kind: "ReplicaSet"}, {Group: "apps", Kind: "ReplicaSet"}},
		{{Group: "extensions", Kind: "StatefulSet"}, {Group: "apps", Kind: "StatefulSet"}},
		{{Group: "extensions", Kind: "Ingress"}, {Group: "networking.k8s.io", Kind: "Ingress"}},
		{{Group: "extensions", Kind: "NetworkPolicy"}, {Group: "networking.k8s.io", Kind: "NetworkPolicy"}},
		{{Group: "extensions", Kind: "PodSecurityPolicy"}, {Group: "policy", Kind: "PodSecurityPolicy"}},
	}
}

// Equivalences contains lists of equivalent kinds, through which the API server serves the same objects, such as an Ingress of two API
// groups. The zero value contains none.
type Equivalences struct {
	// others contains, for each kind, the other kinds of its list, sorted.
	others map[metav1.GroupKind][]metav1.GroupKind
}

// NewEquivalences returns the built-in lists and the additional lists of the caller. Lists that share a kind become one list.
func NewEquivalences(additional [][]metav1.GroupKind) Equivalences {
	members := map[metav1.GroupKind]sets.Set[metav1.GroupKind]{}
	for _, set := range append(builtInEquivalences(), additional...) {
		united := sets.New(set...)
		for _, groupKind := range set {
			united = united.Union(members[groupKind])
		}
		for groupKind := range united {
			members[groupKind] = united
		}
	}
	others := make(map[metav1.GroupKind][]metav1.GroupKind, len(members))
	for groupKind, united := range members {
		rest := united.Clone().Delete(groupKind)
		others[groupKind] = slices.SortedFunc(maps.Keys(rest), compareGroupKinds)
	}
	return Equivalences{others: others}
}

// Of returns the kinds that are equivalent to gk, without gk itself, sorted by group and kind; nil if there are none. The caller must not
// change the result.
func (e Equivalences) Of(gk metav1.GroupKind) []metav1.GroupKind {
	return e.others[gk]
}

func compareGroupKinds(a, b metav1.GroupKind) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind))
}

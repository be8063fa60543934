package handlers

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/patch"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

// toleration is a toleration of a Pod. Others contains fields that are newer than this code; tolerations may differ in them.
type toleration struct {
	Key      string                    `json:"key"`
	Operator corev1.TolerationOperator `json:"operator"`
	Value    string                    `json:"value"`
	Effect   corev1.TaintEffect        `json:"effect"`
	Seconds  *int64                    `json:"tolerationSeconds"`
	Others   jsontext.Value            `json:",embed"`
}

// tolerationIdentity is the same for equal tolerations.
type tolerationIdentity struct {
	key, value, others string
	operator           corev1.TolerationOperator
	effect             corev1.TaintEffect
	limited            bool
	seconds            int64
}

func (t toleration) identity() tolerationIdentity {
	same := tolerationIdentity{key: t.Key, operator: t.Operator, value: t.Value, effect: t.Effect, others: string(t.Others)}
	if t.Seconds != nil {
		same.limited, same.seconds = true, *t.Seconds
	}
	return same
}

// tolerate appends the wanted tolerations that are missing in the list of a Pod, in their order. If the list has duplicates, tolerate
// replaces the whole list by a list without duplicates: the removal of single items is slow, because API servers move all later items
// after each removal.
func tolerate(changes *patch.Patch, have []object.Kept[toleration], want []corev1.Toleration) {
	known := make(map[tolerationIdentity]struct{}, len(have)+len(want))
	once := make([]any, 0, len(have))
	for _, each := range have {
		if learn(known, each.Read) {
			once = append(once, each)
		}
	}
	var missing []any
	for _, each := range want {
		if learn(known, toleration{
			Key: each.Key, Operator: each.Operator, Value: each.Value, Effect: each.Effect, Seconds: each.TolerationSeconds,
		}) {
			missing = append(missing, each)
		}
	}
	if len(once) < len(have) {
		changes.Add("/spec/tolerations", append(once, missing...))
		return
	}
	patch.Append(changes, "/spec/tolerations", len(have), missing...)
}

// learn adds a toleration to the known ones, and reports whether it was unknown.
func learn(known map[tolerationIdentity]struct{}, t toleration) bool {
	before := len(known)
	known[t.identity()] = struct{}{}
	return len(known) > before
}

// tolerationsOf returns tolerations for the taints, without a time limit, sorted. It ignores the taints that Kubernetes or the cluster
// autoscaler sets: such taints are temporary, and show the state of a Node.
func tolerationsOf(taints []corev1.Taint) []corev1.Toleration {
	known := map[corev1.Toleration]struct{}{} // no toleration sets seconds, a pointer, so equal tolerations are one key
	for _, taint := range taints {
		if !isTemporary(taint.Key) {
			known[tolerationOf(taint)] = struct{}{}
		}
	}
	return slices.SortedFunc(maps.Keys(known), func(a, b corev1.Toleration) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
}

func tolerationOf(taint corev1.Taint) corev1.Toleration {
	operator := corev1.TolerationOpEqual
	if taint.Value == "" {
		operator = corev1.TolerationOpExists
	}
	return corev1.Toleration{Key: taint.Key, Operator: operator, Value: taint.Value, Effect: taint.Effect}
}

// isTemporary reports whether Kubernetes or the cluster autoscaler sets the taint itself.
func isTemporary(key string) bool {
	return strings.Contains(key, "kubernetes.io/") || key == "ToBeDeletedByClusterAutoscaler"
}

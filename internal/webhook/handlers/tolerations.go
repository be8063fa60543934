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

// toleration is a toleration of a Pod. Others has the fields that the API got after this code was written: tolerations may differ
// in them.
type toleration struct {
	Key      string                    `json:"key"`
	Operator corev1.TolerationOperator `json:"operator"`
	Value    string                    `json:"value"`
	Effect   corev1.TaintEffect        `json:"effect"`
	Seconds  *int64                    `json:"tolerationSeconds"`
	Others   jsontext.Value            `json:",embed"`
}

// tolerationIdentity is equal for tolerations that say the same.
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

// tolerate appends the missing ones of the wanted tolerations to a Pod's list, in their order. If the list has duplicates, it is
// replaced by a list without them: if one item is removed, API servers move all items after it.
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

// learn is true if the toleration was unknown.
func learn(known map[tolerationIdentity]struct{}, t toleration) bool {
	before := len(known)
	known[t.identity()] = struct{}{}
	return len(known) > before
}

// tolerationsOf returns tolerations of the taints, without a time limit, sorted. Taints that come and go with the state of a node
// get none.
func tolerationsOf(taints []corev1.Taint) []corev1.Toleration {
	known := map[corev1.Toleration]struct{}{} // none has seconds, so that equal ones are one key
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

// isTemporary is true for taints that Kubernetes and the cluster autoscaler set themselves.
func isTemporary(key string) bool {
	return strings.Contains(key, "kubernetes.io/") || key == "ToBeDeletedByClusterAutoscaler"
}

package topologyspread

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/admission/patch"
)

// hashLabel tells Pods of one revision of a Deployment from those of others.
const hashLabel = "pod-template-hash"

// pod is what the handler reads of a Pod. Constraints that are null stay so.
type pod struct {
	Metadata struct {
		Labels hash `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Constraints []*constraint `json:"topologySpreadConstraints"`
	} `json:"spec"`
}

// hash is what is read of labels.
type hash struct {
	Value *string `json:"pod-template-hash"`
}

type constraint struct {
	Selector       *selector `json:"labelSelector"`
	MatchLabelKeys []string  `json:"matchLabelKeys"`
}

type selector struct {
	MatchLabels      *hash         `json:"matchLabels"`
	MatchExpressions []requirement `json:"matchExpressions"`
}

type requirement struct {
	Key      string                       `json:"key"`
	Operator metav1.LabelSelectorOperator `json:"operator"`
}

// plan narrows each constraint that does not choose among revisions yet to the revision of the Pod itself.
func plan(found pod) patch.Patch {
	changes := patch.Patch{}
	own := found.Metadata.Labels.Value
	if own == nil {
		return changes
	}
	labels := map[string]string{hashLabel: *own}
	for i, each := range found.Spec.Constraints {
		if len(changes) > patch.MaxOperations { // which is refused
			break
		}
		switch at := patch.Pointer("spec", "topologySpreadConstraints", i, "labelSelector"); {
		case each == nil || each.matchesOwn() || choosesRevision(each.Selector):
		case each.Selector == nil:
			changes.Add(at, metav1.LabelSelector{MatchLabels: labels})
		case each.Selector.MatchLabels == nil:
			changes.Add(at+"/matchLabels", labels)
		default:
			changes.Add(at+patch.Pointer("matchLabels", hashLabel), *own)
		}
	}
	return changes
}

// matchesOwn is true for constraints that have the API server do the same. It refuses a key that the selector has too. This
// goes beyond Gardener, which knows no such field.
func (c *constraint) matchesOwn() bool { return slices.Contains(c.MatchLabelKeys, hashLabel) }

// choosesRevision is true for selectors that name revisions of any Deployment; those that only exclude some do not count.
func choosesRevision(s *selector) bool {
	if s == nil {
		return false
	}
	return s.MatchLabels != nil && s.MatchLabels.Value != nil ||
		slices.Contains(s.MatchExpressions, requirement{Key: hashLabel, Operator: metav1.LabelSelectorOpIn})
}

package handlers

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/admission/patch"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

const skipSpread = "topology-spread-constraints.resources.gardener.cloud/skip"

// podTopologySpread spreads the Pods of each revision of a Deployment separately: it adds the value of the label pod-template-hash to the
// selectors of the topology spread constraints of a Pod. Newer API servers do the same if matchLabelKeys contains pod-template-hash.
func podTopologySpread() Handler {
	return Handler{
		Name: "pod-topology-spread-constraints", Path: "/webhooks/pod-topology-spread-constraints", Mutating: true,
		Section: "podTopologySpreadConstraints", Switch: func(w *config.Webhooks) *bool { return &w.PodTopologySpread.Enabled },
		Registered: true,
		Webhooks: func(in Cluster) []registration.Webhook {
			required := []metav1.LabelSelectorRequirement{in.NotOwn(), registration.Absent(skipSpread)}
			if in.Plain() { // the handler changes only Pods with this label
				required = append(required, registration.Exists(hashLabel))
			}
			return []registration.Webhook{{
				Rules:      createdPods(),
				Namespaces: registration.Selection{Standard: true},
				Objects:    registration.Selection{Standard: true, Labels: in.Pods(required...)},
			}}
		},
		Policy: topologySpreadPolicy(),
		Review: func(Settings) review.Handler {
			return object.Change(corev1.SchemeGroupVersion.WithKind("Pod"), planTopologySpread)
		},
	}
}

func topologySpreadPolicy() *Policy {
	const (
		key      = hashLabel
		label    = "{'" + key + "': object.metadata.labels['" + key + "']}"
		selector = "Object.spec.topologySpreadConstraints.labelSelector{matchLabels: " + label + "}"
		// API servers refuse the key in both the selector and matchLabelKeys; matchLabelKeys alone has the same effect.
		keyed = "has(c.matchLabelKeys) && '" + key + "' in c.matchLabelKeys"
		named = "has(c.labelSelector) && (has(c.labelSelector.matchLabels) && '" + key + "' in c.labelSelector.matchLabels || " +
			"has(c.labelSelector.matchExpressions) && c.labelSelector.matchExpressions.exists(e, e.key == '" + key + "' && e.operator == 'In'))"
	)
	return &Policy{
		Conditions: []admissionregistrationv1.MatchCondition{
			condition("is-of-deployment", "has(object.metadata.labels) && '"+key+"' in object.metadata.labels"),
			condition("has-constraints", "has(object.spec.topologySpreadConstraints)"),
		},
		Patch: eachOf("spec.topologySpreadConstraints", "c", "!("+keyed+") && !("+named+")", func(at string) string {
			return fmt.Sprintf(`!has(c.labelSelector)
    ? JSONPatch{op: 'add', path: %[1]s/labelSelector', value: %[2]s}
    : !has(c.labelSelector.matchLabels)
      ? JSONPatch{op: 'add', path: %[1]s/labelSelector/matchLabels', value: %[3]s}
      : JSONPatch{op: 'add', path: %[1]s/labelSelector/matchLabels/%[4]s', value: object.metadata.labels['%[4]s']}`, at, selector, label,
				key)
		}),
	}
}

// hashLabel distinguishes the Pods of one revision of a Deployment from Pods of other revisions.
const hashLabel = "pod-template-hash"

// spreadPod is the part of a Pod that the handler reads. A constraint that is null in JSON is a nil pointer.
type spreadPod struct {
	Metadata struct {
		Labels revisionLabels `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Constraints []*spreadConstraint `json:"topologySpreadConstraints"`
	} `json:"spec"`
}

// revisionLabels contains the label that names the revision.
type revisionLabels struct {
	Value *string `json:"pod-template-hash"`
}

type spreadConstraint struct {
	Selector       *spreadSelector `json:"labelSelector"`
	MatchLabelKeys []string        `json:"matchLabelKeys"`
}

type spreadSelector struct {
	MatchLabels      *revisionLabels     `json:"matchLabels"`
	MatchExpressions []spreadRequirement `json:"matchExpressions"`
}

type spreadRequirement struct {
	Key      string                       `json:"key"`
	Operator metav1.LabelSelectorOperator `json:"operator"`
}

// planTopologySpread restricts each constraint to the revision of the Pod, unless its selector already chooses a revision.
func planTopologySpread(found spreadPod) patch.Patch {
	changes := patch.Patch{}
	own := found.Metadata.Labels.Value
	if own == nil {
		return changes
	}
	labels := map[string]string{hashLabel: *own}
	for i, each := range found.Spec.Constraints {
		if len(changes) > patch.MaxOperations { // then Encode refuses the patch
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

// matchesOwn reports whether matchLabelKeys of the constraint contains pod-template-hash. Then the API server itself restricts the
// constraint to the revision, and refuses the constraint if its selector contains this key too. Gardener does not check matchLabelKeys.
func (c *spreadConstraint) matchesOwn() bool { return slices.Contains(c.MatchLabelKeys, hashLabel) }

// choosesRevision reports whether a selector names the revisions that it selects. It returns false if the selector only excludes some.
func choosesRevision(s *spreadSelector) bool {
	if s == nil {
		return false
	}
	return s.MatchLabels != nil && s.MatchLabels.Value != nil ||
		slices.Contains(s.MatchExpressions, spreadRequirement{Key: hashLabel, Operator: metav1.LabelSelectorOpIn})
}

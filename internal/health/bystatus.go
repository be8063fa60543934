package health

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// reporting is what is needed of an object that follows the conventions on status.
type reporting struct {
	Metadata struct {
		DeletionTimestamp string `json:"deletionTimestamp"`
		Generation        *int64 `json:"generation"`
	} `json:"metadata"`
	Status struct {
		ObservedGeneration *int64      `json:"observedGeneration"`
		Conditions         []condition `json:"conditions"`
	} `json:"status"`
}

// JudgeByStatus judges an object of a kind without rule the way kstatus does. The first that applies decides:
//
//   - it is being deleted: unhealthy;
//   - status.observedGeneration is there and is not metadata.generation: unhealthy and progressing;
//   - condition Reconciling is True: unhealthy and progressing;
//   - condition Stalled is True: unhealthy, and no longer progressing (of these two conditions the one listed first counts);
//   - a PersistentVolumeClaim is not Bound: unhealthy and progressing;
//   - condition Ready is False or Unknown: unhealthy and progressing.
//
// An object of which nothing of this is known is healthy. Kinds that have a rule should be given to Judge: what kstatus
// knows of them in particular is not repeated here. The annotation resources.gardener.cloud/skip-health-check is obeyed.
func JudgeByStatus(object *unstructured.Unstructured) Verdict {
	if skippedUntyped(object) {
		return Verdict{}
	}
	particular := unready
	if object.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "PersistentVolumeClaim"}) {
		phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
		particular = func([]condition) string { return unbound(phase) }
	}
	return reading(func(r *reporting) Verdict { return byStatus(r, particular) })(object)
}

// byStatus judges by what all kinds have in common, and asks at last what is particular to the object's kind.
func byStatus(r *reporting, particular func([]condition) string) Verdict {
	if r.Metadata.DeletionTimestamp != "" {
		return Verdict{Checked: true, Unhealthy: "object is being deleted"}
	}
	if text := unobserved(r.Status.ObservedGeneration, r.Metadata.Generation); text != "" {
		return inProgress(text)
	}
	for _, c := range r.Status.Conditions {
		switch {
		case c.Type == "Reconciling" && c.Status == isTrue:
			return inProgress(differs(c, isFalse))
		case c.Type == "Stalled" && c.Status == isTrue:
			return Verdict{Checked: true, Unhealthy: differs(c, isFalse)}
		}
	}
	return inProgress(particular(r.Status.Conditions))
}

// inProgress is the verdict on an object that is not there yet, but may be; "" is the one on an object that is.
func inProgress(text string) Verdict {
	return Verdict{Checked: true, Unhealthy: text, Progressing: text}
}

func unobserved(seen, generation *int64) string {
	if seen == nil || generation == nil || *seen == *generation {
		return ""
	}
	return fmt.Sprintf("observed generation outdated (%d/%d)", *seen, *generation)
}

func unbound(phase string) string {
	if phase == "Bound" {
		return ""
	}
	return fmt.Sprintf("phase is %q (expected %q)", phase, "Bound")
}

// unready looks at the first Ready condition whose status is one that conditions can have.
func unready(conditions []condition) string {
	at := slices.IndexFunc(conditions, func(c condition) bool {
		return c.Type == "Ready" && (c.Status == isTrue || c.Status == isFalse || c.Status == string(metav1.ConditionUnknown))
	})
	if at < 0 {
		return ""
	}
	return differs(conditions[at], isTrue)
}

package health

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// reporting contains the fields that JudgeByStatus reads from any object.
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

// JudgeByStatus returns the verdict about an object whose kind has no rule, like kstatus. The first rule that applies decides:
//
//   - the object is being deleted: unhealthy;
//   - status.observedGeneration exists and is not metadata.generation: unhealthy and progressing;
//   - condition Reconciling is True: unhealthy and progressing;
//   - condition Stalled is True: unhealthy, and no longer progressing (of these two conditions the one listed first counts);
//   - the object is a PersistentVolumeClaim: healthy if it is Bound, otherwise unhealthy and progressing;
//   - condition Ready is False or Unknown: unhealthy and progressing.
//
// An object to which none of these rules applies is healthy. For kinds with a rule use Judge, because JudgeByStatus does not implement the
// specific rules of kstatus for these kinds. An object with the annotation resources.gardener.cloud/skip-health-check, "true", is not
// judged.
func JudgeByStatus(object *unstructured.Unstructured) Verdict {
	if skippedUntyped(object) {
		return Verdict{}
	}
	return reading(func(r *reporting) Verdict { return byStatus(r, object) })(object)
}

// byStatus applies the checks for all kinds first, and then the specific check of the object's kind.
func byStatus(r *reporting, object *unstructured.Unstructured) Verdict {
	if r.Metadata.DeletionTimestamp != "" {
		return Verdict{Checked: true, Unhealthy: "object is being deleted"}
	}
	if text := unobserved(r.Status.ObservedGeneration, r.Metadata.Generation); text != "" {
		return Verdict{Checked: true, Unhealthy: text, Progressing: text, Unobserved: true}
	}
	for _, c := range r.Status.Conditions {
		switch {
		case c.Type == "Reconciling" && c.Status == isTrue:
			return inProgress(differs(c, isFalse))
		case c.Type == "Stalled" && c.Status == isTrue:
			return Verdict{Checked: true, Unhealthy: differs(c, isFalse)}
		}
	}
	if object.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "PersistentVolumeClaim"}) {
		phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
		return inProgress(unbound(phase))
	}
	return inProgress(unready(r.Status.Conditions))
}

// inProgress returns the verdict about an object that is not ready yet; text is the reason. "" means that the object is ready.
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

// unready returns the text about the first condition Ready with a valid status; "" if it is True or missing.
func unready(conditions []condition) string {
	at := slices.IndexFunc(conditions, func(c condition) bool {
		return c.Type == "Ready" && (c.Status == isTrue || c.Status == isFalse || c.Status == string(metav1.ConditionUnknown))
	})
	if at < 0 {
		return ""
	}
	return differs(conditions[at], isTrue)
}

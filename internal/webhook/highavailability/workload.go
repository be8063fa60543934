package highavailability

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/admission/patch"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

const statefulSet = "StatefulSet"

// workload is the part of a Deployment or StatefulSet that the handler reads.
type workload struct {
	Metadata metadata `json:"metadata"`
	Spec     *struct {
		Replicas *int32                `json:"replicas"`
		Selector *metav1.LabelSelector `json:"selector"`
		Template *podTemplate          `json:"template"`
	} `json:"spec"`
}

// spreadSelector returns the selector of the Pods that are spread against each other. For a StatefulSet it is the selector of the
// StatefulSet, which stays the same in all rollouts. Other labels of the Pods can change: a Pod with a new label would not be spread
// against the Pods without this label. It could be scheduled where its volume is not, and the rollout would stop. For a Deployment the
// selector contains all labels of the Pods, because each rollout spreads its Pods anew.
func (w *workload) spreadSelector(kind string) *metav1.LabelSelector {
	switch {
	case w.Spec == nil:
		return &metav1.LabelSelector{}
	case kind == statefulSet && w.Spec.Selector != nil:
		return w.Spec.Selector
	case w.Spec.Template == nil:
		return &metav1.LabelSelector{}
	}
	return &metav1.LabelSelector{MatchLabels: w.Spec.Template.Metadata.Labels}
}

type podTemplate struct {
	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec *podSpec `json:"spec"`
}

type podSpec struct {
	Affinity    *affinity             `json:"affinity"`
	Spread      []object.Kept[spread] `json:"topologySpreadConstraints"`
	Tolerations []givenToleration     `json:"tolerations"`
}

// replicas returns the number of replicas; 0 if it is not set.
func (w *workload) replicas() int32 {
	if w.Spec == nil || w.Spec.Replicas == nil {
		return 0
	}
	return *w.Spec.Replicas
}

// losesReplicas reports whether changeWorkload would lower the number of replicas.
func (w *workload) losesReplicas(in surroundings) bool {
	computed, wanted, err := countReplicas(w.replicas(), w.Metadata, in.namespace)
	return err == nil && wanted && scale(w.replicas(), computed, in.scaled) < w.replicas()
}

// changeWorkload sets replicas, then the fields that depend on them. It returns a warning if it lowers replicas.
func (h *Handler) changeWorkload(changes *patch.Patch, kind string, object *workload, in surroundings) (warning string, err error) {
	replicas, template := object.replicas(), (*podTemplate)(nil)
	if object.Spec != nil {
		template = object.Spec.Template
	}
	computed, wanted, err := countReplicas(replicas, object.Metadata, in.namespace)
	if err != nil {
		return "", err
	}
	if set := scale(replicas, computed, in.scaled); wanted && set != replicas {
		changes.Add("/spec/replicas", set)
		if set < replicas {
			warning = fmt.Sprintf("spec.replicas: %d, not %d; annotation %s sets another", set, replicas, Replicas)
		}
		replicas = set
	}

	pods := podSpec{}
	if template != nil && template.Spec != nil {
		pods = *template.Spec
	}
	var ofPods patch.Patch
	if in.pinned && len(in.zones) > 0 {
		pin(&ofPods, pods.Affinity, in.zones)
	}
	spreadPods(&ofPods, pods.Spread, constraints(replicas, object.spreadSelector(kind), in))
	if in.criteria == nil {
		tolerate(&ofPods, pods.Tolerations, h.DefaultNotReadyTolerationSeconds, h.DefaultUnreachableTolerationSeconds)
	}
	if len(ofPods) > 0 {
		createParents(changes, object)
		*changes = append(*changes, ofPods...)
	}
	return warning, nil
}

// specOfPods is the path of the spec in the Pod template.
const specOfPods = "/spec/template/spec"

// createParents creates specOfPods if it is missing. Objects from API servers always have it.
func createParents(changes *patch.Patch, object *workload) {
	type none struct{}
	switch {
	case object.Spec == nil:
		changes.Add("/spec", map[string]any{"template": map[string]any{"spec": none{}}})
	case object.Spec.Template == nil:
		changes.Add("/spec/template", map[string]any{"spec": none{}})
	case object.Spec.Template.Spec == nil:
		changes.Add(specOfPods, none{})
	}
}

package health

import (
	"cmp"
	"fmt"

	"k8s.io/utils/ptr"
)

// The types below contain the fields that rules read from objects of APIs outside of Kubernetes.

// observed is a condition, and the generation of the object for which it was set.
type observed struct {
	condition          `json:",inline"`
	ObservedGeneration int64 `json:"observedGeneration"`
}

type metadata struct {
	Generation int64 `json:"generation"`
}

// monitoring is a Prometheus or an Alertmanager.
type monitoring struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Replicas *int32 `json:"replicas"`
	} `json:"spec"`
	Status struct {
		Conditions        []observed `json:"conditions"`
		AvailableReplicas int32      `json:"availableReplicas"`
		UpdatedReplicas   int32      `json:"updatedReplicas"`
	} `json:"status"`
}

func judgeMonitoring(m *monitoring) Verdict {
	desired := ptr.Deref(m.Spec.Replicas, 1)
	return Verdict{
		Checked:     true,
		Unhealthy:   cmp.Or(current(m, "Available"), short("available", m.Status.AvailableReplicas, desired)),
		Progressing: cmp.Or(current(m, "Reconciled"), updated(m.Status.UpdatedReplicas, desired)),
	}
}

// current returns the reason why a condition is not True for the current generation of the object; "" if it is.
func current(m *monitoring, wanted string) string {
	for _, found := range m.Status.Conditions {
		if found.Type == wanted {
			return cmp.Or(outdated(found.ObservedGeneration, m.Metadata.Generation), differs(found.condition, isTrue))
		}
	}
	return missing(wanted)
}

type verticalPodAutoscaler struct {
	Status struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

// judgeVerticalPodAutoscaler does not compare generations, because the recommender does not report one.
func judgeVerticalPodAutoscaler(v *verticalPodAutoscaler) Verdict {
	return Verdict{Checked: true, Unhealthy: optional(v.Status.Conditions, "ConfigUnsupported", isFalse, same)}
}

// certificate is a Certificate or an Issuer of the cert-management project.
type certificate struct {
	Metadata metadata `json:"metadata"`
	Status   struct {
		ObservedGeneration int64       `json:"observedGeneration"`
		State              string      `json:"state"`
		Conditions         []condition `json:"conditions"`
	} `json:"status"`
}

func judgeCertificate(c *certificate) Verdict {
	verdict := judgeIssuer(c)
	verdict.Unhealthy = cmp.Or(optional(c.Status.Conditions, "Ready", isTrue, same), verdict.Unhealthy)
	return verdict
}

func judgeIssuer(i *certificate) Verdict {
	verdict := Verdict{Checked: true, Progressing: outdated(i.Status.ObservedGeneration, i.Metadata.Generation)}
	if state := i.Status.State; state != "Ready" {
		verdict.Unhealthy = fmt.Sprintf("state is %q (expected %q)", state, "Ready")
	}
	return verdict
}

package highavailability

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/admission/patch"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

// toleranceZone is the failure tolerance type of workloads that must survive the loss of a zone.
const toleranceZone = "zone"

// spread is the part of a topology spread constraint that the handler reads.
type spread struct {
	MaxSkew           int32  `json:"maxSkew"`
	TopologyKey       string `json:"topologyKey"`
	WhenUnsatisfiable string `json:"whenUnsatisfiable"`
	MinDomains        *int32 `json:"minDomains"`
	LabelSelector     *struct {
		MatchLabels      map[string]string                 `json:"matchLabels"`
		MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions"`
		Others           jsontext.Value                    `json:",embed"`
	} `json:"labelSelector"`
	Others jsontext.Value `json:",embed"`
}

// constraints returns the topology spread constraints for the selected Pods, with the constraint on hostnames first. It returns nil if the
// workload has fewer than two replicas: then the handler must not set constraints.
func constraints(replicas int32, selector *metav1.LabelSelector, in surroundings) []corev1.TopologySpreadConstraint {
	if replicas <= 1 {
		return nil
	}
	most := replicas
	if in.scaled {
		most = max(most, in.limit)
	}
	hostname := corev1.TopologySpreadConstraint{
		TopologyKey: corev1.LabelHostname, MaxSkew: 1, WhenUnsatisfiable: in.acrossHosts(),
		LabelSelector: selector,
	}
	if !in.acrossZones() {
		return []corev1.TopologySpreadConstraint{hostname}
	}
	zones := int32(min(len(in.zones), 1<<20))
	zone := corev1.TopologySpreadConstraint{
		TopologyKey: corev1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: hostname.LabelSelector,
	}
	if most >= 2*zones {
		zone.MaxSkew = 2
	}
	if in.criteria == nil {
		zone.MinDomains = ptr.To(min(most, zones))
	}
	return []corev1.TopologySpreadConstraint{hostname, zone}
}

// spreadDependsOnLimit reports whether an autoscaler that the caches do not contain yet could change the spread of the workload. Only the
// constraint on zones depends on the limit of an autoscaler, and only if the workload has fewer than two replicas per zone.
func spreadDependsOnLimit(object *workload, in surroundings) bool {
	replicas := object.replicas()
	computed, wanted, err := countReplicas(replicas, object.Metadata, in.namespace)
	if wanted {
		replicas = scale(replicas, computed, in.scaled)
	}
	return err == nil && !in.scaled && replicas > 1 && in.acrossZones() && int(replicas) < 2*len(in.zones)
}

// acrossHosts returns whether Pods may share a node if there are too few nodes.
func (n namespace) acrossHosts() corev1.UnsatisfiableConstraintAction {
	strict := n.tolerance != nil && *n.tolerance != ""
	if n.criteria != nil {
		strict = len(n.zones) > 1
	}
	if strict {
		return corev1.DoNotSchedule
	}
	return corev1.ScheduleAnyway
}

// acrossZones reports whether Pods are spread across zones.
func (n namespace) acrossZones() bool {
	asked := n.tolerance == nil || *n.tolerance == toleranceZone || n.criteria != nil
	return asked && len(n.zones) > 1
}

// spreadPods makes the wanted constraints the last items of the list, and removes all other constraints on hostnames and zones. If no
// constraint is wanted, it changes nothing.
func spreadPods(changes *patch.Patch, have []object.Kept[spread], want []corev1.TopologySpreadConstraint) {
	if len(want) == 0 {
		return
	}
	ours := func(each object.Kept[spread]) bool {
		return each.Read.TopologyKey == corev1.LabelHostname || each.Read.TopologyKey == corev1.LabelTopologyZone
	}
	others := len(have) - len(want)
	if others >= 0 && !slices.ContainsFunc(have[:others], ours) && slices.EqualFunc(have[others:], want, equalsConstraint) {
		return
	}
	list := make([]any, 0, len(have)+len(want))
	for _, each := range have {
		if !ours(each) {
			list = append(list, each)
		}
	}
	for _, each := range want {
		list = append(list, each)
	}
	changes.Add(specOfPods+"/topologySpreadConstraints", list)
}

// equalsConstraint reports whether a constraint has exactly the fields of want.
func equalsConstraint(have object.Kept[spread], want corev1.TopologySpreadConstraint) bool {
	found := have.Read
	return found.TopologyKey == want.TopologyKey && found.MaxSkew == want.MaxSkew &&
		found.WhenUnsatisfiable == string(want.WhenUnsatisfiable) &&
		ptr.Equal(found.MinDomains, want.MinDomains) && len(found.Others) == 0 &&
		found.LabelSelector != nil && len(found.LabelSelector.Others) == 0 &&
		maps.Equal(found.LabelSelector.MatchLabels, want.LabelSelector.MatchLabels) &&
		equality.Semantic.DeepEqual(found.LabelSelector.MatchExpressions, want.LabelSelector.MatchExpressions)
}

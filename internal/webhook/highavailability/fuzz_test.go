package highavailability

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/webhook/objecttest"
)

// around returns a handler, and the namespace and autoscalers that its look-ups find. The same bytes give the same result.
func around(s *objecttest.Source) *Handler {
	annotations := map[string]string{}
	for _, each := range []struct {
		key     string
		choices []string
	}{
		{"failure-tolerance-type", []string{"", "node", "zone", "foo"}},
		{"zones", []string{"", "a", "b,a", "a,b,c", "a,,a", ",", "a,b,c,d,e"}},
		{"zone-pinning", []string{"true", "1", "false", "yes", ""}},
		{"replica-criteria", []string{"zones", "failure-tolerance-type", "", "moon"}},
	} {
		if chosen := s.Number(len(each.choices) + 1); chosen < len(each.choices) {
			annotations[each.key] = each.choices[chosen]
		}
	}
	h := in(annotations)
	if s.Number(2) == 1 {
		h = h.scaledTo(int32(s.Number(9) - 1))
	}
	h.LegacyReplicaCriteria = s.Number(4) == 3
	if s.Number(2) == 1 {
		h.DefaultNotReadyTolerationSeconds = ptr.To(int64(s.Number(3)))
	}
	if s.Number(2) == 1 {
		h.DefaultUnreachableTolerationSeconds = ptr.To(int64(s.Number(3)))
	}
	return h
}

func randomMetadata() objecttest.Member {
	return objecttest.Member{Name: "metadata", Value: objecttest.Object(
		objecttest.Member{
			Name: "labels",
			Value: objecttest.Map(objecttest.Text("controller", "server", "proxy", ""), "high-availability-config.resources.gardener.cloud/type",
				"app"),
		},
		objecttest.Member{
			Name: "annotations",
			Value: objecttest.Map(objecttest.Text("4", "", "abc", "-1", "0", "99999999999"),
				"high-availability-config.resources.gardener.cloud/replicas", "note"),
		},
	)}
}

func randomWorkload() objecttest.Value {
	type member = objecttest.Member
	key := objecttest.Text("topology.kubernetes.io/zone", "kubernetes.io/hostname", "")
	expressions := objecttest.List(objecttest.Object(
		member{Name: "key", Value: key},
		member{Name: "operator", Value: objecttest.Text("In", "NotIn", "Exists")},
		member{Name: "values", Value: objecttest.List(objecttest.Text("a", "b"))},
	))
	selector := objecttest.Object(
		member{Name: "matchLabels", Value: objecttest.Map(objecttest.Text("web", "", "x"), "app", "a/b~c")},
		member{Name: "matchExpressions", Value: expressions},
	)
	spec := objecttest.Object(
		member{Name: "affinity", Value: objecttest.Object(
			member{Name: "podAffinity", Value: objecttest.Object()},
			member{Name: "nodeAffinity", Value: objecttest.Object(
				member{Name: "requiredDuringSchedulingIgnoredDuringExecution", Value: objecttest.Object(
					member{Name: "nodeSelectorTerms", Value: objecttest.List(objecttest.Object(
						member{Name: "matchExpressions", Value: expressions}, member{Name: "matchFields", Value: expressions},
					))},
				)},
				member{Name: "preferredDuringSchedulingIgnoredDuringExecution", Value: objecttest.List(objecttest.Object())},
			)},
		)},
		member{Name: "topologySpreadConstraints", Value: objecttest.List(objecttest.Object(
			member{Name: "topologyKey", Value: key},
			member{Name: "maxSkew", Value: objecttest.Integer(1, 2)},
			member{Name: "minDomains", Value: objecttest.Integer(2, 3)},
			member{Name: "whenUnsatisfiable", Value: objecttest.Text("DoNotSchedule", "ScheduleAnyway")},
			member{Name: "labelSelector", Value: selector},
			member{Name: "matchLabelKeys", Value: objecttest.List(objecttest.Text("pod-template-hash"))},
		))},
		member{Name: "tolerations", Value: objecttest.List(objecttest.Object(
			member{Name: "key", Value: objecttest.Text("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "")},
			member{Name: "operator", Value: objecttest.Text("Exists", "Equal")},
			member{Name: "effect", Value: objecttest.Text("NoExecute", "NoSchedule", "")},
			member{Name: "tolerationSeconds", Value: objecttest.Integer(300, 0)},
		))},
		member{Name: "containers", Value: objecttest.List(objecttest.Object(member{Name: "name", Value: objecttest.Text("web")}))},
	)
	return objecttest.Object(randomMetadata(), member{Name: "spec", Value: objecttest.Object(
		member{Name: "replicas", Value: objecttest.Integer(1, 2, 3, 5, 0, -1)},
		member{Name: "paused", Value: objecttest.Bool},
		member{Name: "template", Value: objecttest.Object(
			member{
				Name:  "metadata",
				Value: objecttest.Object(member{Name: "labels", Value: objecttest.Map(objecttest.Text("web", "", "<&>"), "app", "a/b~c")}),
			},
			member{Name: "spec", Value: spec},
		)},
	)})
}

func FuzzWorkload(f *testing.F) {
	for _, seed := range objecttest.Seeds() {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, cluster, object []byte) {
		h := around(objecttest.From(cluster))
		objecttest.Case[appsv1.Deployment]{
			Handler: h, Kind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, Object: randomWorkload(),
			Touched: []string{
				"/spec/replicas", "/spec/template/spec/topologySpreadConstraints", "/spec/template/spec/tolerations",
				"/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution",
			},
			Want: func(d *appsv1.Deployment) bool { return h.wantWorkload(d) },
		}.CheckRules(t, object)
	})
}

func FuzzAutoscaler(f *testing.F) {
	for _, seed := range objecttest.Seeds() {
		f.Add(seed, seed)
	}
	object := objecttest.Object(randomMetadata(), objecttest.Member{Name: "spec", Value: objecttest.Object(
		objecttest.Member{Name: "minReplicas", Value: objecttest.Integer(1, 2, 3, 12, 0, -1)},
		objecttest.Member{Name: "maxReplicas", Value: objecttest.Integer(1, 2, 3, 12, 0, -1)},
		objecttest.Member{Name: "metrics", Value: objecttest.List(objecttest.Object())},
	)})
	f.Fuzz(func(t *testing.T, cluster, bytes []byte) {
		h := around(objecttest.From(cluster))
		objecttest.Case[autoscalingv2.HorizontalPodAutoscaler]{
			Handler: h, Kind: schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}, Object: object,
			Touched: []string{"/spec/minReplicas", "/spec/maxReplicas"},
			Want:    func(a *autoscalingv2.HorizontalPodAutoscaler) bool { return h.wantAutoscaler(a) },
		}.CheckRules(t, bytes)
	})
}

// The following functions implement the specification once more, with the types of the API.

// annotation returns the value of an annotation of the namespace, and whether the annotation is set.
func (h *Handler) annotation(key string) (string, bool) {
	value, given := h.found().annotations["high-availability-config.resources.gardener.cloud/"+key]
	return value, given
}

func (h *Handler) legacyCriteria() (string, bool) {
	criteria, given := h.annotation("replica-criteria")
	return criteria, given && h.LegacyReplicaCriteria
}

func (h *Handler) zones() []string {
	all, _ := h.annotation("zones")
	known := map[string]bool{}
	for zone := range strings.SplitSeq(all, ",") {
		if zone != "" {
			known[zone] = true
		}
	}
	return slices.Sorted(maps.Keys(known))
}

// wantReplicas returns the computed number. The result set is false if replicas do not change; fine is false if the annotation is refused.
func (h *Handler) wantReplicas(current int32, object metav1.ObjectMeta) (count int32, set, fine bool) {
	component := object.Labels["high-availability-config.resources.gardener.cloud/type"]
	override := object.Annotations["high-availability-config.resources.gardener.cloud/replicas"]
	tolerance, tolerant := h.annotation("failure-tolerance-type")
	criteria, legacyMode := h.legacyCriteria()
	zones := len(h.zones())
	isController := component == "controller"
	switch {
	case current == 0 || component == "":
		return 0, false, true
	case override != "":
		number, err := strconv.ParseInt(override, 10, 32)
		return int32(number), true, err == nil
	case legacyMode && criteria == "failure-tolerance-type" && isController && tolerance == "":
		return 1, true, true
	case legacyMode && criteria == "failure-tolerance-type" && !isController && tolerance == "zone":
		return 3, true, true
	case legacyMode && criteria == "zones" && !isController && zones > 2:
		return 3, true, true
	case legacyMode && criteria != "zones" && criteria != "failure-tolerance-type":
		return 0, false, true
	case !legacyMode && isController && tolerant && tolerance == "":
		return 1, true, true
	}
	return 2, true, true
}

func (h *Handler) wantWorkload(d *appsv1.Deployment) bool {
	scaling := h.found()
	count, set, fine := h.wantReplicas(ptr.Deref(d.Spec.Replicas, 0), d.ObjectMeta)
	if !fine {
		return false
	}
	if set && (!scaling.scaled || *d.Spec.Replicas < count) {
		d.Spec.Replicas = &count
	}
	pods := &d.Spec.Template.Spec
	tolerance, tolerant := h.annotation("failure-tolerance-type")
	pinning, _ := h.annotation("zone-pinning")
	_, legacyMode := h.legacyCriteria()
	zones := h.zones()
	if (tolerant || !legacyMode && (pinning == "true" || pinning == "1")) && len(zones) > 0 {
		wantZones(pods, zones)
	}
	h.wantSpread(pods, ptr.Deref(d.Spec.Replicas, 0), d.Spec.Template.Labels, tolerance, tolerant)
	if !legacyMode {
		wantToleration(pods, "node.kubernetes.io/not-ready", h.DefaultNotReadyTolerationSeconds)
		wantToleration(pods, "node.kubernetes.io/unreachable", h.DefaultUnreachableTolerationSeconds)
	}
	return true
}

func wantZones(pods *corev1.PodSpec, zones []string) {
	if pods.Affinity == nil {
		pods.Affinity = &corev1.Affinity{}
	}
	if pods.Affinity.NodeAffinity == nil {
		pods.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := pods.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		required = &corev1.NodeSelector{}
		pods.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
	}
	if len(required.NodeSelectorTerms) == 0 {
		required.NodeSelectorTerms = []corev1.NodeSelectorTerm{{}}
	}
	for i := range required.NodeSelectorTerms {
		var kept []corev1.NodeSelectorRequirement
		for _, each := range required.NodeSelectorTerms[i].MatchExpressions {
			if each.Key != "topology.kubernetes.io/zone" {
				kept = append(kept, each)
			}
		}
		kept = append(kept, corev1.NodeSelectorRequirement{Key: "topology.kubernetes.io/zone", Operator: "In", Values: zones})
		required.NodeSelectorTerms[i].MatchExpressions = kept
	}
}

func (h *Handler) wantSpread(pods *corev1.PodSpec, replicas int32, labels map[string]string, tolerance string, tolerant bool) {
	if replicas <= 1 {
		return
	}
	var list []corev1.TopologySpreadConstraint
	for _, each := range pods.TopologySpreadConstraints {
		if each.TopologyKey != "kubernetes.io/hostname" && each.TopologyKey != "topology.kubernetes.io/zone" {
			list = append(list, each)
		}
	}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	zones := int32(len(h.zones()))
	_, legacyMode := h.legacyCriteria()
	host := corev1.TopologySpreadConstraint{
		TopologyKey: "kubernetes.io/hostname", MaxSkew: 1, WhenUnsatisfiable: "ScheduleAnyway", LabelSelector: selector,
	}
	if !legacyMode && tolerance != "" || legacyMode && zones >= 2 {
		host.WhenUnsatisfiable = "DoNotSchedule"
	}
	list = append(list, host)
	if zones >= 2 && (legacyMode || !tolerant || tolerance == "zone") {
		most := replicas
		if scaling := h.found(); scaling.scaled && replicas <= scaling.limit {
			most = scaling.limit
		}
		zone := corev1.TopologySpreadConstraint{
			TopologyKey: "topology.kubernetes.io/zone", MaxSkew: 1, WhenUnsatisfiable: "DoNotSchedule", LabelSelector: selector,
		}
		if most >= zones*2 {
			zone.MaxSkew = 2
		}
		if !legacyMode {
			zone.MinDomains = ptr.To(min(most, zones))
		}
		list = append(list, zone)
	}
	pods.TopologySpreadConstraints = list
}

func wantToleration(pods *corev1.PodSpec, key string, seconds *int64) {
	for _, each := range pods.Tolerations {
		if each.Key == key && (each.Effect == "" || each.Effect == "NoExecute") {
			return
		}
	}
	if seconds != nil {
		pods.Tolerations = append(pods.Tolerations, corev1.Toleration{
			Key: key, Operator: "Exists", Effect: "NoExecute", TolerationSeconds: seconds,
		})
	}
}

func (h *Handler) wantAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler) bool {
	if _, legacyMode := h.legacyCriteria(); legacyMode {
		return true
	}
	count, set, fine := h.wantReplicas(ptr.Deref(a.Spec.MinReplicas, 0), a.ObjectMeta)
	if !fine || !set {
		return fine
	}
	if *a.Spec.MinReplicas < count {
		a.Spec.MinReplicas = &count
	}
	a.Spec.MaxReplicas = max(a.Spec.MaxReplicas, *a.Spec.MinReplicas)
	return true
}

package highavailability

import (
	"errors"
	"maps"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/admission/patch"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
)

func replaceAll(text, old, replacement string) string {
	return strings.ReplaceAll(text, old, replacement)
}

func TestReadNamespace(t *testing.T) {
	const prefix = "high-availability-config.resources.gardener.cloud/"
	for name, tc := range map[string]struct {
		annotations map[string]string
		legacy      bool
		want        namespace
	}{
		"no annotations": {},
		"no failure tolerance": {
			annotations: map[string]string{prefix + "failure-tolerance-type": ""}, want: namespace{tolerance: ptr.To(""), pinned: true},
		},
		"any failure tolerance": {
			annotations: map[string]string{prefix + "failure-tolerance-type": "foo"}, want: namespace{tolerance: ptr.To("foo"), pinned: true},
		},
		"zones in any order, twice, and nothing": {
			annotations: map[string]string{prefix + "zones": "b,a,,a,b"}, want: namespace{zones: []string{"a", "b"}},
		},
		"zones with spaces": {
			annotations: map[string]string{prefix + "zones": "a, b"}, want: namespace{zones: []string{" b", "a"}},
		},
		"zones by their bytes": {
			annotations: map[string]string{prefix + "zones": "a,B"}, want: namespace{zones: []string{"B", "a"}},
		},
		"empty zones":                     {annotations: map[string]string{prefix + "zones": ",,"}},
		"zone pinning":                    {annotations: map[string]string{prefix + "zone-pinning": "T"}, want: namespace{pinned: true}},
		"no zone pinning":                 {annotations: map[string]string{prefix + "zone-pinning": "false"}},
		"zone pinning that is no boolean": {annotations: map[string]string{prefix + "zone-pinning": "yes"}},
		"failure tolerance outweighs no pinning": {
			annotations: map[string]string{prefix + "zone-pinning": "0", prefix + "failure-tolerance-type": "node"},
			want:        namespace{tolerance: ptr.To("node"), pinned: true},
		},
		"criteria outside of legacy mode": {annotations: map[string]string{prefix + "replica-criteria": "zones"}},
		"criteria in legacy mode": {
			annotations: map[string]string{prefix + "replica-criteria": "zones"}, legacy: true, want: namespace{criteria: ptr.To("zones")},
		},
		"no zone pinning in legacy mode": {
			annotations: map[string]string{prefix + "replica-criteria": "", prefix + "zone-pinning": "true"}, legacy: true,
			want: namespace{criteria: ptr.To("")},
		},
		"legacy mode without criteria": {
			annotations: map[string]string{prefix + "zone-pinning": "true"}, legacy: true, want: namespace{pinned: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := readNamespace(tc.annotations, tc.legacy)
			if len(got.zones) == 0 {
				got.zones = nil
			}
			NewWithT(t).Expect(got).To(Equal(tc.want))
		})
	}
}

func component(kind, replicas string) metadata {
	m := metadata{}
	m.Labels.Type, m.Annotations.Replicas = kind, replicas
	return m
}

func TestCountReplicas(t *testing.T) {
	type result struct {
		count  int32
		wanted bool
	}
	for name, tc := range map[string]struct {
		current   int32
		component metadata
		in        namespace
		want      result
	}{
		"hibernated": {component: component("server", "4")},
		"hibernated, with an annotation like that": {component: component("server", "abc")},
		"without a type":  {current: 1, component: component("", "4")},
		"controller, nil": {current: 1, component: component("controller", ""), want: result{2, true}},
		"controller, empty": {
			current: 1, component: component("controller", ""), in: namespace{tolerance: ptr.To("")}, want: result{1, true},
		},
		"controller, node": {
			current: 1, component: component("controller", ""), in: namespace{tolerance: ptr.To("node")}, want: result{2, true},
		},
		"controller, zone": {
			current: 1, component: component("controller", ""), in: namespace{tolerance: ptr.To("zone")}, want: result{2, true},
		},
		"server, nil": {current: 1, component: component("server", ""), want: result{2, true}},
		"server, empty": {
			current: 1, component: component("server", ""), in: namespace{tolerance: ptr.To("")}, want: result{2, true},
		},
		"server, zone and three zones": {
			current: 1, component: component("server", ""), in: namespace{tolerance: ptr.To("zone"), zones: []string{"a", "b", "c"}},
			want: result{2, true},
		},
		"another type, empty": {
			current: 1, component: component("Controller", ""), in: namespace{tolerance: ptr.To("")}, want: result{2, true},
		},
		"annotated":                     {current: 1, component: component("controller", "4"), want: result{4, true}},
		"annotated with zero":           {current: 1, component: component("controller", "0"), want: result{0, true}},
		"annotated with less than that": {current: 1, component: component("controller", "-3"), want: result{-3, true}},
		"negative":                      {current: -1, component: component("server", ""), want: result{2, true}},
		"legacy, tolerance, controller, nil": {
			current: 1, component: component("controller", ""), in: namespace{criteria: ptr.To("failure-tolerance-type")},
			want: result{1, true},
		},
		"legacy, tolerance, controller, empty": {
			current: 1, component: component("controller", ""),
			in: namespace{criteria: ptr.To("failure-tolerance-type"), tolerance: ptr.To("")}, want: result{1, true},
		},
		"legacy, tolerance, controller, node": {
			current: 1, component: component("controller", ""),
			in: namespace{criteria: ptr.To("failure-tolerance-type"), tolerance: ptr.To("node")}, want: result{2, true},
		},
		"legacy, tolerance, controller, zone": {
			current: 1, component: component("controller", ""),
			in: namespace{criteria: ptr.To("failure-tolerance-type"), tolerance: ptr.To("zone")}, want: result{2, true},
		},
		"legacy, tolerance, server, nil": {
			current: 1, component: component("server", ""), in: namespace{criteria: ptr.To("failure-tolerance-type")}, want: result{2, true},
		},
		"legacy, tolerance, server, empty": {
			current: 1, component: component("server", ""), in: namespace{criteria: ptr.To("failure-tolerance-type"), tolerance: ptr.To("")},
			want: result{2, true},
		},
		"legacy, tolerance, server, node": {
			current: 1, component: component("server", ""),
			in: namespace{criteria: ptr.To("failure-tolerance-type"), tolerance: ptr.To("node")}, want: result{2, true},
		},
		"legacy, tolerance, server, zone": {
			current: 1, component: component("server", ""),
			in: namespace{criteria: ptr.To("failure-tolerance-type"), tolerance: ptr.To("zone")}, want: result{3, true},
		},
		"legacy, tolerance, server, another word": {
			current: 1, component: component("server", ""),
			in: namespace{criteria: ptr.To("failure-tolerance-type"), tolerance: ptr.To("region")}, want: result{2, true},
		},
		"legacy, tolerance, another type, zone": {
			current: 1, component: component("proxy", ""), in: namespace{criteria: ptr.To("failure-tolerance-type"), tolerance: ptr.To("zone")},
			want: result{3, true},
		},
		"legacy, zones, controller, three": {
			current: 1, component: component("controller", ""), in: namespace{criteria: ptr.To("zones"), zones: []string{"a", "b", "c"}},
			want: result{2, true},
		},
		"legacy, zones, server, none": {
			current: 1, component: component("server", ""), in: namespace{criteria: ptr.To("zones")}, want: result{2, true},
		},
		"legacy, zones, server, two": {
			current: 1, component: component("server", ""), in: namespace{criteria: ptr.To("zones"), zones: []string{"a", "b"}},
			want: result{2, true},
		},
		"legacy, zones, server, three": {
			current: 1, component: component("server", ""), in: namespace{criteria: ptr.To("zones"), zones: []string{"a", "b", "c"}},
			want: result{3, true},
		},
		"legacy, other criteria": {current: 1, component: component("server", ""), in: namespace{criteria: ptr.To("moon")}},
		"legacy, no criteria":    {current: 1, component: component("server", ""), in: namespace{criteria: ptr.To("")}},
		"legacy, other criteria but annotated": {
			current: 1, component: component("server", "7"), in: namespace{criteria: ptr.To("moon")}, want: result{7, true},
		},
		"legacy, hibernated":     {component: component("server", ""), in: namespace{criteria: ptr.To("zones")}},
		"legacy, without a type": {current: 1, component: component("", ""), in: namespace{criteria: ptr.To("zones")}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			count, wanted, err := countReplicas(tc.current, tc.component, tc.in)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result{count, wanted}).To(Equal(tc.want))
		})
	}
}

func TestCountReplicasRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"foo":                           `strconv.Atoi: parsing "foo": invalid syntax`,
		"4,":                            `strconv.Atoi: parsing "4,": invalid syntax`,
		"4.0":                           `strconv.Atoi: parsing "4.0": invalid syntax`,
		"0x4":                           `strconv.Atoi: parsing "0x4": invalid syntax`,
		"99999999999999999999":          `strconv.Atoi: parsing "99999999999999999999": value out of range`,
		"2147483648":                    `strconv.Atoi: parsing "2147483648": value out of range`,
		strings.Repeat("é", 127) + "x9": `strconv.Atoi: parsing "` + strings.Repeat("é", 127) + `x9": invalid syntax`,
		strings.Repeat("é", 128) + "x":  `strconv.Atoi: parsing "` + strings.Repeat("é", 126) + `…": invalid syntax`,
		strings.Repeat("9", 257):        `strconv.Atoi: parsing "` + strings.Repeat("9", 253) + `…": value out of range`,
		"-2147483649":                   `strconv.Atoi: parsing "-2147483649": value out of range`,
	} {
		t.Run(text, func(t *testing.T) {
			g := NewWithT(t)
			_, wanted, err := countReplicas(1, component("server", text), namespace{})
			g.Expect(err).To(MatchError(want))
			g.Expect(errors.As(err, new(*strconv.NumError))).To(BeTrue())
			g.Expect(wanted).To(BeFalse())
		})
	}
}

func TestScale(t *testing.T) {
	for name, tc := range map[string]struct {
		current, computed int32
		scaled            bool
		want              int32
	}{
		"fewer":             {current: 1, computed: 2, want: 2},
		"more":              {current: 5, computed: 2, want: 2},
		"scaled, but fewer": {current: 1, computed: 2, scaled: true, want: 2},
		"scaled":            {current: 5, computed: 2, scaled: true, want: 5},
		"scaled, same":      {current: 2, computed: 2, scaled: true, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(scale(tc.current, tc.computed, tc.scaled)).To(Equal(tc.want))
		})
	}
}

// deployment returns a Deployment whose Pods have this spec, written as YAML in one line.
func deployment(replicas, spec string) string {
	return "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {replicas: " + replicas +
		", template: {metadata: {labels: {app: web}}, spec: " + spec + "}}}"
}

func TestAffinity(t *testing.T) {
	const pinned = "{key: topology.kubernetes.io/zone, operator: In, values: [a, b, c]}"
	zones := map[string]string{"failure-tolerance-type": "foo", "zones": "c,a,b"}
	required := func(terms string) string {
		return "{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: " +
			replaceAll(terms, "PINNED", pinned) + "}}}}"
	}
	for name, tc := range map[string]struct {
		annotations map[string]string
		have, want  string
	}{
		"no affinity":    {annotations: zones, have: "{}", want: required("[{matchExpressions: [PINNED]}]")},
		"null":           {annotations: zones, have: "{affinity: null}", want: required("[{matchExpressions: [PINNED]}]")},
		"empty affinity": {annotations: zones, have: "{affinity: {}}", want: required("[{matchExpressions: [PINNED]}]")},
		"empty node affinity": {
			annotations: zones, have: "{affinity: {nodeAffinity: {}}}", want: required("[{matchExpressions: [PINNED]}]"),
		},
		"nothing required": {
			annotations: zones, have: "{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {}}}}",
			want: required("[{matchExpressions: [PINNED]}]"),
		},
		"no terms":      {annotations: zones, have: required("[]"), want: required("[{matchExpressions: [PINNED]}]")},
		"an empty term": {annotations: zones, have: required("[{}]"), want: required("[{matchExpressions: [PINNED]}]")},
		"null expressions": {
			annotations: zones, have: required("[{matchExpressions: null}]"), want: required("[{matchExpressions: [PINNED]}]"),
		},
		"pinned already": {
			annotations: zones, have: required("[{matchExpressions: [PINNED]}]"), want: required("[{matchExpressions: [PINNED]}]"),
		},
		"pinned already, but not last": {
			annotations: zones, have: required("[{matchExpressions: [PINNED, {key: x, operator: Exists}]}]"),
			want: required("[{matchExpressions: [{key: x, operator: Exists}, PINNED]}]"),
		},
		"pinned twice": {
			annotations: zones, have: required("[{matchExpressions: [PINNED, PINNED]}]"), want: required("[{matchExpressions: [PINNED]}]"),
		},
		"pinned, with more to say": {
			annotations: zones,
			have:        required("[{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a, b, c], newer: 1}]}]"),
			want:        required("[{matchExpressions: [PINNED]}]"),
		},
		"pinned to other zones": {
			annotations: zones, have: required("[{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a, c, b]}]}]"),
			want: required("[{matchExpressions: [PINNED]}]"),
		},
		"kept away from zones": {
			annotations: zones,
			have: required("[{matchExpressions: [{key: topology.kubernetes.io/zone, operator: NotIn, values: [x]}, {key: x, " +
				"operator: Exists}]}]"),
			want: required("[{matchExpressions: [{key: x, operator: Exists}, PINNED]}]"),
		},
		"fields only": {
			annotations: zones, have: required("[{matchFields: [{key: metadata.name, operator: In, values: [n]}]}]"),
			want: required("[{matchFields: [{key: metadata.name, operator: In, values: [n]}], matchExpressions: [PINNED]}]"),
		},
		"what else terms say": {
			annotations: zones,
			have: required("[{newer: {a: [1, null]}, matchExpressions: [PINNED]}, {newer: [2], matchFields: null, matchExpressions: " +
				"[{key: x, newer: 3}]}]"),
			want: required("[{newer: {a: [1, null]}, matchExpressions: [PINNED]}, {newer: [2], matchFields: null, matchExpressions: " +
				"[{key: x, newer: 3}, PINNED]}]"),
		},
		"null among terms": {
			annotations: zones, have: required("[null, {matchExpressions: [PINNED]}]"),
			want: required("[{matchExpressions: [PINNED]}, {matchExpressions: [PINNED]}]"),
		},
		"several terms": {
			annotations: zones, have: required("[{matchExpressions: [{key: x, operator: Exists}]}, {matchExpressions: [PINNED]}, {}]"),
			want: required("[{matchExpressions: [{key: x, operator: Exists}, PINNED]}, {matchExpressions: [PINNED]}, {matchExpressions: [PINNED]}]"),
		},
		"no zones": {
			annotations: map[string]string{"failure-tolerance-type": "foo", "zones": ","}, have: "{}", want: "{}",
		},
		"neither tolerance nor pinning": {annotations: map[string]string{"zones": "a"}, have: "{}", want: "{}"},
		"zones that vanished": {
			annotations: map[string]string{"failure-tolerance-type": "foo"}, have: required("[{matchExpressions: [PINNED]}]"),
			want: required("[{matchExpressions: [PINNED]}]"),
		},
		"zone pinning without any tolerance": {
			annotations: map[string]string{"zones": "c,b,a", "zone-pinning": "1"}, have: "{}", want: required("[{matchExpressions: [PINNED]}]"),
		},
		"an empty tolerance": {
			annotations: map[string]string{"zones": "c,b,a", "failure-tolerance-type": ""}, have: "{}",
			want: required("[{matchExpressions: [PINNED]}]"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, after := judge(t, in(tc.annotations), deployment("1", tc.have))
			reviewtest.Same(t, after, deployment("1", tc.want))
		})
	}
}

func TestWrongTypesInListsAreNamedByTheirPlace(t *testing.T) {
	const terms = "spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
	required := func(terms string) string {
		return "{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: " + terms + "}}}}"
	}
	for name, tc := range map[string]struct{ pods, want string }{
		"a key": {required("[{matchExpressions: [{key: 5}]}]"), terms + "[0].matchExpressions[0].key: must not be a number"},
		"a value": {
			required("[{}, {matchExpressions: [{}, {key: x, values: [a, 1]}]}]"),
			terms + "[1].matchExpressions[1].values[1]: must not be a number",
		},
		"a term":      {required("[{}, x]"), terms + "[1]: must not be a string"},
		"expressions": {required("[{matchExpressions: x}]"), terms + "[0].matchExpressions: must not be a string"},
		"a skew": {
			"{topologySpreadConstraints: [{maxSkew: x}]}", "spec.template.spec.topologySpreadConstraints[0].maxSkew: must not be a string",
		},
		"a label": {
			"{topologySpreadConstraints: [{}, {labelSelector: {matchLabels: {app: true}}}]}",
			"spec.template.spec.topologySpreadConstraints[1].labelSelector.matchLabels.app: must not be a boolean",
		},
		"a constraint":         {"{topologySpreadConstraints: [[]]}", "spec.template.spec.topologySpreadConstraints[0]: must not be a list"},
		"what is in no object": {"{topologySpreadConstraints: {}}", "spec.template.spec.topologySpreadConstraints: must not be an object"},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := judge(t, in(nil), deployment("1", tc.pods))
			g := NewWithT(t)
			g.Expect(response.Code).To(BeEquivalentTo(403))
			g.Expect(response.Message).To(Equal(tc.want))
		})
	}
}

// TestManyTermsAreOneChange judges a Deployment with as many terms as fit into a request.
func TestManyTermsAreOneChange(t *testing.T) {
	const count = 150_000
	object := workload{}
	g := NewWithT(t)
	g.Expect(review.Decode([]byte(`{"spec":{"template":{"spec":{"affinity":{"nodeAffinity":`+
		`{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[`+
		strings.Repeat(`{},`, count-1)+`{}]}}}}}}}`), &object)).To(Succeed())
	var changes patch.Patch
	pin(&changes, object.Spec.Template.Spec.Affinity, []string{"a"})
	g.Expect(changes).To(HaveLen(1))
	g.Expect(changes[0].Path).
		To(Equal("/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"))
	g.Expect(changes[0].Value).To(HaveLen(count))
}

func TestSpread(t *testing.T) {
	const (
		soft = "{topologyKey: kubernetes.io/hostname, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}"
		hard = "{topologyKey: kubernetes.io/hostname, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}"
	)
	zone := func(skew, domains string) string {
		return "{topologyKey: topology.kubernetes.io/zone, maxSkew: " + skew + ", minDomains: " + domains +
			", whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}"
	}
	list := func(constraints ...string) string {
		return "{topologySpreadConstraints: [" + strings.Join(constraints, ", ") + "]}"
	}
	for name, tc := range map[string]struct {
		handler          *Handler
		replicas         string
		have, want, kept string
	}{
		"one replica": {handler: in(map[string]string{"zones": "a,b"}), replicas: "1", have: "{}", want: "{}"},
		"one replica, stale constraints": {
			handler: in(nil), replicas: "1", have: list(hard, zone("2", "3")), want: list(hard, zone("2", "3")),
		},
		"nil replicas":  {handler: in(nil), replicas: "null", have: "{}", want: "{}"},
		"nil, no zones": {handler: in(nil), replicas: "2", have: "{}", want: list(soft)},
		"nil, one zone": {handler: in(map[string]string{"zones": "a"}), replicas: "2", have: "{}", want: list(soft)},
		"nil, two zones": {
			handler: in(map[string]string{"zones": "a,b"}), replicas: "2", have: "{}", want: list(soft, zone("1", "2")),
		},
		"empty, three zones": {
			handler: in(map[string]string{"zones": "a,b,c", "failure-tolerance-type": ""}), replicas: "2", have: "{affinity: PINNED}",
			kept: "affinity: PINNED, ", want: list(soft),
		},
		"node, three zones": {
			handler: in(map[string]string{"zones": "a,b,c", "failure-tolerance-type": "node"}), replicas: "2", have: "{affinity: PINNED}",
			kept: "affinity: PINNED, ", want: list(hard),
		},
		"node, no zones": {
			handler: in(map[string]string{"failure-tolerance-type": "node"}), replicas: "2", have: "{}", want: list(hard),
		},
		"zone, no zones": {
			handler: in(map[string]string{"failure-tolerance-type": "zone"}), replicas: "2", have: "{}", want: list(hard),
		},
		"zone, three zones": {
			handler: in(map[string]string{"zones": "a,b,c", "failure-tolerance-type": "zone"}), replicas: "2", have: "{affinity: PINNED}",
			kept: "affinity: PINNED, ", want: list(hard, zone("1", "2")),
		},
		"3 zones, 3 replicas": {
			handler: in(map[string]string{"zones": "a,b,c"}), replicas: "3", have: "{}", want: list(soft, zone("1", "3")),
		},
		"3 zones, 6 replicas": {
			handler: in(map[string]string{"zones": "a,b,c"}), replicas: "6", have: "{}", want: list(soft, zone("2", "3")),
		},
		"3 zones, 2 replicas, scaled to 5": {
			handler: in(map[string]string{"zones": "a,b,c"}).scaledTo(5), replicas: "2", have: "{}", want: list(soft, zone("1", "3")),
		},
		"3 zones, 2 replicas, scaled to 6": {
			handler: in(map[string]string{"zones": "a,b,c"}).scaledTo(6), replicas: "2", have: "{}", want: list(soft, zone("2", "3")),
		},
		"3 zones, 1 replica, scaled to 6": {
			handler: in(map[string]string{"zones": "a,b,c"}).scaledTo(6), replicas: "1", have: "{}", want: "{}",
		},
		"2 zones, 2 replicas": {
			handler: in(map[string]string{"zones": "a,b"}), replicas: "2", have: "{}", want: list(soft, zone("1", "2")),
		},
		"2 zones, 4 replicas": {
			handler: in(map[string]string{"zones": "a,b"}), replicas: "4", have: "{}", want: list(soft, zone("2", "2")),
		},
		"3 zones, 4 replicas, stale max": {
			handler: in(map[string]string{"zones": "a,b,c"}).scaledTo(2), replicas: "4", have: "{}", want: list(soft, zone("1", "3")),
		},
		"zones that are none": {handler: in(map[string]string{"zones": "a,,a"}), replicas: "2", have: "{}", want: list(soft)},
		"stale ones go": {
			handler: in(map[string]string{"failure-tolerance-type": ""}), replicas: "2",
			have: list("{topologyKey: topology.kubernetes.io/zone, maxSkew: 56}", "{topologyKey: x, maxSkew: 2}",
				"{topologyKey: kubernetes.io/hostname, maxSkew: 34}"),
			want: list("{topologyKey: x, maxSkew: 2}", soft),
		},
		"the right ones stay": {
			handler: in(map[string]string{"zones": "a,b"}), replicas: "2", have: list("{topologyKey: x, maxSkew: 2}", soft, zone("1", "2")),
			want: list("{topologyKey: x, maxSkew: 2}", soft, zone("1", "2")),
		},
		"twice": {handler: in(nil), replicas: "2", have: list(soft, soft), want: list(soft)},
		"not last": {
			handler: in(nil), replicas: "2", have: list(soft, "{topologyKey: x}"), want: list("{topologyKey: x}", soft),
		},
		"with more to say": {
			handler: in(nil), replicas: "2", have: list(replaceAll(soft, "maxSkew: 1", "maxSkew: 1, nodeTaintsPolicy: Honor")),
			want: list(soft),
		},
		"with more to say of labels": {
			handler: in(nil), replicas: "2",
			have: list(replaceAll(soft, "{app: web}", "{app: web}, matchExpressions: [{key: x, operator: Exists}]")), want: list(soft),
		},
		"for other labels": {
			handler: in(nil), replicas: "2", have: list(replaceAll(soft, "app: web", "app: db")), want: list(soft),
		},
		"for no labels": {
			handler: in(nil), replicas: "2", have: list("{topologyKey: kubernetes.io/hostname, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}"),
			want: list(soft),
		},
		"with minDomains": {
			handler: in(nil), replicas: "2", have: list(replaceAll(soft, "maxSkew: 1", "maxSkew: 1, minDomains: 1")), want: list(soft),
		},
		"legacy, no zones":       {handler: legacy(nil), replicas: "2", have: "{}", want: list(soft)},
		"legacy, one zone, zone": {handler: legacy(map[string]string{"zones": "a"}), replicas: "2", have: "{}", want: list(soft)},
		"legacy, two zones": {
			handler: legacy(map[string]string{"zones": "a,b"}), replicas: "2", have: "{}",
			want: list(hard, replaceAll(zone("1", "2"), "minDomains: 2, ", "")),
		},
		"legacy, two zones, many": {
			handler: legacy(map[string]string{"zones": "a,b"}), replicas: "4", have: "{}",
			want: list(hard, replaceAll(zone("2", "2"), "minDomains: 2, ", "")),
		},
		"legacy, two zones, scaled to many": {
			handler: legacy(map[string]string{"zones": "a,b"}).scaledTo(4), replicas: "2", have: "{}",
			want: list(hard, replaceAll(zone("2", "2"), "minDomains: 2, ", "")),
		},
		"legacy, one replica": {handler: legacy(map[string]string{"zones": "a,b"}), replicas: "1", have: "{}", want: "{}"},
		"legacy, two zones, empty": {
			handler: legacy(map[string]string{"zones": "a,b", "failure-tolerance-type": ""}), replicas: "2", have: "{affinity: PINNED}",
			kept: "affinity: PINNED, ", want: list(hard, replaceAll(zone("1", "2"), "minDomains: 2, ", "")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			zones := strings.Join(readNamespace(tc.handler.found().annotations, false).zones, ", ")
			pinned := replaceAll("{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: "+
				"[{key: topology.kubernetes.io/zone, operator: In, values: [ZONES]}]}]}}}", "ZONES", zones)
			want := replaceAll(strings.Replace(tc.want, "{", "{"+tc.kept, 1), "PINNED", pinned)
			_, after := judge(t, tc.handler, deployment(tc.replicas, replaceAll(tc.have, "PINNED", pinned)))
			reviewtest.Same(t, after, deployment(tc.replicas, want))
		})
	}
}

// legacy returns a handler in legacy mode. The namespace has the annotation for it, with a value that leaves replicas unchanged.
func legacy(annotations map[string]string) *Handler {
	all := map[string]string{"replica-criteria": ""}
	maps.Copy(all, annotations)
	return in(all).inLegacyMode()
}

func TestPodsWithoutLabelsAreSelectedByAnEmptySelector(t *testing.T) {
	_, after := judge(t, in(nil), "{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 2, template: {spec: {}}}}")
	reviewtest.Same(t, after, "{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 2, template: {spec: {topologySpreadConstraints: "+
		"[{topologyKey: kubernetes.io/hostname, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}]}}}}")
}

func TestSpreadGoesByTheReplicasThatWereSet(t *testing.T) {
	const object = "{apiVersion: apps/v1, kind: Deployment, metadata: {labels: {high-availability-config.resources.gardener.cloud/type: " +
		"controller}}, spec: {replicas: %, template: {spec: {}}}}"
	_, after := judge(t, in(map[string]string{"failure-tolerance-type": ""}), replaceAll(object, "%", "5"))
	reviewtest.Same(t, after, replaceAll(object, "%", "1"))
}

func TestTolerations(t *testing.T) {
	const (
		notReady    = "{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 60}"
		unreachable = "{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 0}"
	)
	for name, tc := range map[string]struct{ have, want []string }{
		"none":         {want: []string{notReady, unreachable}},
		"others":       {have: []string{"{key: x}"}, want: []string{"{key: x}", notReady, unreachable}},
		"both already": {have: []string{notReady, unreachable}, want: []string{notReady, unreachable}},
		"for all effects": {
			have: []string{"{key: node.kubernetes.io/not-ready}", "{key: node.kubernetes.io/unreachable, effect: ''}"},
			want: []string{"{key: node.kubernetes.io/not-ready}", "{key: node.kubernetes.io/unreachable, effect: ''}"},
		},
		"another operator": {
			have: []string{"{key: node.kubernetes.io/not-ready, operator: Equal, value: x, effect: NoExecute, tolerationSeconds: 300}"},
			want: []string{"{key: node.kubernetes.io/not-ready, operator: Equal, value: x, effect: NoExecute, tolerationSeconds: 300}", unreachable},
		},
		"another effect": {
			have: []string{"{key: node.kubernetes.io/unreachable, effect: NoSchedule}"},
			want: []string{"{key: node.kubernetes.io/unreachable, effect: NoSchedule}", notReady, unreachable},
		},
		"everything, which counts as no": {have: []string{"{operator: Exists}"}, want: []string{"{operator: Exists}", notReady, unreachable}},
		"null":                           {have: []string{"null"}, want: []string{"null", notReady, unreachable}},
	} {
		t.Run(name, func(t *testing.T) {
			h := in(nil)
			h.DefaultNotReadyTolerationSeconds, h.DefaultUnreachableTolerationSeconds = ptr.To[int64](60), ptr.To[int64](0)
			_, after := judge(t, h, deployment("0", "{tolerations: ["+strings.Join(tc.have, ", ")+"]}"))
			reviewtest.Same(t, after, deployment("0", "{tolerations: ["+strings.Join(tc.want, ", ")+"]}"))
		})
	}
	t.Run("not configured", func(t *testing.T) {
		response, _ := judge(t, in(nil), deployment("0", "{}"))
		NewWithT(t).Expect(response.Patch).To(BeEmpty())
	})
	t.Run("in legacy mode", func(t *testing.T) {
		h := legacy(nil)
		h.DefaultNotReadyTolerationSeconds = ptr.To[int64](60)
		response, _ := judge(t, h, deployment("0", "{}"))
		NewWithT(t).Expect(response.Patch).To(BeEmpty())
	})
}

func TestAutoscalers(t *testing.T) {
	for name, tc := range map[string]struct {
		handler                *Handler
		kind, override, limits string
		want                   string
	}{
		"no minimum": {handler: in(nil), kind: "server", limits: "{maxReplicas: 1}", want: "{maxReplicas: 1}"},
		"null": {
			handler: in(nil), kind: "server", limits: "{minReplicas: null, maxReplicas: 1}", want: "{minReplicas: null, maxReplicas: 1}",
		},
		"to zero": {
			handler: in(nil), kind: "server", limits: "{minReplicas: 0, maxReplicas: 1}", want: "{minReplicas: 0, maxReplicas: 1}",
		},
		"no type": {
			handler: in(nil), override: "12", limits: "{minReplicas: 1, maxReplicas: 1}", want: "{minReplicas: 1, maxReplicas: 1}",
		},
		"server": {
			handler: in(nil), kind: "server", limits: "{minReplicas: 1, maxReplicas: 4}", want: "{minReplicas: 2, maxReplicas: 4}",
		},
		"server, low maximum": {
			handler: in(nil), kind: "server", limits: "{minReplicas: 1, maxReplicas: 1}", want: "{minReplicas: 2, maxReplicas: 2}",
		},
		"server, no maximum": {handler: in(nil), kind: "server", limits: "{minReplicas: 2}", want: "{minReplicas: 2, maxReplicas: 2}"},
		"server, more already": {
			handler: in(nil), kind: "server", limits: "{minReplicas: 12, maxReplicas: 16}", want: "{minReplicas: 12, maxReplicas: 16}",
		},
		"server, invalid": {
			handler: in(nil), kind: "server", limits: "{minReplicas: 12, maxReplicas: 3}", want: "{minReplicas: 12, maxReplicas: 12}",
		},
		"controller, empty": {
			handler: in(map[string]string{"failure-tolerance-type": ""}), kind: "controller", limits: "{minReplicas: 1, maxReplicas: 1}",
			want: "{minReplicas: 1, maxReplicas: 1}",
		},
		"controller, zone": {
			handler: in(map[string]string{"failure-tolerance-type": "zone"}), kind: "controller", limits: "{minReplicas: 1, maxReplicas: 2}",
			want: "{minReplicas: 2, maxReplicas: 2}",
		},
		"annotated": {
			handler: in(nil), kind: "server", override: "12", limits: "{minReplicas: 1, maxReplicas: 2}",
			want: "{minReplicas: 12, maxReplicas: 12}",
		},
		"annotated with fewer": {
			handler: in(nil), kind: "server", override: "1", limits: "{minReplicas: 3, maxReplicas: 4}",
			want: "{minReplicas: 3, maxReplicas: 4}",
		},
		"who scales does not matter": {
			handler: in(nil).scaledTo(9), kind: "server", limits: "{minReplicas: 1, maxReplicas: 4}", want: "{minReplicas: 2, maxReplicas: 4}",
		},
		"legacy": {
			handler: legacy(map[string]string{"replica-criteria": "zones"}), kind: "server", limits: "{minReplicas: 1, maxReplicas: 1}",
			want: "{minReplicas: 1, maxReplicas: 1}",
		},
		"legacy, wrongly annotated": {
			handler: legacy(nil), kind: "server", override: "x", limits: "{minReplicas: 1, maxReplicas: 1}",
			want: "{minReplicas: 1, maxReplicas: 1}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			metadata := "{labels: {high-availability-config.resources.gardener.cloud/type: '" + tc.kind +
				"'}, annotations: {high-availability-config.resources.gardener.cloud/replicas: '" + tc.override + "'}}"
			for _, each := range []string{
				"{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: METADATA, spec: LIMITS}",
				"{apiVersion: autoscaling/v2beta1, kind: HorizontalPodAutoscaler, metadata: METADATA, spec: LIMITS}",
				"{apiVersion: autoscaling.k8s.io/v1alpha1, kind: Hvpa, metadata: METADATA, spec: {hpa: {deploy: false, template: {spec: LIMITS}}, " +
					"unknown: 1}}",
				"{apiVersion: autoscaling.k8s.io/v7, kind: Hvpa, metadata: METADATA, spec: {hpa: {template: {spec: LIMITS}}}}",
			} {
				object := replaceAll(each, "METADATA", metadata)
				_, after := judge(t, tc.handler, replaceAll(object, "LIMITS", tc.limits))
				reviewtest.Same(t, after, replaceAll(object, "LIMITS", tc.want))
			}
		})
	}
}

func TestAutoscalersWithAWrongAnnotationAreDenied(t *testing.T) {
	response, _ := judge(t, in(nil), `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {labels: {high-availability-config.resources.gardener.cloud/type: server}, annotations: {high-availability-config.resources.gardener.cloud/replicas: abc}}
spec: {minReplicas: 1, maxReplicas: 1}
`)
	g := NewWithT(t)
	g.Expect(response.Code).To(BeEquivalentTo(403))
	g.Expect(response.Message).To(Equal(`strconv.Atoi: parsing "abc": invalid syntax`))
}

func TestLegacyModeIsForNamespacesThatAskForIt(t *testing.T) {
	const object = "{apiVersion: apps/v1, kind: Deployment, metadata: {labels: {high-availability-config.resources.gardener.cloud/type: " +
		"server}}, spec: {replicas: 1}}"
	zone := map[string]string{"failure-tolerance-type": "zone", "replica-criteria": "failure-tolerance-type"}
	for name, tc := range map[string]struct {
		handler *Handler
		want    string
	}{
		"switched on":              {in(zone).inLegacyMode(), `"replicas":3`},
		"switched off":             {in(zone), `"replicas":2`},
		"switched on, but not for": {in(map[string]string{"failure-tolerance-type": "zone"}).inLegacyMode(), `"replicas":2`},
		"scaled":                   {in(zone).inLegacyMode().scaledTo(5), `"replicas":3`},
	} {
		t.Run(name, func(t *testing.T) {
			_, after := judge(t, tc.handler, object)
			NewWithT(t).Expect(string(after)).To(ContainSubstring(tc.want))
		})
	}
}

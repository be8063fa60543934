package highavailability_test

import (
	"testing"

	. "github.com/onsi/gomega"
)

const (
	pinned = "{key: topology.kubernetes.io/zone, operator: In, values: [a, b, c]}"
	soft   = "{topologyKey: kubernetes.io/hostname, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: " +
		"web, tier: one}}}"
	hard = "{topologyKey: kubernetes.io/hostname, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web," +
		" tier: one}}}"
)

// required returns an affinity that requires these terms, as YAML.
func required(terms string) string {
	return "{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [" + terms + "]}}}"
}

// zoned returns a topology spread constraint on zones, as YAML.
func zoned(skew, domains string) string {
	return "{topologyKey: topology.kubernetes.io/zone, maxSkew: " + skew + ", minDomains: " + domains +
		", whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web, tier: one}}}"
}

// tolerances returns the annotations of three namespaces: without failure tolerance type, with an empty one, and with an unknown word.
func tolerances() map[string]map[string]string {
	return map[string]map[string]string{"nil": nil, "empty": {"failure-tolerance-type": ""}, "foo": {"failure-tolerance-type": "foo"}}
}

// ofTwo returns the constraints of a workload with two replicas in a namespace without zones.
func ofTwo(tolerance string) string {
	if tolerance == "foo" {
		return hard
	}
	return soft
}

func TestNamespaceWithoutTheLabelConsiderIsNotChanged(t *testing.T) {
	e := serve(t, "", ", defaultNotReadyTolerationSeconds: 60")
	namespace := e.namespaceWith(nil, map[string]string{"failure-tolerance-type": "zone", "zones": "a,b"})
	for _, kind := range kinds() {
		stored, err := e.Create(workload{namespace: namespace, kind: kind, component: "server"}.yaml())
		e.Expect(err).NotTo(HaveOccurred())
		e.outcomeIs(stored, "{replicas: 1}")
	}
}

func TestReplicasOfAWorkloadWithoutATypeAreKept(t *testing.T) {
	e := serve(t, "", "")
	for _, kind := range kinds() {
		e.becomes(workload{namespace: e.namespace(nil), kind: kind}.yaml(), "{replicas: 1}")
		e.becomes(workload{namespace: e.namespace(nil), kind: kind, override: "4"}.yaml(), "{replicas: 1}")
	}
}

func TestControllersGetReplicasForTheFailureTolerance(t *testing.T) {
	e := serve(t, "", "")
	for name, want := range map[string]string{
		"nil": "{replicas: 2, spread: [" + soft + "]}", "empty": "{replicas: 1}", "foo": "{replicas: 2, spread: [" + hard + "]}",
	} {
		for _, kind := range kinds() {
			e.becomes(workload{namespace: e.namespace(tolerances()[name]), kind: kind, component: "controller"}.yaml(), want)
		}
	}
}

func TestServersGetReplicasForTheFailureTolerance(t *testing.T) {
	e := serve(t, "", "")
	for name, annotations := range tolerances() {
		for _, kind := range kinds() {
			e.becomes(workload{namespace: e.namespace(annotations), kind: kind, component: "server"}.yaml(),
				"{replicas: 2, spread: ["+ofTwo(name)+"]}")
		}
	}
}

func TestHibernatedWorkloadsKeepZeroReplicas(t *testing.T) {
	e := serve(t, "", "")
	for _, component := range []string{"controller", "server"} {
		for _, kind := range kinds() {
			e.becomes(workload{namespace: e.namespace(nil), kind: kind, component: component, replicas: "0", override: "abc"}.yaml(),
				"{replicas: 0}")
		}
	}
}

func TestAnnotationSetsReplicas(t *testing.T) {
	e := serve(t, "", "")
	for _, kind := range kinds() {
		e.becomes(workload{namespace: e.namespace(nil), kind: kind, component: "controller", override: "4"}.yaml(),
			"{replicas: 4, spread: ["+soft+"]}")
		_, err := e.Create(workload{namespace: e.namespace(nil), kind: kind, component: "controller", override: "abc"}.yaml())
		e.Expect(err).To(MatchError(`admission webhook "high-availability-config.resources.gardener.cloud" denied the request: ` +
			`strconv.Atoi: parsing "abc": invalid syntax`))
	}
}

// scalers returns an HPA and an Hvpa that scale a workload up to 5 replicas.
func scalers(of workload) map[string]string {
	return map[string]string{
		"HPA":  hpa(of.namespace, of.kind, "web", "", "", "minReplicas: 1, maxReplicas: 5"),
		"HVPA": hvpa(of.namespace, of.kind, "web", "true", "", "", "minReplicas: 1, maxReplicas: 5"),
	}
}

func TestHorizontallyScaledWorkloadKeepsMoreReplicas(t *testing.T) {
	e := serve(t, "", "")
	e.serveHvpas()
	for _, kind := range kinds() {
		for _, scaler := range []string{"HPA", "HVPA"} {
			w := workload{namespace: e.namespace(nil), kind: kind}
			e.scale(w, scalers(w)[scaler])
			w.component = "server"
			e.becomes(w.yaml(), "{replicas: 2, spread: ["+soft+"]}")
			w.replicas = "5"
			e.becomes(w.yaml(), "{replicas: 5, spread: ["+soft+"]}")
		}
	}
}

func TestReplicasOfAnUnscaledWorkloadAreReduced(t *testing.T) {
	e := serve(t, "", "")
	for _, kind := range kinds() {
		e.becomes(workload{namespace: e.namespace(nil), kind: kind, component: "server", replicas: "5"}.yaml(),
			"{replicas: 2, spread: ["+soft+"]}")
	}
}

func TestHVPAThatDeploysNoHPADoesNotScale(t *testing.T) {
	e := serve(t, "", "")
	e.serveHvpas()
	for _, kind := range kinds() {
		w := workload{namespace: e.namespace(nil), kind: kind}
		_, err := e.Create(hvpa(w.namespace, kind, "web", "false", "", "", "minReplicas: 1, maxReplicas: 5"))
		e.Expect(err).NotTo(HaveOccurred())
		later := w
		later.name = "other" // when the server knows this Hvpa, it also knows the earlier one
		e.scale(later, hvpa(w.namespace, kind, "other", "true", "", "", "minReplicas: 1, maxReplicas: 5"))
		w.component, w.replicas = "server", "5"
		e.becomes(w.yaml(), "{replicas: 2, spread: ["+soft+"]}")
	}
}

func TestNamespaceWithoutZonesGetsNoAffinity(t *testing.T) {
	e := serve(t, "", "")
	for _, kind := range kinds() {
		e.becomes(workload{namespace: e.namespace(map[string]string{"failure-tolerance-type": "foo"}), kind: kind}.yaml(), "{replicas: 1}")
		e.becomes(workload{namespace: e.namespace(map[string]string{"failure-tolerance-type": "foo", "zones": ""}), kind: kind}.yaml(),
			"{replicas: 1}")
	}
}

// foo creates a namespace with three zones.
func (e *env) foo() string {
	e.T.Helper()
	return e.namespace(map[string]string{"failure-tolerance-type": "foo", "zones": "a,b,c"})
}

func TestPodsArePinnedToZones(t *testing.T) {
	e := serve(t, "", "")
	for _, kind := range kinds() {
		e.becomes(workload{namespace: e.foo(), kind: kind}.yaml(), "{replicas: 1, affinity: "+required("{matchExpressions: ["+pinned+"]}")+"}")
	}
}

func TestExistingZonePinningIsKept(t *testing.T) {
	e := serve(t, "", "")
	affinity := required("{matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}, " + pinned + "]}")
	for _, kind := range kinds() {
		e.becomes(workload{namespace: e.foo(), kind: kind, pods: "affinity: " + affinity}.yaml(), "{replicas: 1, affinity: "+affinity+"}")
	}
}

func TestEveryNodeSelectorTermIsPinned(t *testing.T) {
	e := serve(t, "", "")
	have := required("{matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]}, " +
		"{matchExpressions: [{key: topology.kubernetes.io/zone, operator: NotIn, values: [x]}]}, " +
		"{matchExpressions: [{key: foo, operator: NotIn, values: [bar]}]}")
	want := required("{matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}, " + pinned + "]}, " +
		"{matchExpressions: [" + pinned + "]}, " +
		"{matchExpressions: [{key: foo, operator: NotIn, values: [bar]}, " + pinned + "]}")
	for _, kind := range kinds() {
		e.becomes(workload{namespace: e.foo(), kind: kind, pods: "affinity: " + have}.yaml(), "{replicas: 1, affinity: "+want+"}")
	}
}

func TestEmptyFailureToleranceOrZonePinningPinsToZones(t *testing.T) {
	e := serve(t, "", "")
	want := "{replicas: 1, affinity: " + required("{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]}") + "}"
	for _, kind := range kinds() {
		e.becomes(workload{namespace: e.namespace(map[string]string{"failure-tolerance-type": "", "zones": "a"}), kind: kind}.yaml(), want)
		e.becomes(workload{namespace: e.namespace(map[string]string{"zone-pinning": "true", "zones": "a"}), kind: kind}.yaml(), want)
	}
}

func TestOneReplicaKeepsItsSpreadConstraints(t *testing.T) {
	e := serve(t, "", "")
	spread := "[" + hard + ", " + zoned("3", "7") + ", {topologyKey: some-key, maxSkew: 12, whenUnsatisfiable: ScheduleAnyway}]"
	for _, kind := range kinds() {
		e.becomes(workload{
			namespace: e.namespace(map[string]string{"zones": "a,b,c"}), kind: kind, pods: "topologySpreadConstraints: " + spread,
		}.yaml(), "{replicas: 1, spread: "+spread+"}")
	}
}

func TestPodsWithoutZonesAreSpreadAcrossHosts(t *testing.T) {
	e := serve(t, "", "")
	for _, kind := range kinds() {
		e.becomes(workload{namespace: e.namespace(nil), kind: kind, replicas: "2"}.yaml(), "{replicas: 2, spread: ["+soft+"]}")
	}
}

func TestPodsAreSpreadAcrossZones(t *testing.T) {
	e := serve(t, "", "")
	for _, kind := range kinds() {
		e.becomes(workload{namespace: e.namespace(map[string]string{"zones": "a,b,c"}), kind: kind, replicas: "2"}.yaml(),
			"{replicas: 2, spread: ["+soft+", "+zoned("1", "2")+"]}")
	}
}

func TestOtherSpreadConstraintsAreKept(t *testing.T) {
	e := serve(t, "", "")
	const some = "{topologyKey: some-key, maxSkew: 12, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}"
	for _, kind := range kinds() {
		e.becomes(workload{
			namespace: e.namespace(map[string]string{"zones": "a,b,c"}), kind: kind, replicas: "2",
			pods: "topologySpreadConstraints: [" + some +
				", {topologyKey: kubernetes.io/hostname, maxSkew: 34, whenUnsatisfiable: DoNotSchedule}, {topologyKey: " +
				"topology.kubernetes.io/zone, maxSkew: 56, whenUnsatisfiable: ScheduleAnyway}]",
		}.yaml(), "{replicas: 2, spread: ["+some+", "+soft+", "+zoned("1", "2")+"]}")
	}
}

func TestNodeToleranceSpreadsAcrossHostsOnly(t *testing.T) {
	e := serve(t, "", "")
	for _, kind := range kinds() {
		e.becomes(workload{namespace: e.foo(), kind: kind, replicas: "2"}.yaml(),
			"{replicas: 2, affinity: "+required("{matchExpressions: ["+pinned+"]}")+", spread: ["+hard+"]}")
	}
}

func TestZoneToleranceSpreadsAcrossHostsAndZones(t *testing.T) {
	e := serve(t, "", "")
	affinity := required("{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a, b]}]}")
	for _, kind := range kinds() {
		e.becomes(workload{
			namespace: e.namespace(map[string]string{"failure-tolerance-type": "zone", "zones": "a,b"}), kind: kind, replicas: "2",
		}.yaml(),
			"{replicas: 2, affinity: "+affinity+", spread: ["+hard+", "+zoned("1", "2")+"]}")
	}
}

func TestMaximumOfReplicasDeterminesTheSpread(t *testing.T) {
	e := serve(t, "", "")
	e.serveHvpas()
	for _, kind := range kinds() {
		for _, scaler := range []func(namespace string) string{
			func(namespace string) string {
				return hpa(namespace, kind, "web", "", "", "minReplicas: 1, maxReplicas: 6")
			},
			func(namespace string) string {
				return hvpa(namespace, kind, "web", "true", "", "", "minReplicas: 1, maxReplicas: 6")
			},
		} {
			w := workload{namespace: e.namespace(map[string]string{"zones": "a,b,c"}), kind: kind}
			e.scale(w, scaler(w.namespace))
			w.replicas = "2"
			e.becomes(w.yaml(), "{replicas: 2, spread: ["+soft+", "+zoned("2", "3")+"]}")
		}
	}
}

const (
	notReady    = "{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 60}"
	unreachable = "{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 120}"
	both        = ", defaultNotReadyTolerationSeconds: 60, defaultUnreachableTolerationSeconds: 120"
)

func TestDefaultTolerationsAreAppended(t *testing.T) {
	e := serve(t, "", both)
	for _, kind := range kinds() {
		e.becomes(workload{namespace: e.namespace(nil), kind: kind}.yaml(), "{replicas: 1, tolerations: ["+notReady+", "+unreachable+"]}")
	}
}

func TestTolerationOfAnotherEffectDoesNotReplaceTheDefault(t *testing.T) {
	e := serve(t, "", both)
	const have = "{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoSchedule}, {key: node.kubernetes.io/unreachable, " +
		"operator: Exists, effect: NoSchedule}"
	for _, kind := range kinds() {
		e.becomes(workload{namespace: e.namespace(nil), kind: kind, pods: "tolerations: [" + have + "]"}.yaml(),
			"{replicas: 1, tolerations: ["+have+", "+notReady+", "+unreachable+"]}")
	}
}

func TestTolerationsOfAWorkloadAreKept(t *testing.T) {
	e := serve(t, "", both)
	const (
		ownNotReady    = "{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}"
		ownUnreachable = "{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}"
	)
	for _, kind := range kinds() {
		e.becomes(workload{namespace: e.namespace(nil), kind: kind, pods: "tolerations: [" + ownNotReady + "]"}.yaml(),
			"{replicas: 1, tolerations: ["+ownNotReady+", "+unreachable+"]}")
		e.becomes(workload{namespace: e.namespace(nil), kind: kind, pods: "tolerations: [" + ownUnreachable + "]"}.yaml(),
			"{replicas: 1, tolerations: ["+ownUnreachable+", "+notReady+"]}")
	}
}

// autoscalers creates an HPA, in both versions, and an Hvpa with these limits, and checks the resulting limits.
func (e *env) autoscalers(annotations map[string]string, component, override, limits, wantMin, wantMax string) {
	e.T.Helper()
	namespace := e.namespace(annotations)
	current := hpa(namespace, "Deployment", "missing", component, override, limits)
	e.becomes(current, "{min: "+wantMin+", max: "+wantMax+"}")
	e.becomes(hvpa(namespace, "Deployment", "missing", "true", component, override, limits), "{hvpaMin: "+wantMin+", hvpaMax: "+wantMax+"}")

	old := e.Object(current) // a version that API servers no longer serve
	old.SetAPIVersion("autoscaling/v2beta1")
	old.SetName("old")
	e.becomesByPost(old, "{min: "+wantMin+", max: "+wantMax+"}")
}

func TestAutoscalersWithoutATypeAreNotChanged(t *testing.T) {
	e := serve(t, "", "")
	e.serveHvpas()
	e.autoscalers(nil, "", "", "minReplicas: 1, maxReplicas: 2", "1", "2")
}

// zone is the annotation of namespaces in the tests of minReplicas.
var zone = map[string]string{"failure-tolerance-type": "zone"}

func TestMinimumOfReplicasIsRaised(t *testing.T) {
	e := serve(t, "", "")
	e.serveHvpas()
	e.autoscalers(zone, "controller", "", "minReplicas: 1, maxReplicas: 2", "2", "2")
	e.autoscalers(zone, "controller", "", "minReplicas: 1, maxReplicas: 1", "2", "2")
}

func TestAnnotationSetsTheMinimumOfReplicas(t *testing.T) {
	e := serve(t, "", "")
	e.serveHvpas()
	e.autoscalers(zone, "controller", "12", "minReplicas: 1, maxReplicas: 2", "12", "12")
}

func TestMinimumOfReplicasIsNotLowered(t *testing.T) {
	e := serve(t, "", "")
	e.serveHvpas()
	e.autoscalers(zone, "controller", "", "minReplicas: 12, maxReplicas: 16", "12", "16")
}

func TestHVPAWithoutAMinimumIsNotChanged(t *testing.T) {
	e := serve(t, "", "")
	e.serveHvpas()
	e.becomes(hvpa(e.namespace(nil), "Deployment", "missing", "true", "server", "", "maxReplicas: 1"), "{hvpaMax: 1}")
}

// Other tests check by the helper becomes that the output of the handler, as its input, is not changed again. This one checks it for a
// workload of each kind with affinity, tolerations and spread of its own.
func TestOutputIsNotChangedAgain(t *testing.T) {
	e := serve(t, "", both)
	namespace := e.namespace(map[string]string{"failure-tolerance-type": "zone", "zones": "c,b,a"})
	for _, kind := range kinds() {
		stored, err := e.Create(workload{
			namespace: namespace, kind: kind, component: "server", replicas: "7",
			pods: "affinity: " + required("{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [x]}, {key: "+
				"kubernetes.io/hostname, operator: Exists}]}") +
				", tolerations: [{key: x, operator: Exists}], topologySpreadConstraints: [{topologyKey: topology.kubernetes.io/zone, maxSkew: 3, " +
				"whenUnsatisfiable: DoNotSchedule}]",
		}.yaml())
		e.Expect(err).NotTo(HaveOccurred())
		e.outcomeIs(stored, "{replicas: 2, affinity: "+
			required("{matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}, "+pinned+"]}")+
			", tolerations: [{key: x, operator: Exists}, "+notReady+", "+unreachable+"], spread: ["+hard+", "+zoned("1", "2")+"]}")
		answer := e.review(stored)
		e.Expect(answer.Allowed).To(BeTrue())
		e.Expect(answer.Patch).To(BeEmpty())
		e.Expect(answer.PatchType).To(BeEmpty())
		updated, err := e.Update(stored, `{"metadata":{"annotations":{"note":"again"}}}`)
		e.Expect(err).NotTo(HaveOccurred())
		e.Expect(updated.Object["spec"]).To(Equal(stored.Object["spec"]))
	}
}

package highavailability_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
)

func TestUnusualSettingsAndRequestsAreHandled(t *testing.T) {
	server := serve(t, "", "")
	pods := func(namespace string) string {
		return workload{namespace: namespace, kind: "Deployment", replicas: "2"}.yaml()
	}
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"zones twice, and nothing": {
			map[string]string{"zones": "a,,a,b"}, "{replicas: 2, spread: [" + soft + ", " + zoned("1", "2") + "]}",
		},
		"zones with spaces": {
			map[string]string{"zones": "a, b"}, "{replicas: 2, spread: [" + soft + ", " + zoned("1", "2") + "]}",
		},
		"zones, but no tolerance and no pinning": {
			map[string]string{"zones": "a,b", "zone-pinning": "false"}, "{replicas: 2, spread: [" + soft + ", " + zoned("1", "2") + "]}",
		},
		"pinning that is no boolean": {
			map[string]string{"zones": "a", "zone-pinning": "yes"}, "{replicas: 2, spread: [" + soft + "]}",
		},
		"criteria without legacy mode": {
			map[string]string{"replica-criteria": "zones", "zones": "a,b"}, "{replicas: 2, spread: [" + soft + ", " + zoned("1", "2") + "]}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := server.with(t)
			answer := e.reviewOf(pods(e.namespace(tc.annotations)))
			e.outcomeIs(answer, tc.want)
		})
	}

	t.Run("a changed namespace counts at the next write", func(t *testing.T) {
		t.Parallel()
		e := server.with(t)
		namespace := e.namespace(nil)
		stored, err := e.Create(pods(namespace))
		e.Expect(err).NotTo(HaveOccurred())
		e.outcomeIs(stored, "{replicas: 2, spread: ["+soft+"]}")
		e.Expect(e.Target.Patch(e.Ctx, e.cluster("{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}"),
			merge(`{"metadata":{"annotations":{"high-availability-config.resources.gardener.cloud/zones":"a,b"}}}`))).To(Succeed())
		e.patiently(func(g Gomega) {
			updated, err := e.Update(stored, `{"metadata":{"annotations":{"deployment.kubernetes.io/revision":"7"}}}`)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(outcome(e, updated)["spread"]).To(HaveLen(2))
		})
	})

	t.Run("the label skip opts out, whatever its value", func(t *testing.T) {
		t.Parallel()
		e := server.with(t)
		for _, value := range []string{"", "false"} {
			stored, err := e.Create(workload{
				namespace: e.namespace(nil), kind: "StatefulSet", replicas: "2",
				labels: "high-availability-config.resources.gardener.cloud/skip: '" + value + "'",
			}.yaml())
			e.Expect(err).NotTo(HaveOccurred())
			e.outcomeIs(stored, "{replicas: 2}")
		}
	})

	t.Run("the scale subresource is not asked about", func(t *testing.T) {
		t.Parallel()
		e := server.with(t)
		stored, err := e.Create(workload{namespace: e.namespace(nil), kind: "Deployment", component: "server"}.yaml())
		e.Expect(err).NotTo(HaveOccurred())
		e.outcomeIs(stored, "{replicas: 2, spread: ["+soft+"]}")
		e.Expect(e.Target.SubResource("scale").Patch(e.Ctx, stored.DeepCopy(), merge(`{"spec":{"replicas":1}}`))).To(Succeed())
		updated, err := e.Update(stored, `{"metadata":{"annotations":{"note":"again"}}}`)
		e.Expect(err).NotTo(HaveOccurred())
		e.outcomeIs(updated, "{replicas: 2, spread: ["+soft+"]}")
	})

	t.Run("dry run changes the same, and a name may be generated", func(t *testing.T) {
		t.Parallel()
		e := server.with(t)
		w := e.Object(workload{namespace: e.namespace(nil), kind: "Deployment", component: "server"}.yaml())
		w.SetName("")
		w.SetGenerateName("web-")
		e.Expect(e.Target.Create(e.Ctx, w, client.DryRunAll)).To(Succeed())
		e.outcomeIs(w, "{replicas: 2, spread: ["+soft+"]}")
	})
}

func TestUnsupportedRequestsAreRejectedOrIgnored(t *testing.T) {
	server := serve(t, "", "")
	namespace := server.namespace(nil)
	for name, tc := range map[string]struct {
		request string
		want    webhooktest.Answer
	}{
		"a namespace that is not there": {
			request: "{kind: {group: apps, version: v1, kind: DaemonSet}, operation: CREATE, namespace: ha-missing, name: web, object: {}}",
			want:    webhooktest.Answer{Status: metav1.Status{Code: 500, Message: `namespaces "ha-missing" not found`}},
		},
		"a kind that is not handled": {
			request: "{kind: {group: apps, version: v1, kind: DaemonSet}, operation: CREATE, namespace: " + namespace + ", name: web, object: {}}",
			want:    webhooktest.Answer{Allowed: true, Status: metav1.Status{Code: 200, Message: "unexpected resource: DaemonSet.apps"}},
		},
		"a Pod": {
			request: "{kind: {group: '', version: v1, kind: Pod}, operation: CREATE, namespace: " + namespace + ", name: web, object: {}}",
			want:    webhooktest.Answer{Allowed: true, Status: metav1.Status{Code: 200, Message: "unexpected resource: Pod"}},
		},
		"no object": {
			request: "{kind: {group: apps, version: v1, kind: Deployment}, operation: DELETE, namespace: " + namespace +
				", name: web, object: null, oldObject: {}}",
			want: webhooktest.Answer{Status: metav1.Status{Code: 403, Reason: "Forbidden", Message: "there is no content to decode"}},
		},
		"an object that cannot be read": {
			request: "{kind: {group: apps, version: v1, kind: Deployment}, operation: UPDATE, namespace: " + namespace +
				", name: web, object: {spec: {template: {spec: {tolerations: x}}}}}",
			want: webhooktest.Answer{
				Status: metav1.Status{Code: 403, Reason: "Forbidden", Message: `spec.template.spec.tolerations: must not be a string`},
			},
		},
		"an autoscaler of a version that is not handled": {
			request: "{kind: {group: autoscaling, version: v1, kind: HorizontalPodAutoscaler}, operation: CREATE, namespace: " + namespace +
				", name: web, object: {spec: {minReplicas: 1}}}",
			want: webhooktest.Answer{
				Status: metav1.Status{Code: 403, Reason: "Forbidden", Message: `autoscaling version "v1" in request is not supported`},
			},
		},
		"an empty Deployment": {
			request: "{kind: {group: apps, version: v1, kind: Deployment}, operation: CREATE, namespace: " + namespace + ", name: web, object: {}}",
			want:    webhooktest.Answer{Allowed: true, Status: metav1.Status{Code: 200}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := server.with(t)
			e.Expect(e.Review(path, tc.request)).To(Equal(tc.want))
		})
	}

	t.Run("replicas that are taken away are warned of", func(t *testing.T) {
		t.Parallel()
		e := server.with(t)
		answer := e.review(e.Object(workload{namespace: namespace, kind: "Deployment", component: "server", replicas: "5"}.yaml()))
		e.Expect(answer.Warnings).
			To(Equal([]string{"spec.replicas: 2, not 5; annotation high-availability-config.resources.gardener.cloud/replicas sets another"}))
	})
}

func TestLegacyModeFollowsTheReplicaCriteria(t *testing.T) {
	server := serve(t, "legacyReplicaCriteria: true", both)
	legacySpread := "{topologyKey: topology.kubernetes.io/zone, maxSkew: SKEW, whenUnsatisfiable: DoNotSchedule, labelSelector: " +
		"{matchLabels: {app: web, tier: one}}}"
	spread := func(skew string) string { return "spread: [" + hard + ", " + replace(legacySpread, "SKEW", skew) + "]" }
	affinity := "affinity: " + required("{matchExpressions: ["+pinned+"]}")
	for name, tc := range map[string]struct {
		annotations         map[string]string
		component, override string
		replicas            string
		want                string
	}{
		"by tolerance: controller, nil": {
			annotations: map[string]string{"replica-criteria": "failure-tolerance-type"}, component: "controller", want: "{replicas: 1}",
		},
		"by tolerance: controller, empty": {
			annotations: map[string]string{"replica-criteria": "failure-tolerance-type", "failure-tolerance-type": ""}, component: "controller",
			want: "{replicas: 1}",
		},
		"by tolerance: controller, node": {
			annotations: map[string]string{"replica-criteria": "failure-tolerance-type", "failure-tolerance-type": "node"},
			component:   "controller", want: "{replicas: 2, spread: [" + soft + "]}",
		},
		"by tolerance: server, nil": {
			annotations: map[string]string{"replica-criteria": "failure-tolerance-type"}, component: "server",
			want: "{replicas: 2, spread: [" + soft + "]}",
		},
		"by tolerance: server, node": {
			annotations: map[string]string{"replica-criteria": "failure-tolerance-type", "failure-tolerance-type": "node"}, component: "server",
			want: "{replicas: 2, spread: [" + soft + "]}",
		},
		"by tolerance: server, zone": {
			annotations: map[string]string{"replica-criteria": "failure-tolerance-type", "failure-tolerance-type": "zone", "zones": "a,b,c"},
			component:   "server", want: "{replicas: 3, " + affinity + ", " + spread("1") + "}",
		},
		"by zones: controller": {
			annotations: map[string]string{"replica-criteria": "zones", "zones": "a,b,c"}, component: "controller",
			want: "{replicas: 2, " + spread("1") + "}",
		},
		"by zones: server, one": {
			annotations: map[string]string{"replica-criteria": "zones", "zones": "a"}, component: "server",
			want: "{replicas: 2, spread: [" + soft + "]}",
		},
		"by zones: server, three": {
			annotations: map[string]string{"replica-criteria": "zones", "zones": "a,b,c"}, component: "server",
			want: "{replicas: 3, " + spread("1") + "}",
		},
		"by zones: annotated": {
			annotations: map[string]string{"replica-criteria": "zones", "zones": "a,b,c"}, component: "server", override: "6",
			want: "{replicas: 6, " + spread("2") + "}",
		},
		"by zones: hibernated": {
			annotations: map[string]string{"replica-criteria": "zones", "zones": "a,b,c"}, component: "server", replicas: "0",
			want: "{replicas: 0}",
		},
		"by zones: no type": {annotations: map[string]string{"replica-criteria": "zones", "zones": "a,b,c"}, want: "{replicas: 1}"},
		"by nothing that is known": {
			annotations: map[string]string{"replica-criteria": "moon", "zones": "a,b,c"}, component: "server", want: "{replicas: 1}",
		},
		"pinning does not count": {
			annotations: map[string]string{"replica-criteria": "moon", "zones": "a,b,c", "zone-pinning": "true"}, want: "{replicas: 1}",
		},
		"an empty tolerance pins": {
			annotations: map[string]string{"replica-criteria": "moon", "zones": "a,b,c", "failure-tolerance-type": ""},
			want:        "{replicas: 1, " + affinity + "}",
		},
		"not asked for": {
			annotations: map[string]string{"zones": "a,b,c"}, component: "server",
			want: "{replicas: 2, tolerations: [" + notReady + ", " + unreachable + "], spread: [" + soft + ", " + zoned("1", "2") + "]}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := server.with(t)
			for _, kind := range kinds() {
				w := workload{namespace: e.namespace(tc.annotations), kind: kind, component: tc.component, override: tc.override, replicas: tc.replicas}
				e.outcomeIs(e.reviewOf(w.yaml()), tc.want)
			}
		})
	}
	t.Run("autoscalers stay", func(t *testing.T) {
		t.Parallel()
		e := server.with(t)
		namespace := e.namespace(map[string]string{"replica-criteria": "zones"})
		e.outcomeIs(e.reviewOf(hpa(namespace, "Deployment", "missing", "server", "", "minReplicas: 1, maxReplicas: 1")), "{min: 1, max: 1}")
		namespace = e.namespace(nil)
		e.outcomeIs(e.reviewOf(hpa(namespace, "Deployment", "missing", "server", "", "minReplicas: 1, maxReplicas: 1")), "{min: 2, max: 2}")
	})
}

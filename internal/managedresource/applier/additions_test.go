package applier_test

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

const policyKind = "networking.k8s.io/v1/NetworkPolicy"

func dbPolicy(e *managedresourcetest.Env) string {
	return e.Fill("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db, namespace: $NS}\n" +
		"spec: {podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress], " +
		"ingress: [{from: [{podSelector: {matchLabels: {app: shop}}}], ports: [{port: 5432}]}]}")
}

// managedFields do not show the fields in an atomic value, in an empty one, or in one of several items with the same key.
func TestAdditionsBelowTheRecordedFieldsAreRemoved(t *testing.T) {
	t.Parallel()
	e := managedresourcetest.New(t, managedresourcetest.Options{TwoClusters: true, Stopped: true, Configure: longSyncPeriod})
	group := e.Fill("$NS.example.test")
	e.Define(group, "v1", "Widget")
	e.Start()
	objects := map[string]struct {
		kind, manifest string
		// patches are merge patches of spec.
		patches []string
	}{
		"web": {serviceKind, webService(e, "", "ports: [{port: 80}], "), []string{`{"selector":{"tier":"x"}}`}},
		"db": {policyKind, dbPolicy(e), []string{
			`{"podSelector":{"matchLabels":{"nobody":"x"}}}`,
			`{"ingress":[{"from":[{"podSelector":{"matchLabels":{"app":"shop"}},"namespaceSelector":{}}],"ports":[{"port":5432}]}]}`,
			`{"egress":[]}`,
		}},
		"front": {"networking.k8s.io/v1/Ingress", e.Fill("apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: front, namespace: $NS}\n" +
			"spec: {rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: c, port: {number: 80}}}}]}}]}"), []string{
			`{"rules":[{"host":"a.example.test","http":{"paths":[{"path":"/","pathType":"Prefix",` +
				`"backend":{"service":{"name":"c","port":{"number":80}}}}]}}]}`,
		}},
		"twins": {deploymentKind, e.Fill("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: twins, namespace: $NS}\nspec: {replicas: 0, " +
			"selector: {matchLabels: {app: twins}}, template: {metadata: {labels: {app: twins}}, spec: {containers: [{name: c, image: i, " +
			"env: [{name: A, value: '1'}, {name: A}]}]}}}"), []string{
			`{"template":{"spec":{"nodeSelector":{"disk":"none"}}}}`,
			`{"template":{"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"A","value":"1"},{"name":"A","value":"2"}]}]}}}`,
			`{"template":{"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"A","value":"1"},{"name":"A"},{"name":"A"}]}]}}}`,
		}},
		"custom": {group + "/v1/Widget", e.Fill("apiVersion: $NS.example.test/v1\nkind: Widget\nmetadata: {name: custom, namespace: $NS}\n" +
			"spec: {list: [{name: a}], other: {a: 1}}"), []string{
			`{"list":[{"name":"a","more":0}]}`, `{"list":[{"name":"a","more":{}}]}`, `{"other":{"more":false}}`,
			`{"more":{}}`, `{"more":[]}`, `{"more":""}`,
		}},
		"nulls": {deploymentKind, e.Fill("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: nulls, namespace: $NS}\nspec: {replicas: 0, " +
			"minReadySeconds: null, selector: {matchLabels: {app: nulls}}, template: {metadata: {labels: {app: nulls}}, spec: {" +
			"priorityClassName: null, nodeSelector: null, containers: [{name: c, image: i, workingDir: null}]}}}"), []string{
			`{"minReadySeconds":5}`, `{"template":{"spec":{"priorityClassName":"x"}}}`, `{"template":{"spec":{"nodeSelector":{"a":"b"}}}}`,
			`{"template":{"spec":{"containers":[{"name":"c","image":"i","workingDir":"/x"}]}}}`,
		}},
	}
	var manifests []string
	for _, each := range objects {
		manifests = append(manifests, each.manifest)
	}
	e.Set("mr", manifests...)
	e.AwaitApplied("mr", "True/ApplySucceeded")
	for name, each := range objects {
		want := managedresourcetest.Field(e.Live(each.kind, name), "spec")
		for _, patch := range each.patches {
			patch = `{"spec":` + patch + `}`
			manager := patch[:min(len(patch), 100)] // repairs pause per manager
			e.Expect(e.Target.Patch(e.Ctx, e.Live(each.kind, name), client.RawPatch("application/merge-patch+json", []byte(patch)),
				client.FieldOwner(manager))).To(Succeed())
			e.Await(each.kind, name, func(g Gomega, live *unstructured.Unstructured) {
				g.Expect(managedresourcetest.Field(live, "spec")).To(Equal(want), "%s %s", name, patch)
			})
		}
	}
	e.Expect(e.Look("mr")).To(BeEmpty())
}

// If an update changes nothing, the controller knows that the other manager wrote only defaults.
func TestDefaultsInAtomicValuesOfAnotherManagerAreNoDrift(t *testing.T) {
	e := withoutControllers(t)
	live := e.Create(dbPolicy(e))
	e.Set("mr", dbPolicy(e))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	adopted := e.Live(policyKind, "db")
	e.Expect(adopted.GetUID()).To(Equal(live.GetUID()))
	const update = "PUT /apis/networking.k8s.io/v1/namespaces/$NS/networkpolicies/db"
	updates := func() []string {
		return slices.DeleteFunc(e.Requests.Writes(), func(each string) bool { return each != e.Fill(update) })
	}
	e.Look("mr")
	e.Eventually(updates).WithTimeout(managedresourcetest.Patience).Should(HaveLen(2), "one for each of two reconciliations of all objects")
	e.Requests.Reset()
	e.Patch(policyKind, "db", `{"metadata":{"annotations":{"note":"x"}}}`)
	noted := e.Live(policyKind, "db")
	e.Eventually(updates).WithTimeout(managedresourcetest.Patience).ShouldNot(BeEmpty())
	e.Fence()
	e.Expect(updates()).To(HaveLen(1))
	e.Expect(e.Live(policyKind, "db").GetResourceVersion()).To(Equal(noted.GetResourceVersion()))
	e.Expect(repairsOf(e, "mr")).To(BeEmpty())

	e.Requests.Reset()
	e.Restart(nil)
	e.Reconciled("mr")
	e.Expect(e.Live(policyKind, "db").GetResourceVersion()).To(Equal(noted.GetResourceVersion()))
	e.Expect(repairsOf(e, "mr")).To(BeEmpty())
}

package health_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// judgedKind is a kind with an unhealthy object, and the status that makes it healthy.
type judgedKind struct {
	kind, manifest string
	// sick and well are statuses of the object. If sick is empty, the object is unhealthy from the start.
	sick, well string
	message    string
}

func judgedKinds(e *Env) []judgedKind {
	workload := func(kind, spec string) string {
		return fmt.Sprintf("apiVersion: apps/v1\nkind: %s\nmetadata: {name: x, namespace: %s}\n"+
			"spec: {%sselector: {matchLabels: {app: %[1]s}}, template: {metadata: {labels: {app: %[1]s}}, spec: {containers: [{name: c, image: "+
			"i}]}}}", kind, e.Namespace, spec)
	}
	return []judgedKind{
		{
			kind: "apps/v1/Deployment", manifest: workload("Deployment", "replicas: 0, "),
			sick: `{"observedGeneration":1,"conditions":[{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}`,
			well: `{"conditions":[{"type":"Available","status":"True"},{"type":"Progressing","status":"True",` +
				`"reason":"NewReplicaSetAvailable"}]}`,
			message: `condition "Available" is missing`,
		},
		{
			kind: "apps/v1/DaemonSet", manifest: workload("DaemonSet", ""),
			sick: `{"observedGeneration":1,"desiredNumberScheduled":2,"currentNumberScheduled":2,"updatedNumberScheduled":2,` +
				`"numberUnavailable":1}`,
			well:    `{"numberUnavailable":0}`,
			message: `too many unavailable pods found (1/2)`,
		},
		{
			kind: "apps/v1/StatefulSet", manifest: workload("StatefulSet", "serviceName: x, "),
			sick: `{"observedGeneration":1,"replicas":1,"updatedReplicas":1}`, well: `{"readyReplicas":1}`, message: `not enough ready replicas ` +
				`(0/1)`,
		},
		{
			kind: "apps/v1/ReplicaSet", manifest: workload("ReplicaSet", "replicas: 2, "),
			sick: `{"observedGeneration":1,"replicas":2,"readyReplicas":1}`, well: `{"readyReplicas":2}`, message: `ReplicaSet does not have ` +
				`minimum availability`,
		},
		{
			kind: "v1/ReplicationController",
			manifest: e.Fill("apiVersion: v1\nkind: ReplicationController\nmetadata: {name: x, namespace: $NS}\n" +
				"spec: {replicas: 1, selector: {app: rc}, template: {metadata: {labels: {app: rc}}, spec: {containers: [{name: c, image: i}]}}}"),
			sick: `{"observedGeneration":1,"replicas":1}`, well: `{"readyReplicas":1}`, message: `ReplicationController does not have minimum ` +
				`availability`,
		},
		{
			kind: "batch/v1/Job",
			manifest: e.Fill("apiVersion: batch/v1\nkind: Job\nmetadata: {name: x, namespace: $NS}\n" +
				"spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}"),
			sick: `{"startTime":"2024-01-01T00:00:00Z","failed":1,"conditions":[
				{"type":"FailureTarget","status":"True","reason":"BackoffLimitExceeded","message":"no more tries"},
				{"type":"Failed","status":"True","reason":"BackoffLimitExceeded","message":"no more tries"}]}`,
			message: `condition "Failed" has invalid status True (expected False) due to BackoffLimitExceeded: no more tries`,
		},
		{
			kind: pod, manifest: podManifest(e, "x"), well: `{"phase":"Succeeded"}`,
			message: `pod is in invalid phase "Pending" (expected one of ["Running" "Succeeded"])`,
		},
		{
			kind:     "v1/Service",
			manifest: e.Fill("apiVersion: v1\nkind: Service\nmetadata: {name: x, namespace: $NS}\nspec: {type: LoadBalancer, ports: [{port: 80}]}"),
			well:     `{"loadBalancer":{"ingress":[{"hostname":"x.example.com"}]}}`, message: `service is missing ingress status`,
		},
	}
}

func TestAcceptance72EveryKindThatIsJudged(t *testing.T) {
	e := apart(t)
	for i, each := range judgedKinds(e) {
		name := fmt.Sprint("set-", i)
		e.Set(name, each.manifest)
		e.AwaitApplied(name, "True/ApplySucceeded")
		if each.sick != "" {
			e.PatchStatus(each.kind, "x", `{"status":`+each.sick+`}`)
		}
		short := Unstructured(e.Get(name).Status.Resources[0]).GetKind()
		// After the message about a Service, Events of kube-controller-manager may follow.
		soon(e, func() string { return Message(e.Get(name), "ResourcesHealthy") }).Should(HavePrefix(
			fmt.Sprintf("%s %q is unhealthy: %s", short, e.Namespace+"/x", each.message)))
		e.Expect(Condition(e.Get(name), "ResourcesHealthy")).To(Equal("False/" + short + "Unhealthy"))
		if each.well != "" {
			e.PatchStatus(each.kind, "x", `{"status":`+each.well+`}`)
			await(e, name, healthy, rolledOut)
		}
	}
}

// The API server reports in the status of a CustomResourceDefinition whether it serves the definition. It does not serve a definition if
// another definition already has the names of this one.
func TestAcceptance72Definitions(t *testing.T) {
	e := apart(t)
	e.Set("fine", e.Fill(widgets("widgets")))
	await(e, "fine", healthy, rolledOut)
	e.Set("taken", e.Fill(widgets("others")))
	soon(e, func() string { return Message(e.Get("taken"), "ResourcesHealthy") }).Should(HavePrefix(
		e.Fill(`CustomResourceDefinition "/others.$NS.example.com" is unhealthy: condition "NamesAccepted" has invalid status False (expected ` +
			`True)`)))
	e.Expect(Condition(e.Get("taken"), "ResourcesHealthy")).To(Equal("False/CustomResourceDefinitionUnhealthy"))
}

func widgets(plural string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.$NS.example.com}
spec:
  group: $NS.example.com
  names: {kind: Widget, listKind: WidgetList, plural: %[1]s}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`, plural)
}

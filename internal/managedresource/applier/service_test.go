package applier_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

func TestTheClusterIPOfAServiceStays(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		e.Set("mr", webService(e, "", "ports: [{port: 80}], "))
		before := e.AwaitApplied("mr", "True/ApplySucceeded")
		live := e.Live(serviceKind, "web")
		address := managedresourcetest.Field(live, "spec", "clusterIP")
		e.Expect(address).NotTo(BeEmpty())
		e.Expect(e.Look("mr")).To(BeEmpty())
		e.Expect(e.Live(serviceKind, "web").GetResourceVersion()).To(Equal(live.GetResourceVersion()))

		e.Secret("mr", webService(e, "", "clusterIP: 10.0.0.250, ports: [{port: 81}], "))
		e.AwaitChange(before)
		live = e.Live(serviceKind, "web")
		e.Expect(managedresourcetest.Field(live, "spec", "clusterIP")).To(Equal(address))
		ports, _ := managedresourcetest.Field(live, "spec", "ports").([]any)
		e.Expect(ports).To(Equal([]any{map[string]any{"port": int64(81), "protocol": "TCP", "targetPort": int64(81)}}))
		e.Expect(e.Look("mr")).To(BeEmpty())
	})
}

func TestTheClusterIPNoneIsSent(t *testing.T) {
	e := withoutControllers(t)
	e.Set("mr", webService(e, "", "ports: [{port: 80}], "))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	uid := e.Live(serviceKind, "web").GetUID()
	recording := e.Requests.Record()
	e.Secret("mr", webService(e, "", "clusterIP: None, ports: [{port: 80}], "))
	mr := e.AwaitApplied("mr", "False/ApplyFailed")
	e.Expect(managedresourcetest.Message(mr, "ResourcesApplied")).
		To(And(HavePrefix(e.Fill(`error during apply of object "v1/Service/$NS/web": `)), ContainSubstring("spec.clusterIP"),
			HaveSuffix(e.Fill(` (index 0 in 'objects.yaml' in secret '$NS/mr')`))))
	sent := recording.RequestsTo("PUT", e.Fill("/api/v1/namespaces/$NS/services/web"))
	e.Expect(sent).NotTo(BeEmpty())
	e.Expect(sent[0].Body["spec"]).To(HaveKeyWithValue("clusterIP", "None"))

	e.Secret("mr", webService(e, `annotations: {resources.gardener.cloud/delete-on-invalid-update: "true"}, `,
		"clusterIP: None, ports: [{port: 80}], "))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	live := e.Live(serviceKind, "web")
	e.Expect(managedresourcetest.Field(live, "spec", "clusterIP")).To(Equal("None"))
	e.Expect(live.GetUID()).NotTo(Equal(uid))
}

// nodePorts lists the ports of a Service by their node ports.
func nodePorts(live *unstructured.Unstructured) map[int64]int64 {
	found := map[int64]int64{}
	ports, _ := managedresourcetest.Field(live, "spec", "ports").([]any)
	for _, each := range ports {
		port, _ := each.(map[string]any)
		number, _ := port["port"].(int64)
		found[number], _ = port["nodePort"].(int64)
	}
	return found
}

func TestPortsAllocatedForALoadBalancerStay(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		const spec = "type: LoadBalancer, externalTrafficPolicy: Local, "
		e.Set("mr", webService(e, "", spec+"ports: [{name: a, port: 80}, {name: b, port: 443}], "))
		before := e.AwaitApplied("mr", "True/ApplySucceeded")
		live := e.Live(serviceKind, "web")
		allocated, health := nodePorts(live), managedresourcetest.Field(live, "spec", "healthCheckNodePort")
		e.Expect(allocated).To(And(HaveLen(2), Not(HaveKeyWithValue(Not(BeZero()), int64(0)))))
		e.Expect(health).NotTo(BeZero())
		e.Patch(serviceKind, "web", `{"spec":{"loadBalancerIP":"192.0.2.7"}}`)
		e.Expect(e.Look("mr")).To(BeEmpty())

		recording := e.Requests.Record()
		e.Secret("mr", webService(e, "labels: {a: b}, ",
			spec+"sessionAffinity: ClientIP, ports: [{name: a, port: 8080}, {name: c, port: 443}], "))
		e.AwaitChange(before)
		live = e.Live(serviceKind, "web")
		e.Expect(nodePorts(live)).To(Equal(map[int64]int64{8080: allocated[80], 443: allocated[443]}))
		e.Expect(managedresourcetest.Field(live, "spec", "sessionAffinity")).To(Equal("ClientIP"))
		e.Expect(managedresourcetest.Field(live, "spec", "loadBalancerIP")).To(Equal("192.0.2.7"))
		e.Expect(managedresourcetest.Field(live, "spec", "healthCheckNodePort")).To(Equal(health))
		sent := recording.RequestsTo("PUT", e.Fill("/api/v1/namespaces/$NS/services/web")) // newer API servers would keep that port themselves
		e.Expect(sent).To(HaveLen(1))
		e.Expect(sent[0].Body["spec"]).To(HaveKeyWithValue("healthCheckNodePort", BeNumerically("==", health)))
		e.Expect(e.Look("mr")).To(BeEmpty())
	})
}

func TestAnnotationsOfOpenStacksLoadBalancersStayWhenAnnotationsAreForced(t *testing.T) {
	e := inOneCluster(t)
	e.Secret("mr", webService(e, "", "type: LoadBalancer, ports: [{port: 80}], "))
	mr := e.ManagedResource("mr", "mr")
	mr.Spec.ForceOverwriteAnnotations = new(true)
	e.Expect(e.Source.Create(e.Ctx, mr)).To(Succeed())
	before := e.AwaitApplied("mr", "True/ApplySucceeded")
	want := e.Live(serviceKind, "web").GetAnnotations()
	e.Patch(serviceKind, "web", `{"metadata":{"annotations":{"loadbalancer.openstack.org/x":"y","mine":"yes"}}}`)
	want["loadbalancer.openstack.org/x"] = "y"
	e.Await(serviceKind, "web", func(g Gomega, live *unstructured.Unstructured) { g.Expect(live.GetAnnotations()).To(Equal(want)) })
	e.Secret("mr", webService(e, "", "type: LoadBalancer, ports: [{port: 81}], "))
	e.AwaitChange(before)
	e.Expect(e.Live(serviceKind, "web").GetAnnotations()).To(Equal(want))
}

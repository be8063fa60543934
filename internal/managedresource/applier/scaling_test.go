package applier_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

func replicas(live *unstructured.Unstructured) any {
	return managedresourcetest.Field(live, "spec", "replicas")
}

// containerResources returns the resources of the first container of a pod template.
func containerResources(live *unstructured.Unstructured, template ...string) any {
	if len(template) == 0 {
		template = []string{"spec", "template"}
	}
	containers, _ := managedresourcetest.Field(live, append(template, "spec", "containers")...).([]any)
	if len(containers) == 0 {
		return nil
	}
	container, _ := containers[0].(map[string]any)
	return container["resources"]
}

func awaitReplicas(e *managedresourcetest.Env, kind string, want int64) {
	e.T.Helper()
	e.Await(kind, "web", func(g Gomega, live *unstructured.Unstructured) { g.Expect(replicas(live)).To(Equal(want)) })
}

func TestReplicasFollowTheManifestUnlessTheyArePreserved(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		e.Set("mr", webDeployment(e, "", "replicas: 1, ", ""))
		before := e.AwaitApplied("mr", "True/ApplySucceeded")
		e.Patch(deploymentKind, "web", `{"spec":{"replicas":5}}`)
		awaitReplicas(e, deploymentKind, 1)

		e.Secret("mr", webDeployment(e, `annotations: {resources.gardener.cloud/preserve-replicas: "true"}, `, "replicas: 1, ", ""))
		before = e.AwaitChange(before)
		e.Patch(deploymentKind, "web", `{"spec":{"replicas":5}}`)
		e.Expect(e.Look("mr")).To(BeEmpty())
		e.Secret("mr", webDeployment(e, `annotations: {resources.gardener.cloud/preserve-replicas: "true"}, `,
			"replicas: 2, minReadySeconds: 1, ", ""))
		e.AwaitChange(before)
		live := e.Live(deploymentKind, "web")
		e.Expect(replicas(live)).To(Equal(int64(5)))
		e.Expect(managedresourcetest.Field(live, "spec", "minReadySeconds")).To(Equal(int64(1)))
	})
}

func TestContainerResourcesFollowTheManifestUnlessTheyArePreserved(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		const desired = "resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: '1', memory: 128Mi, ephemeral-storage: 1Gi}}, "
		const byHand = `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i","resources":{
			"requests":{"cpu":"200m","memory":"65Mi"},"limits":{"cpu":"2","memory":"129Mi","ephemeral-storage":"2Gi"}}}]}}}}`
		e.Set("mr", webDeployment(e, "", "replicas: 0, ", desired))
		before := e.AwaitApplied("mr", "True/ApplySucceeded")
		want := containerResources(e.Live(deploymentKind, "web"))
		e.Patch(deploymentKind, "web", byHand)
		e.Await(deploymentKind, "web", func(g Gomega, live *unstructured.Unstructured) { g.Expect(containerResources(live)).To(Equal(want)) })

		e.Secret("mr", webDeployment(e, `annotations: {resources.gardener.cloud/preserve-resources: "true"}, `, "replicas: 0, ", desired))
		e.AwaitChange(before)
		e.Patch(deploymentKind, "web", byHand)
		e.Await(deploymentKind, "web", func(g Gomega, live *unstructured.Unstructured) {
			g.Expect(containerResources(live)).To(Equal(map[string]any{
				"requests": map[string]any{"cpu": "200m", "memory": "65Mi"},
				"limits":   map[string]any{"cpu": "2", "memory": "129Mi", "ephemeral-storage": "1Gi"},
			}))
		})
		e.Expect(e.Look("mr")).To(BeEmpty())
	})
}

func autoscaler(e *managedresourcetest.Env, apiVersion, kind string) string {
	return e.Fill("apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\nmetadata: {name: web, namespace: $NS}\n" +
		"spec: {maxReplicas: 9, scaleTargetRef: {apiVersion: " + apiVersion + ", kind: " + kind + ", name: web}}")
}

func TestReplicasOfAHorizontalPodAutoscalerStay(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		e.Create(autoscaler(e, "apps/v1", "Deployment"))
		e.Set("mr", webDeployment(e, "", "replicas: 1, ", ""))
		before := e.AwaitApplied("mr", "True/ApplySucceeded")
		e.Patch(deploymentKind, "web", `{"spec":{"replicas":5}}`)
		e.Expect(e.Look("mr")).To(BeEmpty())
		e.Secret("mr", webDeployment(e, "", "replicas: 2, minReadySeconds: 1, ", ""))
		e.AwaitChange(before)
		live := e.Live(deploymentKind, "web")
		e.Expect(replicas(live)).To(Equal(int64(5)))
		e.Expect(managedresourcetest.Field(live, "spec", "minReadySeconds")).To(Equal(int64(1)))

		e.Remove("autoscaling/v1/HorizontalPodAutoscaler", "web")
		awaitReplicas(e, deploymentKind, 2)
	})
}

// defineAutoscalers creates the CustomResourceDefinitions of the kinds VerticalPodAutoscaler and Hvpa in the target. The controller must
// not run yet.
func defineAutoscalers(e *managedresourcetest.Env) {
	e.Define("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler")
	e.Define("autoscaling.k8s.io", "v1alpha1", "Hvpa")
}

func TestContainerResourcesFollowTheManifestDespiteAVerticalPodAutoscaler(t *testing.T) {
	t.Parallel()
	e := managedresourcetest.New(t, managedresourcetest.Options{TwoClusters: true, Stopped: true, Configure: longSyncPeriod})
	defineAutoscalers(e)
	e.Create(e.Fill("apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: web, namespace: $NS}\n" +
		"spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}"))
	e.Start()
	e.Set("mr", webDeployment(e, "", "replicas: 0, ", "resources: {requests: {cpu: 100m}}, "))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Patch(deploymentKind, "web",
		`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"200m"}}}]}}}}`)
	e.Await(deploymentKind, "web", func(g Gomega, live *unstructured.Unstructured) {
		g.Expect(containerResources(live)).To(Equal(map[string]any{"requests": map[string]any{"cpu": "100m"}}))
	})
}

func TestAnAutoscalerMayNameTheFormerGroup(t *testing.T) {
	e := withoutControllers(t)
	e.Create(autoscaler(e, "extensions/v1beta1", "Deployment"))
	e.Set("mr", webDeployment(e, "", "replicas: 1, ", ""))
	before := e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Patch(deploymentKind, "web", `{"spec":{"replicas":5}}`)
	e.Expect(e.Look("mr")).To(BeEmpty())
	e.Secret("mr", webDeployment(e, "", "replicas: 2, ", ""))
	e.AwaitChange(before)
	e.Expect(replicas(e.Live(deploymentKind, "web"))).To(Equal(int64(5)))
	e.Remove("autoscaling/v1/HorizontalPodAutoscaler", "web")
	awaitReplicas(e, deploymentKind, 2)
}

func TestFieldsThatAnHvpaScalesStay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec      string
		replicas  int64
		resources string
	}{
		"resources":                {spec: "vpa: {deploy: true}", replicas: 1, resources: "200m"},
		"replicas":                 {spec: "hpa: {deploy: true}, vpa: {deploy: false}", replicas: 5, resources: "100m"},
		"both":                     {spec: "hpa: {deploy: true}, vpa: {deploy: true}", replicas: 5, resources: "200m"},
		"nothing that is only set": {spec: "hpa: {}, vpa: {}", replicas: 1, resources: "100m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := managedresourcetest.New(t, managedresourcetest.Options{TwoClusters: true, Stopped: true, Configure: longSyncPeriod})
			defineAutoscalers(e)
			e.Create(e.Fill("apiVersion: autoscaling.k8s.io/v1alpha1\nkind: Hvpa\nmetadata: {name: web, namespace: $NS}\nspec: {" + tc.spec +
				", targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}"))
			e.Start()
			e.Set("mr", webDeployment(e, "", "replicas: 1, ", "resources: {requests: {cpu: 100m}}, "))
			e.AwaitApplied("mr", "True/ApplySucceeded")
			e.Patch(deploymentKind, "web",
				`{"spec":{"replicas":5,"template":{"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"200m"}}}]}}}}`)
			e.Await(deploymentKind, "web", func(g Gomega, live *unstructured.Unstructured) {
				g.Expect(replicas(live)).To(Equal(tc.replicas))
				g.Expect(containerResources(live)).To(Equal(map[string]any{"requests": map[string]any{"cpu": tc.resources}}))
			})
			e.Expect(e.Look("mr")).To(BeEmpty())
			live := e.Live(deploymentKind, "web")
			e.Expect(replicas(live)).To(Equal(tc.replicas))
			e.Expect(containerResources(live)).To(Equal(map[string]any{"requests": map[string]any{"cpu": tc.resources}}))
		})
	}
}

package applier_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

const (
	volumeKind = "v1/PersistentVolume"
	secretKind = "v1/Secret"
	podKind    = "v1/Pod"
	roleKind   = "rbac.authorization.k8s.io/v1/ClusterRole"
)

// repairsOf returns the Events about repairs of a set.
func repairsOf(e *managedresourcetest.Env, set string) []string {
	e.T.Helper()
	var repairs []string
	for _, each := range e.Events(set) {
		if strings.HasPrefix(each, "DriftRepair") {
			repairs = append(repairs, each)
		}
	}
	return repairs
}

func TestControllersOfKubernetesCompleteObjects(t *testing.T) {
	e := inOneCluster(t)
	manifests := func(labels string) []string {
		texts := []string{`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $NS-all, labels: {LABELS}}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {into: $NS-all}}]}
rules: []`, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $NS-part, labels: {into: $NS-all, LABELS}}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]`, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, namespace: $NS}`, `
apiVersion: v1
kind: Secret
metadata: {name: robot, namespace: $NS, labels: {LABELS}, annotations: {kubernetes.io/service-account.name: robot}}
type: kubernetes.io/service-account-token`, `
apiVersion: v1
kind: PersistentVolume
metadata: {name: $NS, labels: {LABELS}}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ""
  hostPath: {path: /none}
  claimRef: {namespace: $NS, name: reserved}`, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: reserved, namespace: $NS, labels: {LABELS}}
spec: {storageClassName: "", volumeName: $NS, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`, `
apiVersion: v1
kind: Pod
metadata: {name: lonely, namespace: $NS, labels: {LABELS}}
spec: {containers: [{name: c, image: "example.test/c:LABELS"}]}`}
		for i := range texts {
			texts[i] = e.Fill(strings.ReplaceAll(strings.ReplaceAll(texts[i], "c:LABELS", "c:"+labels), "LABELS", "v: \""+labels+"\""))
		}
		return texts
	}
	complete := func(version string) {
		t.Helper()
		hasVersion := func(g Gomega, live *unstructured.Unstructured) {
			g.Expect(live.GetLabels()).To(HaveKeyWithValue("v", version))
		}
		e.Await(roleKind, e.Fill("$NS-all"), func(g Gomega, live *unstructured.Unstructured) {
			hasVersion(g, live)
			g.Expect(managedresourcetest.Field(live, "rules")).To(HaveLen(1))
		})
		e.Await(secretKind, "robot", func(g Gomega, live *unstructured.Unstructured) {
			hasVersion(g, live)
			g.Expect(managedresourcetest.Field(live, "data")).To(And(HaveKey("token"), HaveKey("namespace")))
		})
		e.Await(volumeKind, e.Namespace, func(g Gomega, live *unstructured.Unstructured) {
			hasVersion(g, live)
			g.Expect(managedresourcetest.Field(live, "spec", "claimRef")).To(HaveKey("uid"))
			g.Expect(managedresourcetest.Field(live, "status", "phase")).To(Equal("Bound"))
		})
		e.Await(claimKind, "reserved", func(g Gomega, live *unstructured.Unstructured) {
			hasVersion(g, live)
			g.Expect(managedresourcetest.Field(live, "status", "phase")).To(Equal("Bound"))
		})
		e.Await(podKind, "lonely", func(g Gomega, live *unstructured.Unstructured) {
			hasVersion(g, live)
			containers, _ := managedresourcetest.Field(live, "spec", "containers").([]any)
			g.Expect(containers[0]).To(HaveKeyWithValue("image", "example.test/c:"+version))
		})
	}
	e.Set("mr", manifests("1")...)
	before := e.AwaitApplied("mr", "True/ApplySucceeded")
	complete("1")
	e.Expect(e.Look("mr")).To(BeEmpty())
	e.Secret("mr", manifests("2")...)
	e.AwaitChange(before)
	complete("2")
	e.Expect(e.Look("mr")).To(BeEmpty())
	e.Expect(repairsOf(e, "mr")).To(BeEmpty())
	e.Patch(podKind, "lonely", `{"metadata":{"labels":{"v":"edited"}}}`)
	complete("2")
}

// The controllers of Kubernetes complete objects of all kinds. `make fights` observes the same for longer, with a kubelet.
func TestControllersOfKubernetesAreNotFought(t *testing.T) {
	t.Parallel()
	e := managedresourcetest.New(t, managedresourcetest.Options{Stopped: true, Configure: longSyncPeriod})
	manifests := slices.DeleteFunc(e.Corpus(), func(text string) bool {
		return strings.Contains(text, "kind: Lease") // requests for leases are not counted
	})
	e.Start()
	e.Set("mr", manifests...)
	e.AwaitApplied("mr", "True/ApplySucceeded")
	refs := e.Get("mr").Status.Resources
	e.Expect(refs).To(HaveLen(len(manifests)))
	e.Eventually(func(g Gomega) {
		for _, ref := range refs {
			live := managedresourcetest.Unstructured(ref)
			g.Expect(e.Target.Get(e.Ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, live)).To(Succeed())
			observed, counts, _ := unstructured.NestedInt64(live.Object, "status", "observedGeneration")
			if counts || slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "PodDisruptionBudget"}, ref.Kind) {
				g.Expect(observed).To(Equal(live.GetGeneration()), "%s %s", ref.Kind, ref.Name)
			}
			switch ref.APIVersion + "/" + ref.Kind {
			case "batch/v1/Job", "autoscaling/v2/HorizontalPodAutoscaler":
				g.Expect(managedresourcetest.Field(live, "status", "conditions")).NotTo(BeNil(), "%s %s", ref.Kind, ref.Name)
			case "autoscaling/v1/HorizontalPodAutoscaler":
				g.Expect(live.GetAnnotations()).To(HaveKey("autoscaling.alpha.kubernetes.io/conditions"))
			}
			if ref.Kind == "Namespace" || ref.Kind == "PersistentVolume" || ref.Kind == "PersistentVolumeClaim" {
				g.Expect(managedresourcetest.Field(live, "status", "phase")).NotTo(BeNil(), "%s %s", ref.Kind, ref.Name)
			}
		}
	}).WithTimeout(managedresourcetest.Patience).Should(Succeed())
	e.Expect(e.Look("mr")).To(BeEmpty())
	e.Expect(repairsOf(e, "mr")).To(BeEmpty())
	e.Expect(managedresourcetest.Message(e.Get("mr"), "ResourcesApplied")).To(Equal("All resources are applied."))
}

func TestClaimsKeepTheirClass(t *testing.T) {
	e := withoutControllers(t)
	claim := func(metadata string) string {
		return e.Fill("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {" + metadata + "name: pantry, namespace: $NS}\n" +
			"spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}")
	}
	e.Set("mr", claim(""))
	before := e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Patch(claimKind, "pantry", `{"spec":{"storageClassName":"later"}}`)
	e.Expect(e.Look("mr")).To(BeEmpty())
	e.Secret("mr", claim("labels: {a: b}, "))
	e.AwaitChange(before)
	live := e.Live(claimKind, "pantry")
	e.Expect(live.GetLabels()).To(HaveKeyWithValue("a", "b"))
	e.Expect(managedresourcetest.Field(live, "spec", "storageClassName")).To(Equal("later"))
	e.Expect(repairsOf(e, "mr")).To(BeEmpty())
}

func TestIngressesKeepTheDefaultClass(t *testing.T) {
	e := withoutControllers(t)
	const ingressKind = "networking.k8s.io/v1/Ingress"
	e.Create(e.Fill("apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: $NS, annotations: " +
		"{ingressclass.kubernetes.io/is-default-class: 'true'}}\nspec: {controller: example.test/x}"))
	defer e.Remove("networking.k8s.io/v1/IngressClass", e.Namespace) // it is the default of all tests
	ingress := func(metadata string) string {
		return e.Fill("apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {" + metadata + "name: web, namespace: $NS}\n" +
			"spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}")
	}
	class := func() any { return managedresourcetest.Field(e.Live(ingressKind, "web"), "spec", "ingressClassName") }
	probes := 0
	e.Eventually(func() any { // the API server learns of the class from a watch
		probes++
		name := fmt.Sprint("probe-", probes)
		e.Create(strings.ReplaceAll(ingress(""), "name: web", "name: "+name))
		return managedresourcetest.Field(e.Live(ingressKind, name), "spec", "ingressClassName")
	}).WithTimeout(managedresourcetest.Patience).Should(Equal(e.Namespace))
	e.Set("mr", ingress(""))
	before := e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Expect(class()).To(Equal(e.Namespace))
	e.Secret("mr", ingress("labels: {a: b}, "))
	e.AwaitChange(before)
	e.Expect(e.Live(ingressKind, "web").GetLabels()).To(HaveKeyWithValue("a", "b"))
	e.Expect(class()).To(Equal(e.Namespace))
	e.Expect(repairsOf(e, "mr")).To(BeEmpty())
}

// The token controller keeps its state in annotations, and the API server in labels.
func TestForcedMetadataOfTokensIsNotFought(t *testing.T) {
	e := inOneCluster(t)
	e.Set("mr", e.Fill("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: robot, namespace: $NS}"), e.Fill("apiVersion: v1\n"+
		"kind: Secret\nmetadata: {name: robot, namespace: $NS, annotations: {kubernetes.io/service-account.name: robot}}\n"+
		"type: kubernetes.io/service-account-token"))
	e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Spec.ForceOverwriteAnnotations, mr.Spec.ForceOverwriteLabels = ptr.To(true), ptr.To(true)
	})
	e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Await(secretKind, "robot", func(g Gomega, live *unstructured.Unstructured) {
		g.Expect(managedresourcetest.Field(live, "data")).To(HaveKey("token"))
	})
	e.Expect(e.Look("mr")).To(BeEmpty())
	e.Expect(repairsOf(e, "mr")).To(BeEmpty())
	e.Expect(e.Live(secretKind, "robot").GetAnnotations()).To(HaveKey("kubernetes.io/service-account.uid"))
}

func TestReplicasOfEveryScaledKindStay(t *testing.T) {
	t.Parallel()
	e := managedresourcetest.New(t, managedresourcetest.Options{TwoClusters: true, Stopped: true, Configure: longSyncPeriod})
	group := e.Fill("$NS.example.test")
	e.Create(e.Fill(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: fleets.$NS.example.test}
spec:
  group: $NS.example.test
  scope: Namespaced
  names: {kind: Fleet, plural: fleets}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {scale: {specReplicasPath: .spec.size.want, statusReplicasPath: .status.replicas}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}`))
	e.Grant(group, "fleets")
	e.Start()
	hpa := func(name, apiVersion, kind string) {
		e.Create(e.Fill("apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\nmetadata: {name: " + name + ", namespace: $NS}\n" +
			"spec: {maxReplicas: 9, scaleTargetRef: {apiVersion: " + apiVersion + ", kind: " + kind + ", name: " + name + "}}"))
	}
	hpa("trams", group+"/v1", "Fleet")
	hpa("carts", "apps/v1", "ReplicaSet")
	manifests := func(color string) []string {
		fleet := "apiVersion: $NS.example.test/v1\nkind: Fleet\nmetadata: {name: NAME, namespace: $NS}\nspec: {color: " + color
		return []string{
			e.Fill(strings.ReplaceAll(fleet+"}", "NAME", "buses")),
			e.Fill(strings.ReplaceAll(fleet+", size: {want: 2}}", "NAME", "trams")),
			e.Fill(strings.ReplaceAll(fleet+", size: {want: 2}}", "NAME", "ships")),
			e.Fill("apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: carts, namespace: $NS, labels: {color: " + color + "}}\n" +
				"spec: {replicas: 1, selector: {matchLabels: {app: carts}}, template: {metadata: {labels: {app: carts}}, spec: {containers: [{name: c, image: i}]}}}"),
		}
	}
	e.Set("mr", manifests("red")...)
	before := e.AwaitApplied("mr", "True/ApplySucceeded")
	scale := func(kind, name string) {
		t.Helper()
		scale := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": map[string]any{"replicas": int64(5)},
		}}
		e.Expect(e.Target.SubResource("scale").Update(e.Ctx, e.Live(kind, name), client.WithSubResourceBody(scale))).To(Succeed())
	}
	fleetKind := group + "/v1/Fleet"
	for _, name := range []string{"buses", "trams", "ships"} {
		scale(fleetKind, name)
	}
	scale("apps/v1/ReplicaSet", "carts")
	e.Await(fleetKind, "ships", func(g Gomega, live *unstructured.Unstructured) { // no autoscaler scales it
		g.Expect(managedresourcetest.Field(live, "spec", "size", "want")).To(Equal(int64(2)))
	})
	e.Expect(e.Look("mr")).To(BeEmpty())
	e.Secret("mr", manifests("blue")...)
	e.AwaitChange(before)
	for _, name := range []string{"buses", "trams"} {
		live := e.Live(fleetKind, name)
		e.Expect(managedresourcetest.Field(live, "spec", "size", "want")).To(Equal(int64(5)), name)
		e.Expect(managedresourcetest.Field(live, "spec", "color")).To(Equal("blue"), name)
	}
	e.Expect(replicas(e.Live("apps/v1/ReplicaSet", "carts"))).To(Equal(int64(5)))
}

func TestFieldsThatAnAnnotationKeepsAreLive(t *testing.T) {
	e := withoutControllers(t)
	manifest := func(value, keep string) string {
		return e.ConfigMap("c", value, "annotations: {espalier.dev/keep-fields: \""+keep+"\"}")
	}
	e.Set("mr", manifest("1", "data['other.txt'], data.gone"))
	before := e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Edit("c", `{"data":{"other.txt":"theirs"}}`)
	e.Expect(e.Look("mr")).To(BeEmpty())
	e.Edit("c", `{"data":{"key":"theirs"}}`)
	e.AwaitData("c", "1")
	e.Secret("mr", manifest("2", "data['other.txt']"))
	e.AwaitChange(before)
	e.Expect(e.LiveConfigMap("c").Data).To(Equal(map[string]string{"key": "2", "other.txt": "theirs"}))
	e.Secret("mr", manifest("2", "metadata.name"))
	mr := e.AwaitApplied("mr", "False/ApplyFailed")
	e.Expect(managedresourcetest.Message(mr, "ResourcesApplied")).To(ContainSubstring("annotation espalier.dev/keep-fields: path"))
}

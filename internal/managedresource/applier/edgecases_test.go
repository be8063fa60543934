package applier_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/binary"
)

func TestChangedVolumeClaimTemplatesDoNotPreventOtherChanges(t *testing.T) {
	e := withoutControllers(t)
	e.Set("mr", webStatefulSet(e, "", "1Gi"))
	before := e.AwaitApplied("mr", "True/ApplySucceeded")
	claims := managedresourcetest.Field(e.Live(statefulSetKind, "web"), "spec", "volumeClaimTemplates")
	e.Secret("mr", strings.Replace(webStatefulSet(e, "labels: {a: b}, ", "2Gi"), "image: i", "image: j", 1))
	e.AwaitChange(before)
	live := e.Live(statefulSetKind, "web")
	e.Expect(managedresourcetest.Field(live, "spec", "volumeClaimTemplates")).To(Equal(claims))
	e.Expect(live.GetLabels()).To(HaveKeyWithValue("a", "b"))
	e.Expect(live.GetGeneration()).To(Equal(int64(2)))
}

func TestInjectedLabelsOfAJobMayNotChangeButItsOwnLabelsMay(t *testing.T) {
	e := inOneCluster(t)
	e.Set("mr", onceJob(e, ""))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	uid := e.Live(jobKind, "once").GetUID()
	e.Patch(jobKind, "once", `{"metadata":{"labels":{"resources.gardener.cloud/managed-by":"x"}}}`)
	e.Await(jobKind, "once", func(g Gomega, live *unstructured.Unstructured) {
		g.Expect(live.GetUID()).To(Equal(uid))
		g.Expect(live.GetLabels()).To(HaveKeyWithValue(managedBy, "gardener"))
	})
	e.AwaitApplied("mr", "True/ApplySucceeded")
}

func TestAnAutoscalerThatIsCreatedLaterIsRespected(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{"Deployment": deploymentKind, "StatefulSet": statefulSetKind} {
		t.Run(name, func(t *testing.T) {
			e := withoutControllers(t)
			e.Set("mr", webDeployment(e, "", "replicas: 1, ", ""), strings.Replace(webStatefulSet(e, "", "1Gi"), "replicas: 0", "replicas: 1", 1))
			e.AwaitApplied("mr", "True/ApplySucceeded")
			e.Patch(kind, "web", `{"spec":{"replicas":4}}`)
			awaitReplicas(e, kind, 1)
			e.Create(autoscaler(e, "apps/v1", name))
			e.Eventually(func(g Gomega) {
				e.Patch(kind, "web", `{"spec":{"replicas":4}}`)
				g.Expect(e.Look("mr")).To(BeEmpty())
				g.Expect(replicas(e.Live(kind, "web"))).To(Equal(int64(4)))
			}).WithTimeout(managedresourcetest.Patience).Should(Succeed())
		})
	}
}

func TestReplicasThatTheManifestLacksStay(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		e.Set("mr", webDeployment(e, "", "", ""))
		before := e.AwaitApplied("mr", "True/ApplySucceeded")
		e.Expect(replicas(e.Live(deploymentKind, "web"))).To(Equal(int64(1)))
		e.Patch(deploymentKind, "web", `{"spec":{"replicas":0}}`)
		e.Expect(e.Look("mr")).To(BeEmpty())
		e.Secret("mr", webDeployment(e, "", "minReadySeconds: 1, ", ""))
		e.AwaitChange(before)
		e.Expect(replicas(e.Live(deploymentKind, "web"))).To(Equal(int64(0)))
	})
}

func TestOnlyTheLiteralTrueKeepsReplicas(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"True", "1", "yes", "false"} {
		t.Run(value, func(t *testing.T) {
			e := withoutControllers(t)
			e.Set("mr", webDeployment(e,
				"annotations: {resources.gardener.cloud/preserve-replicas: '"+value+"', resources.gardener.cloud/preserve-resources: '"+value+"'}, ",
				"replicas: 1, ", "resources: {requests: {cpu: 100m}}, "))
			e.AwaitApplied("mr", "True/ApplySucceeded")
			e.Patch(deploymentKind, "web",
				`{"spec":{"replicas":5,"template":{"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"200m"}}}]}}}}`)
			e.Await(deploymentKind, "web", func(g Gomega, live *unstructured.Unstructured) {
				g.Expect(replicas(live)).To(Equal(int64(1)))
				g.Expect(containerResources(live)).To(Equal(map[string]any{"requests": map[string]any{"cpu": "100m"}}))
			})
		})
	}
}

func TestAnIgnoredSetDoesNotFollowItsSecretEvenAfterARestart(t *testing.T) {
	e := inOneCluster(t)
	e.Set("mr", e.ConfigMap("c", "1"))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	ignoreSet(e, "true")
	before := e.AwaitApplied("mr", "True/ManagedResourceIgnored")
	e.Restart(func() { e.Secret("mr", e.ConfigMap("d", "2")) })
	e.Fence()
	e.Expect(e.LiveConfigMap("c").Data).To(Equal(map[string]string{"key": "1"}))
	e.Expect(e.LiveConfigMap("d")).To(BeNil())
	e.Expect(e.Get("mr")).To(BeComparableTo(before))
}

func TestASetOfAnotherClassIsNotApplied(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		e.Secret("mr", e.ConfigMap("c", "1"))
		mr := e.ManagedResource("mr", "mr")
		mr.Spec.Class = ptr.To("seed")
		e.Expect(e.Source.Create(e.Ctx, mr)).To(Succeed())
		e.Fence()
		e.Expect(e.Get("mr")).To(BeComparableTo(mr))
		e.Expect(e.LiveConfigMap("c")).To(BeNil())
	})
}

func TestASetIsHandedOverToAnotherClass(t *testing.T) {
	e := inOneCluster(t)
	other := e.StartAnother(func(c *config.ResourceManagerConfiguration) { c.Controllers.ResourceClass = ptr.To("seed") })
	e.Set("mr", e.ConfigMap("c", "1"))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Edit("c", `{"metadata":{"finalizers":["example.test/hold"]}}`)
	first := e.LiveConfigMap("c").UID
	e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = ptr.To("seed") })
	e.Await(configMapKind, "c", func(g Gomega, live *unstructured.Unstructured) { g.Expect(live.GetDeletionTimestamp()).NotTo(BeNil()) })
	e.Fence()
	e.Expect(e.Get("mr").Finalizers).To(Equal([]string{"resources.gardener.cloud/gardener-resource-manager"}))
	e.Expect(objectWrites(other, "configmaps/c")).To(BeEmpty())

	e.Edit("c", `{"metadata":{"finalizers":null}}`)
	e.Await(configMapKind, "c", func(g Gomega, live *unstructured.Unstructured) { g.Expect(live.GetUID()).NotTo(Equal(first)) })
	mr := e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Expect(mr.Finalizers).To(Equal([]string{"resources.gardener.cloud/gardener-resource-manager-seed"}))
}

// objectWrites lists the write requests of a controller whose path ends with a suffix.
func objectWrites(e *managedresourcetest.Env, suffix string) []string {
	var found []string
	for _, each := range e.Requests.Writes() {
		if strings.HasSuffix(each, "/"+suffix) {
			found = append(found, each)
		}
	}
	return found
}

func TestASetThatIsDeletedBeforeItsFirstEventLeavesNothing(t *testing.T) {
	t.Parallel()
	e := managedresourcetest.New(t, managedresourcetest.Options{Stopped: true, Configure: longSyncPeriod})
	e.Set("mr", e.ConfigMap("c", "1"))
	e.Delete("mr")
	e.AwaitGone("mr")
	e.Start()
	e.Fence()
	e.Expect(e.LiveConfigMap("c")).To(BeNil())
}

func TestASetThatIsDeletedBeforeItIsAppliedIsNotApplied(t *testing.T) {
	t.Parallel()
	e := managedresourcetest.New(t, managedresourcetest.Options{Stopped: true, Configure: longSyncPeriod})
	e.Secret("mr", e.ConfigMap("c", "1"))
	mr := e.ManagedResource("mr", "mr")
	mr.Finalizers = []string{"example.test/hold"}
	e.Expect(e.Source.Create(e.Ctx, mr)).To(Succeed())
	e.Delete("mr")
	before := e.Get("mr")
	e.Start()
	e.Fence()
	e.Expect(e.Get("mr")).To(BeComparableTo(before))
	e.Expect(e.LiveConfigMap("c")).To(BeNil())
}

// deleteWithForeignFinalizer adds a foreign finalizer to the set, deletes it, and waits until the finalizer of the controller is gone.
func deleteWithForeignFinalizer(e *managedresourcetest.Env) *resourcesv1alpha1.ManagedResource {
	e.T.Helper()
	e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Finalizers = append(mr.Finalizers, "example.test/hold")
	})
	e.Delete("mr")
	e.Eventually(func() []string { return e.Get("mr").Finalizers }).WithTimeout(managedresourcetest.Patience).
		Should(Equal([]string{"example.test/hold"}))
	return e.Get("mr")
}

func TestConditionsOfADeletedSetWithAForeignFinalizerStay(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		e.Set("mr", e.ConfigMap("c", "1"))
		e.AwaitApplied("mr", "True/ApplySucceeded")
		before := deleteWithForeignFinalizer(e)
		e.Expect(conditions(before)).To(Equal(map[string]string{
			"ResourcesApplied":     "Progressing/DeletionPending: The resources are currently being deleted.",
			"ResourcesHealthy":     "False/DeletionPending: The resources are currently being deleted.",
			"ResourcesProgressing": "True/DeletionPending: The resources are currently being deleted.",
		}))
		e.Expect(e.LiveConfigMap("c")).To(BeNil())
		e.Secret("mr", e.ConfigMap("d", "1"))
		e.Fence()
		e.Expect(e.Get("mr")).To(BeComparableTo(before))
		e.Expect(e.LiveConfigMap("d")).To(BeNil())
	})
}

func TestKeptObjectsAreNotChanged(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		e.Set("mr", e.ConfigMap("c", "1"))
		e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.KeepObjects = new(true) })
		e.AwaitApplied("mr", "True/ApplySucceeded")
		before := e.LiveConfigMap("c")
		mr := deleteWithForeignFinalizer(e)
		e.Expect(conditions(mr)).To(Equal(map[string]string{
			"ResourcesApplied":     "True/ApplySucceeded: All resources are applied.",
			"ResourcesHealthy":     "False/DeletionPending: The resources are currently being deleted.",
			"ResourcesProgressing": "True/DeletionPending: The resources are currently being deleted.",
		}))
		e.Expect(e.LiveConfigMap("c")).To(BeComparableTo(before))
	})
}

func TestAnIgnoredObjectIsDeletedWhenItIsDropped(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		e.Set("mr", e.ConfigMap("c", "1", `annotations: {resources.gardener.cloud/ignore: "true"}`), e.ConfigMap("d", "1"))
		before := e.AwaitApplied("mr", "True/ApplySucceeded")
		e.Edit("c", `{"data":{"key":"by hand"}}`)
		e.Secret("mr", e.ConfigMap("d", "1"))
		e.AwaitChange(before)
		e.Expect(e.LiveConfigMap("c")).To(BeNil())
	})
}

func TestAnObjectInModeIgnoreIsNotCreated(t *testing.T) {
	e := inOneCluster(t)
	e.Create(e.ConfigMap("d", "by hand"))
	before := e.LiveConfigMap("d")
	const mode = "annotations: {resources.gardener.cloud/mode: Ignore}"
	e.Set("mr", e.ConfigMap("c", "1", mode), e.ConfigMap("d", "1", mode))
	mr := e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Expect(mr.Status.Resources).To(BeEmpty())
	e.Expect(e.LiveConfigMap("c")).To(BeNil())
	e.Expect(e.LiveConfigMap("d")).To(BeComparableTo(before))
}

func TestAnObjectMovesToAnotherSet(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		e.Set("a", e.ConfigMap("c", "1"))
		before := e.AwaitApplied("a", "True/ApplySucceeded")
		uid := e.LiveConfigMap("c").UID
		e.Set("b", e.ConfigMap("c", "2"))
		e.AwaitApplied("b", "True/ApplySucceeded")
		recording := e.Requests.Record()
		e.Secret("a", e.ConfigMap("c", "1", "annotations: {resources.gardener.cloud/mode: Ignore}"))
		e.AwaitChange(before)
		e.Expect(recording.RequestsTo("PATCH", e.Fill("/api/v1/namespaces/$NS/configmaps/c"))).To(BeEmpty())
		e.Delete("a")
		e.AwaitGone("a")
		live := e.LiveConfigMap("c")
		e.Expect(live.UID).To(Equal(uid))
		e.Expect(live.Data).To(Equal(map[string]string{"key": "2"}))
		e.Expect(live.Annotations).To(And(HaveKeyWithValue("resources.gardener.cloud/origin", e.Namespace+"/b"),
			HaveKey("resources.gardener.cloud/description")))
		e.Edit("c", `{"data":{"key":"by hand"}}`)
		e.AwaitData("c", "2")
	})
}

// finalizable returns a ConfigMap with a foreign finalizer, which the controller removes after the given time.
func finalizable(e *managedresourcetest.Env, after string) {
	e.Set("mr", e.ConfigMap("c", "1", "annotations: {resources.gardener.cloud/finalize-deletion-after: "+after+"}"), e.ConfigMap("d", "1"))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Edit("c", `{"metadata":{"finalizers":["example.test/hold"]}}`)
}

func TestFinalizersAreRemovedAfterTheConfiguredTimeNotBefore(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(e *managedresourcetest.Env){
		"the set is deleted":       func(e *managedresourcetest.Env) { e.Delete("mr") },
		"the set drops the object": func(e *managedresourcetest.Env) { e.Secret("mr", e.ConfigMap("d", "1")) },
	} {
		t.Run(name, func(t *testing.T) {
			e := inOneCluster(t)
			finalizable(e, "3s")
			late := atomic.Bool{}
			patches := atomic.Int32{}
			e.Requests.SetHook(func(r *http.Request) error { // here the object is still as it was before the patch
				if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/configmaps/c") {
					live := &corev1.ConfigMap{}
					if err := e.Target.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: "c"}, live); err != nil {
						return err
					}
					patches.Add(1)
					late.Store(slices.Equal(live.Finalizers, []string{"example.test/hold"}) &&
						live.DeletionTimestamp != nil && !clock.RealClock{}.Now().Before(live.DeletionTimestamp.Add(3*time.Second)))
				}
				return nil
			})
			remove(e)
			e.AwaitAbsent(configMapKind, "c")
			e.Expect(patches.Load()).To(Equal(int32(1)))
			e.Expect(late.Load()).To(BeTrue())
		})
	}
}

func TestANamespaceIsFinalizedByForceToo(t *testing.T) {
	e := withoutControllers(t) // no controller of Kubernetes finalizes namespaces there
	e.Set("mr", e.Fill("apiVersion: v1\nkind: Namespace\nmetadata: {name: $NS-n, finalizers: [example.test/hold], annotations: "+
		"{resources.gardener.cloud/finalize-deletion-after: 1s}}"))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Expect(managedresourcetest.Field(e.Live("v1/Namespace", e.Fill("$NS-n")), "spec", "finalizers")).To(Equal([]any{"kubernetes"}))
	e.Delete("mr")
	e.AwaitGone("mr")
	e.Expect(e.Live("v1/Namespace", e.Fill("$NS-n"))).To(BeNil())
}

func TestANewNamespaceOfTheSameNameIsNotFinalized(t *testing.T) {
	e := withoutControllers(t)
	e.Set("mr", e.Fill("apiVersion: v1\nkind: Namespace\nmetadata: {name: $NS-n, annotations: "+
		"{resources.gardener.cloud/finalize-deletion-after: 1s}}"))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	newer := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Fill("$NS-n")}}
	var replace sync.Once
	// Just before the controller reads the namespace to finalize it, another client finalizes this namespace and creates a new one.
	e.Requests.SetHook(func(request *http.Request) error {
		whole := !strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadata")
		if request.Method != http.MethodGet || request.URL.Path != "/api/v1/namespaces/"+newer.Name || !whole {
			return nil
		}
		older := &corev1.Namespace{}
		if err := e.Target.Get(e.Ctx, client.ObjectKeyFromObject(newer), older); err != nil || older.DeletionTimestamp == nil {
			return client.IgnoreNotFound(err)
		}
		replace.Do(func() {
			older.Spec.Finalizers = nil
			e.Expect(e.Target.SubResource("finalize").Update(e.Ctx, older)).To(Succeed())
			e.Expect(e.Target.Create(e.Ctx, newer)).To(Succeed())
		})
		return nil
	})
	e.Delete("mr")
	e.AwaitGone("mr")
	live := &corev1.Namespace{}
	e.Expect(e.Target.Get(e.Ctx, client.ObjectKeyFromObject(newer), live)).To(Succeed())
	e.Expect(live.UID).To(And(Not(BeEmpty()), Equal(newer.UID)), "the namespace that was created meanwhile")
	e.Expect(live.Spec.Finalizers).To(Equal([]corev1.FinalizerName{"kubernetes"}))
}

func TestFinalizersStayDuringALongConfiguredTime(t *testing.T) {
	e := inOneCluster(t)
	finalizable(e, "1h")
	e.Delete("mr")
	e.Eventually(func() string { return managedresourcetest.Message(e.Get("mr"), "ResourcesApplied") }).
		WithTimeout(managedresourcetest.Patience).Should(
		Equal(e.Fill(`Could not clean all old resources: 1 error occurred: deletion of old resource "v1/ConfigMap/$NS/c" is still pending`)))
	e.Fence()
	e.Expect(e.LiveConfigMap("c").Finalizers).To(Equal([]string{"example.test/hold"}))
	e.Edit("c", `{"metadata":{"finalizers":null}}`)
	e.AwaitGone("mr")
}

func TestAnInvalidDurationIsReportedWhileTheObjectExists(t *testing.T) {
	e := inOneCluster(t)
	finalizable(e, "soon")
	e.Secret("mr", e.ConfigMap("d", "2"))
	e.Eventually(func() string { return managedresourcetest.Message(e.Get("mr"), "ResourcesApplied") }).
		WithTimeout(managedresourcetest.Patience).Should(
		Equal(e.Fill(`Could not clean all old resources: 1 error occurred: deletion of old resource "v1/ConfigMap/$NS/c" is still pending: ` +
			`failed parsing duration of resources.gardener.cloud/finalize-deletion-after annotation: time: invalid duration "soon"`)))
	e.Expect(managedresourcetest.Condition(e.Get("mr"), "ResourcesApplied")).To(Equal("Progressing/DeletionPending"))
	e.Expect(e.LiveConfigMap("d").Data).To(Equal(map[string]string{"key": "1"}))
	e.Edit("c", `{"metadata":{"finalizers":null}}`)
	e.AwaitData("d", "2")
	e.AwaitApplied("mr", "True/ApplySucceeded")
}

func TestTheChecksumContainsAValueOncePerObject(t *testing.T) {
	e := inOneCluster(t)
	value := e.ConfigMap("c", "1") + "---\n# nothing\n---\n" + e.ConfigMap("d", "1")
	e.SecretData("mr", map[string][]byte{"all.yaml": []byte(value)})
	e.Expect(e.Source.Create(e.Ctx, e.ManagedResource("mr", "mr"))).To(Succeed())
	mr := e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Expect(*mr.Status.SecretsDataChecksum).To(Equal(checksum(value + value)))
	e.Expect(names(mr)).To(Equal([]string{"v1/ConfigMap/c", "v1/ConfigMap/d"}))
}

func checksum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestARenamedKeyDoesNotResetTheHealth(t *testing.T) {
	e := inOneCluster(t)
	e.Set("mr", e.ConfigMap("c", "1"))
	before := e.AwaitApplied("mr", "True/ApplySucceeded")
	live := e.LiveConfigMap("c")
	e.SecretData("mr", map[string][]byte{"renamed.yaml": []byte(e.ConfigMap("c", "1"))})
	e.Fence()
	e.Expect(e.Get("mr").Status).To(BeComparableTo(before.Status))
	e.Expect(e.LiveConfigMap("c")).To(BeComparableTo(live))
	e.SecretData("mr", map[string][]byte{"again.yaml": []byte(e.ConfigMap("c", "2"))})
	e.AwaitChange(before)
}

func TestASetWithoutObjectsReportsItsProgress(t *testing.T) {
	e := inOneCluster(t)
	recording := e.Requests.Record()
	e.Expect(e.Source.Create(e.Ctx, e.ManagedResource("mr"))).To(Succeed())
	mr := e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Expect(*mr.Status.SecretsDataChecksum).To(Equal("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"))
	e.Expect(mr.Status.Resources).To(BeEmpty())
	e.Expect(appliedReasons(e, recording)).To(Equal([]string{"ApplyProgressing", "ApplySucceeded"}))
}

// appliedReasons lists the reasons of ResourcesApplied in the order of the writes. The health controller may repeat the last one.
func appliedReasons(e *managedresourcetest.Env, recording *binary.Recording) []string {
	var reasons []string
	path := e.Fill("/apis/resources.gardener.cloud/v1alpha1/namespaces/$NS/managedresources/mr/status")
	for _, each := range recording.RequestsTo("PATCH", path) {
		written := &unstructured.Unstructured{Object: each.Body}
		list, _ := managedresourcetest.Field(written, "status", "conditions").([]any)
		for _, condition := range list {
			if fields, _ := condition.(map[string]any); fields["type"] == "ResourcesApplied" {
				reason, _ := fields["reason"].(string)
				reasons = append(reasons, reason)
			}
		}
	}
	return slices.Compact(reasons)
}

func TestASetOfTheSameNameInAnotherClusterKeepsItsObject(t *testing.T) {
	t.Parallel()
	e := managedresourcetest.New(t, managedresourcetest.Options{Configure: func(c *config.ResourceManagerConfiguration) {
		longSyncPeriod(c)
		c.Controllers.ClusterID = ptr.To("here")
	}})
	e.Set("mr", e.ConfigMap("c", "1"))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Expect(e.LiveConfigMap("c").Annotations).To(HaveKeyWithValue("resources.gardener.cloud/origin", "here:"+e.Namespace+"/mr"))
	e.Restart(func() {
		e.Edit("c", `{"metadata":{"annotations":{"resources.gardener.cloud/origin":"there:`+e.Namespace+`/mr"}}}`)
		e.Delete("mr")
	})
	e.AwaitGone("mr")
	e.Expect(e.LiveConfigMap("c").DeletionTimestamp).To(BeNil())
}

func TestPortsWithoutNameAreTreatedAsPortsWithTheSameName(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		e.Set("mr", webService(e, "", "type: NodePort, ports: [{port: 80}], "))
		before := e.AwaitApplied("mr", "True/ApplySucceeded")
		allocated := nodePorts(e.Live(serviceKind, "web"))[80]
		e.Expect(allocated).NotTo(BeZero())
		recording := e.Requests.Record()
		e.Secret("mr", webService(e, "", "type: NodePort, ports: [{port: 81}], "))
		e.AwaitChange(before)
		sent := recording.RequestsTo("PUT", e.Fill("/api/v1/namespaces/$NS/services/web")) // newer API servers would keep the port themselves
		e.Expect(sent).To(HaveLen(1))
		e.Expect(sent[0].Body["spec"]).To(HaveKeyWithValue("ports", HaveExactElements(HaveKeyWithValue("nodePort",
			BeNumerically("==", allocated)))))
		e.Expect(nodePorts(e.Live(serviceKind, "web"))).To(Equal(map[int64]int64{81: allocated}))
	})
}

func TestALoadBalancerBecomesInternal(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		e.Set("mr", webService(e, "", "type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80}], "))
		before := e.AwaitApplied("mr", "True/ApplySucceeded")
		live := e.Live(serviceKind, "web")
		e.Secret("mr", webService(e, "", "type: ClusterIP, ports: [{port: 80}], "))
		e.AwaitChange(before)
		after := e.Live(serviceKind, "web")
		e.Expect(after.GetUID()).To(Equal(live.GetUID()))
		e.Expect(managedresourcetest.Field(after, "spec", "clusterIP")).To(Equal(managedresourcetest.Field(live, "spec", "clusterIP")))
		e.Expect(managedresourcetest.Field(after, "spec", "type")).To(Equal("ClusterIP"))
		e.Expect(nodePorts(after)).To(Equal(map[int64]int64{80: 0}))
		e.Expect(managedresourcetest.Field(after, "spec", "healthCheckNodePort")).To(BeNil())
		e.Expect(e.Look("mr")).To(BeEmpty())
	})
}

func TestPullSecretsOfAServiceAccountAreWrittenAtCreationOnly(t *testing.T) {
	e := inOneCluster(t)
	account := func(pull string) string {
		return e.Fill("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: web, namespace: $NS}\nimagePullSecrets: [{name: " + pull + "}]")
	}
	e.Set("mr", account("one"))
	before := e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Expect(managedresourcetest.Field(e.Live(accountKind, "web"), "imagePullSecrets")).To(Equal([]any{map[string]any{"name": "one"}}))
	e.Secret("mr", account("two"))
	e.AwaitChange(before)
	e.Expect(managedresourcetest.Field(e.Live(accountKind, "web"), "imagePullSecrets")).To(Equal([]any{map[string]any{"name": "one"}}))
	e.Expect(e.Look("mr")).To(BeEmpty())
}

func TestFinalizersAndOwnersOfAManifestAreWrittenAtCreationOnly(t *testing.T) {
	e := inOneCluster(t)
	owner := e.Create(e.ConfigMap("owner", "1"))
	references := func(name string) string {
		return "ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: " + name + ", uid: " + string(owner.GetUID()) + "}]"
	}
	e.Set("mr", e.ConfigMap("c", "1", "finalizers: [example.test/one]", references("owner")))
	before := e.AwaitApplied("mr", "True/ApplySucceeded")
	live := e.LiveConfigMap("c")
	e.Expect(live.Finalizers).To(Equal([]string{"example.test/one"}))
	e.Expect(live.OwnerReferences).To(HaveLen(1))
	e.Secret("mr", e.ConfigMap("c", "2", "finalizers: [example.test/two]"))
	e.AwaitChange(before)
	after := e.LiveConfigMap("c")
	e.Expect(after.Data).To(Equal(map[string]string{"key": "2"}))
	e.Expect(after.Finalizers).To(Equal(live.Finalizers))
	e.Expect(after.OwnerReferences).To(Equal(live.OwnerReferences))
	e.Edit("c", `{"metadata":{"finalizers":["example.test/three"],"ownerReferences":null}}`)
	e.Expect(e.Look("mr")).To(BeEmpty())
	e.Expect(e.LiveConfigMap("c").Finalizers).To(Equal([]string{"example.test/three"}))
}

func TestWritesOfOtherClientsDuringAnApplyAreNoFault(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(e *managedresourcetest.Env){
		"the object exists already, without the managed-by label": func(e *managedresourcetest.Env) {
			e.Create(e.ConfigMap("c", "by hand", "labels: {mine: yes1}"))
			recording := e.Requests.Record()
			e.Set("mr", e.ConfigMap("c", "1"))
			e.AwaitApplied("mr", "True/ApplySucceeded")
			e.Expect(appliedReasons(e, recording)).To(Equal([]string{"ApplyProgressing", "ApplySucceeded"}))
		},
		"another client writes between read and write of the controller": func(e *managedresourcetest.Env) {
			e.Set("mr", e.ConfigMap("c", "0", "labels: {mine: yes1}"))
			before := e.AwaitApplied("mr", "True/ApplySucceeded")
			once := atomic.Bool{}
			recording := e.Requests.Record()
			e.Requests.SetHook(func(r *http.Request) error {
				if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/configmaps/c") && once.CompareAndSwap(false, true) {
					e.Edit("c", `{"metadata":{"annotations":{"meanwhile":"yes"}}}`)
				}
				return nil
			})
			e.Secret("mr", e.ConfigMap("c", "1", "labels: {mine: yes1}"))
			e.AwaitChange(before)
			e.Expect(appliedReasons(e, recording)).To(BeEmpty(), "the condition has not changed")
			e.Expect(e.LiveConfigMap("c").Annotations).To(HaveKeyWithValue("meanwhile", "yes"))
		},
		"another client deletes it between read and write of the controller": func(e *managedresourcetest.Env) {
			e.Set("mr", e.ConfigMap("c", "0", "labels: {mine: yes1}"))
			before := e.AwaitApplied("mr", "True/ApplySucceeded")
			once := atomic.Bool{}
			e.Requests.SetHook(func(r *http.Request) error {
				if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/configmaps/c") && once.CompareAndSwap(false, true) {
					e.Remove(configMapKind, "c")
				}
				return nil
			})
			e.Secret("mr", e.ConfigMap("c", "1", "labels: {mine: yes1}"))
			e.AwaitChange(before)
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := inOneCluster(t)
			test(e)
			e.AwaitApplied("mr", "True/ApplySucceeded")
			live := e.LiveConfigMap("c")
			e.Expect(live.Data).To(Equal(map[string]string{"key": "1"}))
			e.Expect(live.Labels).To(Equal(map[string]string{"mine": "yes1", managedBy: "gardener"}))
		})
	}
}

func TestTheEndOfTheProcessIsNoFault(t *testing.T) {
	e := inOneCluster(t)
	e.Set("mr", e.ConfigMap("c", "1"))
	before := e.AwaitApplied("mr", "True/ApplySucceeded")
	reached := make(chan struct{})
	recording := e.Requests.Record()
	e.Requests.SetHook(func(r *http.Request) error {
		if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, "/configmaps/c") {
			return nil
		}
		close(reached)
		<-r.Context().Done()
		return r.Context().Err()
	})
	e.Secret("mr", e.ConfigMap("c", "2"))
	<-reached
	e.Stop()
	e.Expect(appliedReasons(e, recording)).To(BeEmpty())
	e.Requests.SetHook(nil)
	e.Start()
	e.AwaitChange(before)
	e.Expect(e.Events("mr")).NotTo(ContainElement(ContainSubstring("context canceled")))
}

func TestObjectsAreCreatedWhateverTheShapeOfTheirTemplate(t *testing.T) {
	t.Parallel()
	e := managedresourcetest.New(t, managedresourcetest.Options{Stopped: true, Configure: longSyncPeriod})
	e.Define(e.Fill("$NS.test"), "v1", "letter")
	e.Start()
	specs := []string{
		`{"template":"Dear {{ .name }}"}`, `{"template":["a","b"]}`, `{"template":null}`, `{"template":{"metadata":"text"}}`,
		`{"volumeClaimTemplates":{"data":{"size":"1Gi"}}}`, `"hello"`,
	}
	documents := make([]string, 0, len(specs))
	for number, spec := range specs {
		documents = append(documents, e.Fill(fmt.Sprintf("apiVersion: $NS.test/v1\nkind: letter\nmetadata: {name: l%d, namespace: $NS}\nspec: %s",
			number, spec)))
	}
	e.Set("mr", documents...)
	e.AwaitApplied("mr", "True/ApplySucceeded")
	for number, spec := range specs {
		letter := e.Live(e.Fill("$NS.test/v1/letter"), fmt.Sprintf("l%d", number))
		e.Expect(json.Marshal(letter.Object["spec"])).To(MatchJSON(spec))
	}
}

func TestFieldsThatAreNotAppliedAreNamedOnceAndAfterARestart(t *testing.T) {
	e := withoutControllers(t)
	account := func(pull string) string {
		return e.Fill("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: puller, namespace: $NS}\nimagePullSecrets: [{name: " + pull + "}]")
	}
	service := func(address string) string {
		return e.Fill("apiVersion: v1\nkind: Service\nmetadata: {name: moved, namespace: $NS}\nspec: {" + address + "ports: [{port: 80}]}")
	}
	pod := func(arg string) string {
		return e.Fill("apiVersion: v1\nkind: Pod\nmetadata: {name: lonely, namespace: $NS}\nspec: {serviceAccountName: puller, " +
			"containers: [{name: c, image: i, args: [" + arg + "]}]}")
	}
	role := func(verb string) string {
		return e.Fill("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: $NS}\naggregationRule: " +
			"{clusterRoleSelectors: [{matchLabels: {into: $NS}}]}\nrules: [{apiGroups: [\"\"], resources: [configmaps], verbs: [" + verb + "]}]")
	}
	e.Set("mr", account("a"), service("clusterIP: None, "), webStatefulSet(e, "", "1Gi"), pod("a"), role("get"))
	before := e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Expect(managedresourcetest.Message(before, "ResourcesApplied")).To(Equal("All resources are applied."))
	e.Secret("mr", account("b"), service(""), webStatefulSet(e, "", "2Gi"), pod("b"), role("list"))
	changed := e.AwaitChange(before)
	want := e.Fill("All resources are applied. The objects exist and keep these fields, which differ from the manifests: " +
		"v1/ServiceAccount/$NS/puller (imagePullSecrets); v1/Service/$NS/moved (spec.clusterIP); " +
		"apps/v1/StatefulSet/$NS/web (spec.volumeClaimTemplates); v1/Pod/$NS/lonely (spec.containers[name=c].args); " +
		"rbac.authorization.k8s.io/v1/ClusterRole/default/$NS (rules)")
	e.Expect(managedresourcetest.Message(changed, "ResourcesApplied")).To(Equal(want))
	notes := func() []string {
		return slices.DeleteFunc(e.Events("mr"), func(event string) bool { return !strings.Contains(event, "FieldsNotApplied") })
	}
	e.Eventually(notes).WithTimeout(managedresourcetest.Patience).Should(HaveLen(1))
	e.Stop()
	e.Start()
	e.Fence()
	e.Expect(managedresourcetest.Message(e.Get("mr"), "ResourcesApplied")).To(Equal(want))
	e.Expect(e.Look("mr")).To(BeEmpty())
	e.Expect(managedresourcetest.Message(e.Get("mr"), "ResourcesApplied")).To(Equal(want))
	e.Expect(notes()).To(HaveLen(1))
}

func TestNodePortsStayUniqueWhenPortsAreRenamedAndRenumbered(t *testing.T) {
	e := withoutControllers(t)
	service := func(ports string) string {
		return e.Fill("apiVersion: v1\nkind: Service\nmetadata: {name: moved, namespace: $NS}\nspec: {type: NodePort, ports: [" + ports + "]}")
	}
	e.Set("mr", service("{name: http, port: 80}, {name: https, port: 443}"))
	before := e.AwaitApplied("mr", "True/ApplySucceeded")
	former := nodePorts(e.Live(serviceKind, "moved"))[443]
	e.Secret("mr", service("{name: web, port: 443}, {name: https, port: 8443}"))
	e.AwaitChange(before)
	ports := nodePorts(e.Live(serviceKind, "moved"))
	e.Expect(ports[443]).To(Equal(former))
	e.Expect(ports[8443]).NotTo(Or(BeZero(), Equal(former)))
}

func TestVolumeClaimsAreDeletedBeforeTheirStatefulSet(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		createVolumeClaims(e, new(true))
		recording := e.Requests.Record()
		e.Secret("mr", e.ConfigMap("c", "1"))
		claims, web := e.Fill("DELETE /api/v1/namespaces/$NS/persistentvolumeclaims"), e.Fill("DELETE /apis/apps/v1/namespaces/$NS/"+
			"statefulsets/web")
		if e.Source != e.Target {
			e.Eventually(func() []string { return recording.InOrder("DELETE") }).WithTimeout(managedresourcetest.Patience).
				Should(Equal([]string{claims, web}))
			return
		}
		// The StatefulSet's controller may write a status meanwhile. Then the deletion is refused and sent again, after the deletion of the
		// PersistentVolumeClaims if they still exist.
		e.AwaitAbsent(statefulSetKind, "web")
		e.Expect(recording.InOrder("DELETE")).To(Or(Equal([]string{claims, web}), Equal([]string{claims, web, web}),
			Equal([]string{claims, web, claims, web})))
	})
}

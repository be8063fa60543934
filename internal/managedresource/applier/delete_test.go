package applier_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/binary"
)

// volumeClaim returns a PersistentVolumeClaim, which the test creates outside of any set.
func volumeClaim(e *managedresourcetest.Env, name, app string) string {
	return e.Fill("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: " + name + ", namespace: $NS, labels: {app: " + app + "}}\n" +
		"spec: {accessModes: [ReadWriteOnce], storageClassName: none, resources: {requests: {storage: 1Gi}}}")
}

// createVolumeClaims creates a set with a StatefulSet, and PersistentVolumeClaims of which one does not match it.
func createVolumeClaims(e *managedresourcetest.Env, deleteThem *bool) *resourcesv1alpha1.ManagedResource {
	e.Secret("mr", webStatefulSet(e, "", "1Gi"))
	mr := e.ManagedResource("mr", "mr")
	mr.Spec.DeletePersistentVolumeClaims = deleteThem
	e.Expect(e.Source.Create(e.Ctx, mr)).To(Succeed())
	e.Create(volumeClaim(e, "data-web-0", "web"))
	e.Create(volumeClaim(e, "other", "other"))
	mr = e.AwaitApplied("mr", "True/ApplySucceeded")
	if e.Source == e.Target { // a status write of its controller could cause a conflict and a second deletion request
		e.AwaitCondition("mr", "ResourcesHealthy", "True/ResourcesHealthy")
	}
	return mr
}

func TestVolumeClaimsOfAStatefulSetAreDeletedWithItIfConfigured(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(e *managedresourcetest.Env){
		"when the set drops it":   func(e *managedresourcetest.Env) { e.Secret("mr", e.ConfigMap("c", "1")) },
		"when the set is deleted": func(e *managedresourcetest.Env) { e.Delete("mr") },
	} {
		t.Run(name, func(t *testing.T) {
			e := inOneCluster(t)
			createVolumeClaims(e, new(true))
			remove(e)
			e.AwaitAbsent(statefulSetKind, "web")
			e.AwaitAbsent(claimKind, "data-web-0")
			e.Expect(e.Live(claimKind, "other")).NotTo(BeNil())
		})
	}
}

func TestVolumeClaimsOfAStatefulSetStayByDefault(t *testing.T) {
	e := inOneCluster(t)
	createVolumeClaims(e, nil)
	recording := e.Requests.Record()
	e.Delete("mr")
	e.AwaitGone("mr")
	e.Expect(recording.InOrder("DELETE")).To(Equal([]string{e.Fill("DELETE /apis/apps/v1/namespaces/$NS/statefulsets/web")}))
	e.Expect(e.Live(claimKind, "data-web-0").GetDeletionTimestamp()).To(BeNil())
}

func TestASelectorWithoutLabelsDeletesNoVolumeClaim(t *testing.T) {
	e := inOneCluster(t)
	e.Secret("mr", strings.Replace(webStatefulSet(e, "", "1Gi"), "selector: {matchLabels: {app: web}}",
		"selector: {matchExpressions: [{key: app, operator: In, values: [web]}]}", 1))
	mr := e.ManagedResource("mr", "mr")
	mr.Spec.DeletePersistentVolumeClaims = new(true)
	e.Expect(e.Source.Create(e.Ctx, mr)).To(Succeed())
	e.Create(volumeClaim(e, "data-web-0", "web"))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Delete("mr")
	e.AwaitGone("mr")
	e.Expect(e.Live(claimKind, "data-web-0").GetDeletionTimestamp()).To(BeNil())
}

func TestWorkloadsAreDeletedInTheForeground(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(e *managedresourcetest.Env){
		"when the set drops them": func(e *managedresourcetest.Env) { e.Secret("mr", e.ConfigMap("kept", "1")) },
		"when the set is deleted": func(e *managedresourcetest.Env) { e.Delete("mr") },
	} {
		t.Run(name, func(t *testing.T) {
			e := inOneCluster(t)
			e.Set("mr", webDeployment(e, "", "replicas: 0, ", ""), webStatefulSet(e, "", "1Gi"), onceJob(e, ""), nightlyCronJob(e),
				e.ConfigMap("c", "1"),
				webService(e, "", "clusterIP: None, "), e.Fill(defaulted["DaemonSet"].manifest), e.Fill(defaulted["NetworkPolicy"].manifest))
			e.AwaitApplied("mr", "True/ApplySucceeded")
			recording := e.Requests.Record()
			remove(e)
			for _, kind := range []string{deploymentKind, statefulSetKind, serviceKind} {
				e.AwaitAbsent(kind, "web")
			}
			e.AwaitAbsent(configMapKind, "c")
			for path, want := range map[string]string{
				"/apis/apps/v1/namespaces/$NS/deployments/web":                "Foreground",
				"/apis/apps/v1/namespaces/$NS/statefulsets/web":               "Foreground",
				"/apis/apps/v1/namespaces/$NS/daemonsets/d":                   "Foreground",
				"/apis/batch/v1/namespaces/$NS/jobs/once":                     "Foreground",
				"/apis/batch/v1/namespaces/$NS/cronjobs/nightly":              "Foreground",
				"/api/v1/namespaces/$NS/configmaps/c":                         "",
				"/api/v1/namespaces/$NS/services/web":                         "",
				"/apis/networking.k8s.io/v1/namespaces/$NS/networkpolicies/p": "",
			} {
				var sent []binary.Sent
				e.Eventually(func() []binary.Sent {
					sent = recording.RequestsTo("DELETE", e.Fill(path))
					return sent
				}, binary.Patience, "10ms").ShouldNot(BeEmpty(), path)
				for _, each := range sent {
					policy, _ := each.Body["propagationPolicy"].(string)
					e.Expect(policy).To(Equal(want), path)
				}
			}
		})
	}
}

func TestADeploymentThatMovesToAnotherAPIGroupIsKept(t *testing.T) {
	inBothSetups(t, func(e *managedresourcetest.Env) {
		e.Set("mr", webDeployment(e, "labels: {a: b}, ", "replicas: 0, ", ""))
		before := e.AwaitApplied("mr", "True/ApplySucceeded")
		uid := e.Live(deploymentKind, "web").GetUID()
		e.Stop()
		// The status is as the controller wrote it while the API server served the former group.
		mr := e.Get("mr")
		mr.Status.Resources[0].APIVersion = "extensions/v1beta1"
		e.Expect(e.Source.Status().Update(e.Ctx, mr)).To(Succeed())
		e.Secret("mr", webDeployment(e, "", "replicas: 0, ", ""))
		recording := e.Requests.Record()
		e.Start()
		after := e.AwaitChange(before)
		live := e.Live(deploymentKind, "web")
		e.Expect(live.GetUID()).To(Equal(uid))
		// Label a is removed: the entry with the former group records that the set had set it.
		e.Expect(live.GetLabels()).To(Equal(map[string]string{managedBy: "gardener"}))
		e.Expect(recording.InOrder("DELETE")).To(BeEmpty())
		e.Expect(names(after)).To(Equal([]string{"apps/v1/Deployment/web"}))
	})
}

// names lists the objects of a set's status.
func names(mr *resourcesv1alpha1.ManagedResource) []string {
	var found []string
	for _, ref := range mr.Status.Resources {
		found = append(found, ref.APIVersion+"/"+ref.Kind+"/"+ref.Name)
	}
	return found
}

func TestAnObjectThatMovesToAnEquivalentKindIsKept(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		equivalences func(e *managedresourcetest.Env) [][]metav1.GroupKind
		kept         bool
	}{
		"with equivalences": {kept: true, equivalences: func(e *managedresourcetest.Env) [][]metav1.GroupKind {
			return [][]metav1.GroupKind{{{Group: e.Fill("old.$NS.test"), Kind: "Gadget"}, {Group: e.Fill("new.$NS.test"), Kind: "Widget"}}}
		}},
		"without": {equivalences: func(*managedresourcetest.Env) [][]metav1.GroupKind { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := managedresourcetest.New(t, managedresourcetest.Options{Stopped: true, Configure: longSyncPeriod})
			e.Define(e.Fill("old.$NS.test"), "v1", "Gadget")
			e.Define(e.Fill("new.$NS.test"), "v1", "Widget")
			e.Start()
			e.Secret("mr", e.Fill("apiVersion: old.$NS.test/v1\nkind: Gadget\nmetadata: {name: g, namespace: $NS}"))
			mr := e.ManagedResource("mr", "mr")
			mr.Spec.Equivalences = tc.equivalences(e)
			e.Expect(e.Source.Create(e.Ctx, mr)).To(Succeed())
			before := e.AwaitApplied("mr", "True/ApplySucceeded")
			recording := e.Requests.Record()
			e.Secret("mr", e.Fill("apiVersion: new.$NS.test/v1\nkind: Widget\nmetadata: {name: g, namespace: $NS}"))
			after := e.AwaitChange(before)
			e.Expect(names(after)).To(Equal([]string{e.Fill("new.$NS.test/v1/Widget/g")}))
			want := []string{e.Fill("DELETE /apis/old.$NS.test/v1/namespaces/$NS/gadgets/g")}
			if tc.kept {
				want = nil
			}
			e.Expect(recording.InOrder("DELETE")).To(Equal(want))
			e.Expect(e.Live(e.Fill("old.$NS.test/v1/Gadget"), "g") != nil).To(Equal(tc.kept))
		})
	}
}

func TestASetThatBecomesUnhealthyIsReconciledAtOnce(t *testing.T) {
	e := inOneCluster(t)
	e.Set("mr", e.ConfigMap("c", "1"))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Expect(e.Look("mr")).To(BeEmpty())
	turn := func(status corev1beta1.ConditionStatus) {
		mr := e.Get("mr")
		for i := range mr.Status.Conditions {
			if mr.Status.Conditions[i].Type == "ResourcesHealthy" {
				mr.Status.Conditions[i].Status = status
			}
		}
		e.Expect(e.Source.Status().Update(e.Ctx, mr)).To(Succeed())
	}
	const comparisons = "espalier_managedresource_requests_saved_total" // one per comparison of a set with one object
	before := e.Counter(comparisons)
	looks := func() float64 { return e.Counter(comparisons) - before }
	for _, want := range []float64{1, 2} {
		turn("False")
		e.Eventually(looks).WithTimeout(managedresourcetest.Patience).WithPolling(5 * time.Millisecond).Should(Equal(want))
		e.AwaitCondition("mr", "ResourcesHealthy", "True/ResourcesHealthy") // the health controller corrects the condition
	}
}

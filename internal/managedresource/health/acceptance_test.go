package health_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

func TestConditionTimelineOfANewSet(t *testing.T) {
	e := quiet(t)
	seen := follow(e, "mr")
	e.Set("mr", e.ConfigMap("c", "1"))
	mr := await(e, "mr", healthy, rolledOut)
	timeline := []string{"–/–/–", "Unknown/Unknown/Progressing", "True/False/True"}
	soon(e, seen.states).Should(Equal(timeline))
	var order []corev1beta1.ConditionType
	for _, each := range mr.Status.Conditions {
		order = append(order, each.Type)
	}
	e.Expect(order).To(Equal([]corev1beta1.ConditionType{"ResourcesHealthy", "ResourcesProgressing", "ResourcesApplied"}))

	t.Log("a change of its data that leaves its references is applied without an announcement")
	e.Secret("mr", e.ConfigMap("c", "2"))
	e.AwaitChange(mr)
	e.Expect(seen.states()).To(Equal(timeline))

	t.Log("another object is announced")
	e.Secret("mr", e.ConfigMap("c", "2"), e.ConfigMap("d", "1"))
	soon(e, seen.states).Should(Equal(append(timeline, timeline[1:]...)))
}

func TestAcceptance66AConditionPatchedByHandIsPutRight(t *testing.T) {
	e := quiet(t)
	e.Set("mr", e.ConfigMap("c", "1"))
	await(e, "mr", healthy, rolledOut)
	for i, kind := range []corev1beta1.ConditionType{"ResourcesHealthy", "ResourcesProgressing"} {
		soon(e, func() error {
			mr := e.Get("mr")
			mr.Status.Conditions[i].Status, mr.Status.Conditions[i].Reason = corev1beta1.ConditionUnknown, "ByHand"
			if kind == "ResourcesHealthy" {
				mr.Status.Conditions[i].Status = corev1beta1.ConditionFalse
			}
			return e.Source.Status().Update(e.Ctx, mr)
		}).Should(Succeed())
		await(e, "mr", healthy, rolledOut)
	}
}

func TestAcceptance67SetsThatAreNotAppliedAreNotJudged(t *testing.T) {
	e := quiet(t)
	e.Secret("foreign", e.ConfigMap("foreign", ""))
	foreign := e.ManagedResource("foreign", "foreign")
	foreign.Spec.Class = ptr.To("test")
	e.Expect(e.Source.Create(e.Ctx, foreign)).To(Succeed())
	e.Secret("ignored", e.ConfigMap("ignored", ""))
	ignored := e.ManagedResource("ignored", "ignored")
	ignored.Annotations = map[string]string{"resources.gardener.cloud/ignore": "true"}
	e.Expect(e.Source.Create(e.Ctx, ignored)).To(Succeed())
	e.Expect(e.Source.Create(e.Ctx, e.ManagedResource("unread", "missing"))).To(Succeed())
	e.Set("undecodable", e.ConfigMap("fine", ""), "scalar")
	stuck(e, "stuck")

	e.AwaitApplied("unread", "False/CannotReadSecret")
	e.AwaitApplied("undecodable", "False/DecodingFailed")
	e.AwaitApplied("ignored", "True/ManagedResourceIgnored")
	e.Fence()
	conditions := func(name string) []string {
		mr := e.Get(name)
		return []string{Condition(mr, "ResourcesHealthy"), Condition(mr, "ResourcesProgressing")}
	}
	e.Expect(conditions("foreign")).To(Equal([]string{"", ""}))
	e.Expect(conditions("ignored")).To(Equal([]string{"True/ManagedResourceIgnored", "False/ManagedResourceIgnored"}))
	e.Expect(conditions("unread")).To(Equal([]string{"", ""}))
	e.Expect(conditions("undecodable")).To(Equal([]string{pending, pending}))
	e.Expect(conditions("stuck")).To(Equal([]string{pending, pending}))
}

// stuck creates a set that waits for the deletion of an object.
func stuck(e *Env, name string) {
	e.T.Helper()
	e.Set(name, e.ConfigMap("old", ""))
	await(e, name, healthy, rolledOut)
	e.Edit("old", `{"metadata":{"finalizers":["example.com/stuck"]}}`)
	releaseAtEnd(e, "v1/ConfigMap", "old")
	e.Secret(name, e.ConfigMap("new", ""))
	e.AwaitApplied(name, "Progressing/DeletionPending")
}

func TestAcceptance68SetsThatBecomeOursAreJudged(t *testing.T) {
	e := quiet(t)
	e.Secret("foreign", e.ConfigMap("foreign", ""))
	foreign := e.ManagedResource("foreign", "foreign")
	foreign.Spec.Class = ptr.To("test")
	e.Expect(e.Source.Create(e.Ctx, foreign)).To(Succeed())
	e.Set("ignored", e.ConfigMap("ignored", ""))
	await(e, "ignored", healthy, rolledOut)
	annotateSet(e, "ignored", "resources.gardener.cloud/ignore", "true")
	await(e, "ignored", "True/ManagedResourceIgnored", "False/ManagedResourceIgnored")

	e.Change("foreign", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = nil })
	annotateSet(e, "ignored", "resources.gardener.cloud/ignore", "null")
	await(e, "foreign", healthy, rolledOut)
	await(e, "ignored", healthy, rolledOut)
}

func TestAcceptance69ASetWithoutObjectsIsHealthy(t *testing.T) {
	e := quiet(t)
	e.Set("none", "")
	mr := await(e, "none", healthy, rolledOut)
	e.Expect(Message(mr, "ResourcesHealthy")).To(Equal("All resources are healthy."))
	e.Expect(Message(mr, "ResourcesProgressing")).To(Equal("All resources have been fully rolled out."))
}

func TestAcceptance71Pods(t *testing.T) {
	e := quiet(t)
	account(e, false)
	e.Set("waiting", podManifest(e, "waiting"))
	e.Set("skipped", podManifest(e, "skipped", `annotations: {resources.gardener.cloud/skip-health-check: "true"}`))
	mr := await(e, "waiting", "False/PodUnhealthy", rolledOut)
	e.Expect(Message(mr, "ResourcesHealthy")).To(Equal(
		`Pod "` + e.Namespace + `/waiting" is unhealthy: pod is in invalid phase "Pending" (expected one of ["Running" "Succeeded"])`))
	await(e, "skipped", healthy, rolledOut)
	running(e, "waiting")
	await(e, "waiting", healthy, rolledOut)
}

// An object that is only created (annotation "ignore"), and so has no managed-by label, is judged like any other object.
func TestAnObjectThatIsOnlyCreatedIsJudged(t *testing.T) {
	e := quiet(t)
	account(e, false)
	e.Set("mr", podManifest(e, "p", `annotations: {resources.gardener.cloud/ignore: "true"}`))
	await(e, "mr", "False/PodUnhealthy", rolledOut)
	running(e, "p")
	await(e, "mr", healthy, rolledOut)
}

// A change of the annotation has an effect at once. Gardener's resource manager does not watch for it.
func TestSkippingAnObjectThatExistsCountsAtOnce(t *testing.T) {
	e := quiet(t)
	account(e, false)
	e.Set("mr", podManifest(e, "p"))
	await(e, "mr", "False/PodUnhealthy", rolledOut)
	e.Patch(pod, "p", `{"metadata":{"annotations":{"resources.gardener.cloud/skip-health-check":"true"}}}`)
	await(e, "mr", healthy, rolledOut)
	e.Patch(pod, "p", `{"metadata":{"annotations":{"resources.gardener.cloud/skip-health-check":"True"}}}`)
	await(e, "mr", "False/PodUnhealthy", rolledOut)
	e.Patch(pod, "p", `{"metadata":{"annotations":{"resources.gardener.cloud/skip-health-check":null}}}`)
	await(e, "mr", "False/PodUnhealthy", rolledOut)
}

func TestAcceptance73ADeletedObjectIsMissingForAMoment(t *testing.T) {
	e := quiet(t)
	e.Set("mr", e.ConfigMap("c", "1"))
	uid := e.AwaitData("c", "1").UID
	await(e, "mr", healthy, rolledOut)
	seen := follow(e, "mr")
	soon(e, seen.states).Should(Equal([]string{"True/False/True"}))
	e.Remove("v1/ConfigMap", "c")
	soon(e, func() []string { return seen.of("ResourcesHealthy") }).Should(Equal([]string{healthy, "False/ConfigMapMissing", healthy}))
	e.Expect(seen.states()).To(Equal([]string{"True/False/True", "False/False/True", "True/False/True"}))
	e.Expect(e.AwaitData("c", "1").UID).NotTo(Equal(uid))
	e.Expect(seen.reported(func(mr *resourcesv1alpha1.ManagedResource) string { return Message(mr, "ResourcesHealthy") })).To(ContainElement(
		`Required ConfigMap "c" in namespace "` + e.Namespace + `" is missing`))
}

func TestAStrippedLabelIsNotTakenForADeletion(t *testing.T) {
	e := quiet(t)
	e.Set("mr", e.ConfigMap("c", "1"),
		e.Fill("apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: $NS}\nspec: {ports: [{port: 80}]}"))
	await(e, "mr", healthy, rolledOut)
	seen := follow(e, "mr")
	strip := `{"metadata":{"labels":{"resources.gardener.cloud/managed-by":null}}}`
	for _, each := range [][2]string{{"v1/ConfigMap", "c"}, {"v1/Service", "s"}} {
		e.Patch(each[0], each[1], strip)
		e.Await(each[0], each[1], func(g Gomega, live *unstructured.Unstructured) {
			g.Expect(live.GetLabels()).To(HaveKeyWithValue("resources.gardener.cloud/managed-by", "gardener"))
		})
	}
	e.Fence()
	e.Expect(seen.states()).To(Equal([]string{"True/False/True"}))
}

func TestAcceptance75TheMessageOfARollout(t *testing.T) {
	e := apart(t)
	e.Set("mr", deploymentManifest(e, "web", 0, "example.com/one"))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	mr := await(e, "mr", "False/DeploymentUnhealthy", "True/DeploymentProgressing")
	e.Expect(Message(mr, "ResourcesHealthy")).To(Equal(`Deployment "` + e.Namespace +
		`/web" is unhealthy: observed generation outdated (0/1)`))
	e.Expect(Message(mr, "ResourcesProgressing")).To(Equal(`Deployment "` + e.Namespace +
		`/web" is progressing: observed generation outdated (0/1)`))
	e.PatchStatus(deployment, "web", `{"status":{"observedGeneration":1,"conditions":[
		{"type":"Available","status":"True","reason":"R","message":"m"},
		{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"it takes too long"}]}}`)
	soon(e, func() string { return Message(e.Get("mr"), "ResourcesProgressing") }).Should(Equal(
		`Deployment "` + e.Namespace + `/web" is progressing: it takes too long`))
	mr = await(e, "mr", "False/DeploymentUnhealthy", "True/DeploymentProgressing")
	e.Expect(Message(mr, "ResourcesHealthy")).To(Equal(`Deployment "` + e.Namespace +
		`/web" is unhealthy: condition "Progressing" has invalid status False (expected True) due to ProgressDeadlineExceeded: it takes too ` +
		`long`))
}

func TestADeploymentScaledToZeroIsRolledOut(t *testing.T) {
	e := apart(t)
	rolledOutDeployment(e, "web", 0)
}

func TestAcceptance76OldPods(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pod    func(e *Env)
		counts bool
	}{
		"a pod of an old ReplicaSet": {counts: true, pod: func(e *Env) {
			e.Create(podManifest(e, "extra", "labels: {app: web}"))
			running(e, "extra")
		}},
		"a pod of another workload that the selector matches": {counts: true, pod: func(e *Env) {
			e.Create(podManifest(e, "extra", "labels: {app: web, other: workload}",
				"ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: 2c5d1f0e-0000-4000-8000-000000000000}]"))
		}},
		"a pod that terminates": {counts: true, pod: func(e *Env) {
			e.Create(podManifest(e, "extra", "labels: {app: web}", "finalizers: [example.com/stuck]"))
			running(e, "extra")
			e.Remove(pod, "extra")
		}},
		"a pod that was evicted": {pod: func(e *Env) {
			e.Create(podManifest(e, "extra", "labels: {app: web}"))
			e.PatchStatus(pod, "extra", `{"status":{"phase":"Failed","reason":"Evicted"}}`)
		}},
		"a pod of another app": {pod: func(e *Env) { e.Create(podManifest(e, "extra", "labels: {app: db}")) }},
	} {
		t.Run(name, func(t *testing.T) {
			e := apart(t)
			rolledOutDeployment(e, "web", 1)
			tc.pod(e)
			releaseAtEnd(e, pod, "extra")
			if !tc.counts {
				e.Fence()
				await(e, "web", healthy, rolledOut)
				return
			}
			mr := await(e, "web", healthy, "True/DeploymentProgressing")
			e.Expect(Message(mr, "ResourcesProgressing")).To(Equal(`Deployment "` + e.Namespace +
				`/web" is progressing: there are still non-terminated old pods`))
			e.PatchStatus(pod, "extra", `{"status":{"phase":"Failed"}}`)
			await(e, "web", healthy, rolledOut)
			e.PatchStatus(pod, "extra", `{"status":{"phase":"Running"}}`)
			await(e, "web", healthy, "True/DeploymentProgressing")
			e.Patch(pod, "extra", `{"metadata":{"labels":{"app":"given-away"}}}`)
			await(e, "web", healthy, rolledOut)
		})
	}
}

func TestAcceptance76ADeletedPodEndsARollout(t *testing.T) {
	e := apart(t)
	rolledOutDeployment(e, "web", 1)
	e.Create(podManifest(e, "extra", "labels: {app: web}"))
	await(e, "web", healthy, "True/DeploymentProgressing")
	e.Remove(pod, "extra")
	await(e, "web", healthy, rolledOut)
	e.Remove(pod, "web-0")
	mr := await(e, "web", healthy, "True/DeploymentProgressing")
	e.Expect(Message(mr, "ResourcesProgressing")).To(Equal(`Deployment "` + e.Namespace +
		`/web" is progressing: there are still non-terminated old pods`))
}

// The verdict on the Deployment itself does not change; only the result of the count of its Pods does.
func TestSkippingADeploymentWithOldPodsCountsAtOnce(t *testing.T) {
	e := apart(t)
	rolledOutDeployment(e, "web", 1)
	e.Create(podManifest(e, "extra", "labels: {app: web}"))
	await(e, "web", healthy, "True/DeploymentProgressing")
	e.Patch(deployment, "web", `{"metadata":{"annotations":{"resources.gardener.cloud/skip-health-check":"true"}}}`)
	await(e, "web", healthy, rolledOut)
	e.Patch(deployment, "web", `{"metadata":{"annotations":{"resources.gardener.cloud/skip-health-check":null}}}`)
	complete(e, "web", 3, 1) // annotations of a Deployment change its generation
	await(e, "web", healthy, "True/DeploymentProgressing")
}

func TestAcceptance77WorkloadsThatAreOneShort(t *testing.T) {
	t.Parallel()
	for kind, tc := range map[string]struct{ spec, short, complete, message string }{
		"StatefulSet": {
			spec:     "replicas: 2, serviceName: x, ",
			short:    `{"observedGeneration":1,"replicas":2,"readyReplicas":2,"updatedReplicas":1}`,
			complete: `{"updatedReplicas":2}`,
			message:  "1 of 2 replica(s) have been updated",
		},
		"DaemonSet": {
			short:    `{"observedGeneration":1,"desiredNumberScheduled":3,"currentNumberScheduled":3,"numberReady":3,"updatedNumberScheduled":2}`,
			complete: `{"updatedNumberScheduled":3}`,
			message:  "2 of 3 replica(s) have been updated",
		},
	} {
		t.Run(kind, func(t *testing.T) {
			e := apart(t)
			e.Set("mr", fmt.Sprintf("apiVersion: apps/v1\nkind: %s\nmetadata: {name: w, namespace: %s}\n"+
				"spec: {%sselector: {matchLabels: {app: w}}, template: {metadata: {labels: {app: w}}, spec: {containers: [{name: c, image: i}]}}}",
				kind, e.Namespace, tc.spec))
			e.AwaitApplied("mr", "True/ApplySucceeded")
			e.PatchStatus("apps/v1/"+kind, "w", `{"status":`+tc.short+`}`)
			mr := await(e, "mr", healthy, "True/"+kind+"Progressing")
			e.Expect(Message(mr, "ResourcesProgressing")).To(Equal(kind + ` "` + e.Namespace + `/w" is progressing: ` + tc.message))
			e.Patch("apps/v1/"+kind, "w", `{"metadata":{"annotations":{"resources.gardener.cloud/skip-health-check":"true"}}}`)
			await(e, "mr", healthy, rolledOut)
			e.Patch("apps/v1/"+kind, "w", `{"metadata":{"annotations":{"resources.gardener.cloud/skip-health-check":null}}}`)
			await(e, "mr", healthy, "True/"+kind+"Progressing")
			e.PatchStatus("apps/v1/"+kind, "w", `{"status":`+tc.complete+`}`)
			await(e, "mr", healthy, rolledOut)
		})
	}
}

// The controller runs with the shipped role.
func TestAServiceWithoutLoadBalancerTellsItsEvents(t *testing.T) {
	e := quiet(t, checkedEvery(3*time.Second)) // this also limits the time of one check
	e.Set("mr", e.Fill("apiVersion: v1\nkind: Service\nmetadata: {name: lb, namespace: $NS}\n"+
		"spec: {type: LoadBalancer, selector: {app: x}, ports: [{port: 80}]}"))
	mr := await(e, "mr", "False/ServiceUnhealthy", rolledOut)
	e.Expect(Message(mr, "ResourcesHealthy")).To(Equal(`Service "` + e.Namespace + `/lb" is unhealthy: service is missing ingress status`))
	event := warning(e, "Service", "lb")
	e.Expect(e.Target.Create(e.Ctx, event)).To(Succeed())
	soon(e, func() string { return Message(e.Get("mr"), "ResourcesHealthy") }).Should(MatchRegexp(
		`^Service "%s/lb" is unhealthy: service is missing ingress status\n\n-> Events:\n\* cloud reported \d+m\d*s? ago: no quota$`,
		e.Namespace))
	e.PatchStatus("v1/Service", "lb", `{"status":{"loadBalancer":{"ingress":[{"ip":"10.1.1.1"}]}}}`)
	await(e, "mr", healthy, rolledOut)
}

// warning returns an Event about an object that was last seen some time ago.
func warning(e *Env, kind, name string) *corev1.Event {
	at := metav1.NewTime(clock.RealClock{}.Now().Add(-10 * time.Minute))
	event := &corev1.Event{
		Type: corev1.EventTypeWarning, Reason: "Failed", Message: "no quota", Count: 1, FirstTimestamp: at,
		LastTimestamp: at,
	}
	event.Namespace, event.Name = e.Namespace, name+"-1"
	event.Source.Component = "cloud"
	event.InvolvedObject = corev1.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: e.Namespace, Name: name}
	return event
}

func TestEveryCulpritIsListed(t *testing.T) {
	e := apart(t)
	e.Set("mr", podManifest(e, "b"), podManifest(e, "a"), podManifest(e, "c"), deploymentManifest(e, "web", 0, "i"),
		deploymentManifest(e, "api", 0, "i"))
	mr := await(e, "mr", "False/PodUnhealthy", "True/DeploymentProgressing")
	e.Expect(Message(mr, "ResourcesHealthy")).To(Equal(e.Fill(
		`Pod "$NS/a" is unhealthy: pod is in invalid phase "Pending" (expected one of ["Running" "Succeeded"]); ` +
			`Pod "$NS/b" is unhealthy: pod is in invalid phase "Pending" (expected one of ["Running" "Succeeded"]); ` +
			`Pod "$NS/c" is unhealthy: pod is in invalid phase "Pending" (expected one of ["Running" "Succeeded"]); ` +
			`Deployment "$NS/api" is unhealthy: observed generation outdated (0/1); ` +
			`Deployment "$NS/web" is unhealthy: observed generation outdated (0/1)`)))
	e.Expect(Message(mr, "ResourcesProgressing")).To(Equal(e.Fill(
		`Deployment "$NS/api" is progressing: observed generation outdated (0/1); Deployment "$NS/web" is progressing: observed generation ` +
			`outdated (0/1)`)))
	running(e, "a")
	soon(e, func() string { return Message(e.Get("mr"), "ResourcesHealthy") }).Should(HavePrefix(e.Fill(`Pod "$NS/b" is unhealthy`)))
}

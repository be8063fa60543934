package health_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// The new generation of an object must not be reported as healthy before its own status shows that, no matter how late the watches show the
// write.
func TestAnUpdateIsNeverHealthyBeforeItsTime(t *testing.T) {
	e := apart(t)
	rolledOutDeployment(e, "web", 1)
	seen := follow(e, "web")
	soon(e, seen.states).Should(Equal([]string{"True/False/True"}))
	e.Secret("web", deploymentManifest(e, "web", 1, "example.com/two"))
	mr := await(e, "web", "False/DeploymentUnhealthy", "True/DeploymentProgressing")
	e.Expect(Message(mr, "ResourcesHealthy")).To(HaveSuffix("observed generation outdated (1/2)"))
	e.PatchStatus(deployment, "web", `{"status":{"observedGeneration":2,"updatedReplicas":0,"conditions":[
		{"type":"Available","status":"True","reason":"R","message":"m"},
			{"type":"Progressing","status":"True","reason":"ReplicaSetUpdated","message":"rolling"}]}}`)
	await(e, "web", healthy, "True/DeploymentProgressing")
	complete(e, "web", 2, 1)
	await(e, "web", healthy, rolledOut)
	soon(e, seen.states).Should(Equal([]string{
		"True/False/True", "False/True/True", "True/True/True", "True/False/True",
	}))
}

// An unchanged set causes no request and no write, neither periodically nor at a restart.
func TestASetAtRestCostsNothing(t *testing.T) {
	t.Parallel()
	for name, two := range map[string]bool{"one cluster": false, "two clusters": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := New(t, Options{TwoClusters: two, Configure: quietly(checkedEvery(time.Second))})
			account(e, two)
			e.Set("mr", e.ConfigMap("c", "1"), podManifest(e, "p"), deploymentManifest(e, "web", 0, "i"), podManifest(e, "sick"))
			e.AwaitApplied("mr", "True/ApplySucceeded")
			running(e, "p")
			if two {
				complete(e, "web", 1, 0) // in one cluster its controller does that
			}
			await(e, "mr", "False/PodUnhealthy", rolledOut)
			soon(e, func() string { return Message(e.Get("mr"), "ResourcesHealthy") }).Should(Equal(e.Fill(
				`Pod "$NS/sick" is unhealthy: pod is in invalid phase "Pending" (expected one of ["Running" "Succeeded"])`)))
			before := await(e, "mr", "False/PodUnhealthy", rolledOut)
			e.AwaitRest() // the controllers of Kubernetes have changed the objects
			e.Consistently(e.Requests.Seen).WithTimeout(2500 * time.Millisecond).Should(BeEmpty())
			e.Expect(e.Get("mr").ResourceVersion).To(Equal(before.ResourceVersion))

			e.Restart(func() { e.Requests.Reset() })
			e.Set("later", e.ConfigMap("later", "")) // it is judged after the earlier sets
			await(e, "later", healthy, rolledOut)
			e.Consistently(func() []string {
				return about(e, "/c", "/p", "/web", "/sick", "/managedresources/mr", "/managedresources/mr/status")
			}).
				WithTimeout(2500 * time.Millisecond).Should(BeEmpty())
			e.Expect(e.Get("mr").ResourceVersion).To(Equal(before.ResourceVersion))
		})
	}
}

// about lists the requests whose paths end with one of the given texts.
func about(e *Env, ends ...string) []string {
	var found []string
	for _, each := range e.Requests.Seen() {
		for _, end := range ends {
			if strings.HasSuffix(each, end) {
				found = append(found, each)
			}
		}
	}
	return found
}

func TestChangesMadeWithoutAWatchAreReported(t *testing.T) {
	e := quiet(t)
	account(e, false)
	e.Set("mr", podManifest(e, "p"))
	await(e, "mr", "False/PodUnhealthy", rolledOut)
	e.Restart(func() { running(e, "p") })
	await(e, "mr", healthy, rolledOut)
}

func TestTwoClusters(t *testing.T) {
	e := apart(t)
	e.Set("mr", deploymentManifest(e, "web", 0, "i"), e.ConfigMap("c", "1"))
	await(e, "mr", "False/DeploymentUnhealthy", "True/DeploymentProgressing")
	complete(e, "web", 1, 0)
	await(e, "mr", healthy, rolledOut)
	e.Create(podManifest(e, "old", "labels: {app: web}"))
	await(e, "mr", healthy, "True/DeploymentProgressing")
	e.Expect(e.Target.Delete(e.Ctx, e.Live(pod, "old"), client.GracePeriodSeconds(0))).To(Succeed())
	await(e, "mr", healthy, rolledOut)
	seen := follow(e, "mr")
	soon(e, seen.states).Should(Equal([]string{"True/False/True"}))
	e.Remove("v1/ConfigMap", "c")
	soon(e, func() []string { return seen.of("ResourcesHealthy") }).Should(Equal([]string{healthy, "False/ConfigMapMissing", healthy}))
}

// Another client writes to the set at the moment in which its conditions are written.
func TestAConflictIsTriedAgain(t *testing.T) {
	e := quiet(t)
	account(e, false)
	e.Set("mr", podManifest(e, "p"))
	await(e, "mr", "False/PodUnhealthy", rolledOut)
	var attempts atomic.Int32
	e.Requests.SetHook(func(request *http.Request) error {
		if request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, "/managedresources/mr/status") && attempts.Add(1) == 1 {
			annotateSet(e, "mr", "example.com/meanwhile", "true")
		}
		return nil
	})
	running(e, "p")
	await(e, "mr", healthy, rolledOut)
	e.Expect(attempts.Load()).To(BeNumerically(">", 1))
}

// The controller keeps the conditions that the ManagedResource controller writes when it releases a set.
func TestASetThatIsGivenUpIsNotJudged(t *testing.T) {
	t.Parallel()
	for name, giveUp := range map[string]func(e *Env){
		"because it is deleted": func(e *Env) { e.Delete("mr") },
		"because it asks for another class": func(e *Env) {
			class := "test"
			e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = &class })
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := quiet(t)
			account(e, false)
			e.Set("mr", podManifest(e, "p", "finalizers: [example.com/stuck]"), podManifest(e, "q", "finalizers: [example.com/stuck]"))
			releaseAtEnd(e, pod, "p", "q")
			await(e, "mr", "False/PodUnhealthy", rolledOut)
			seen := follow(e, "mr")
			giveUp(e)
			await(e, "mr", "False/DeletionPending", "True/DeletionPending")
			running(e, "p")
			running(e, "q")
			e.Fence()
			await(e, "mr", "False/DeletionPending", "True/DeletionPending")
			seen.catchUp(e, "mr")
			e.Expect(seen.of("ResourcesHealthy")).To(Equal([]string{"False/PodUnhealthy", "False/DeletionPending"}))
		})
	}
}

func TestKindsWithoutARuleAreJudgedByStatusOnlyWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		process    bool
		annotation string
		judged     bool
	}{
		"by default":                        {},
		"by the process":                    {process: true, judged: true},
		"by the set":                        {annotation: "true", judged: true},
		"by the process, but not the set":   {process: true, annotation: "false"},
		"by neither, in spite of a mistake": {annotation: "yes"},
		"by the process, a mistake aside":   {process: true, annotation: "no", judged: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := New(t, Options{Stopped: true, Configure: quietly(func(cfg *config.ResourceManagerConfiguration) {
				cfg.Espalier.ManagedResource.Kstatus = &tc.process
			})})
			e.Define(gadgets(e), "v1", "Gadget")
			e.Start()
			e.Secret("mr", gadget(e, "g"), e.Fill("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: unbound, namespace: $NS}\n"+
				"spec: {storageClassName: none, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"))
			mr := e.ManagedResource("mr", "mr")
			if tc.annotation != "" {
				mr.Annotations = map[string]string{"espalier.dev/kstatus": tc.annotation}
			}
			e.Expect(e.Source.Create(e.Ctx, mr)).To(Succeed())
			await(e, "mr", healthy, rolledOut)
			e.Patch(gadgets(e)+"/v1/Gadget", "g",
				`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Broken","message":"it is broken"}]}}`)
			if !tc.judged {
				e.Fence()
				await(e, "mr", healthy, rolledOut)
				return
			}
			mr = await(e, "mr", "False/GadgetUnhealthy", "True/GadgetProgressing")
			e.Expect(Message(mr, "ResourcesHealthy")).To(Equal(e.Fill(
				`Gadget "$NS/g" is unhealthy: condition "Ready" has invalid status False (expected True) due to Broken: it is broken`)))
			e.Patch(gadgets(e)+"/v1/Gadget", "g", `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Done","message":""}]}}`)
			await(e, "mr", healthy, rolledOut)
		})
	}
}

// Two sets with objects of one kind share a watch, even if only one of the sets is judged by the status of its objects.
func TestASetThatBeginsAndEndsToJudgeByStatus(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Stopped: true, Configure: quietly()})
	e.Define(gadgets(e), "v1", "Gadget")
	e.Start()
	kind := gadgets(e) + "/v1/Gadget"
	e.Set("one", gadget(e, "one"))
	e.Set("two", gadget(e, "two"))
	broken := `{"status":{"conditions":[{"type":"Stalled","status":"True","reason":"Broken","message":"it is broken"}]}}`
	await(e, "one", healthy, rolledOut)
	await(e, "two", healthy, rolledOut)
	e.Patch(kind, "one", broken)
	e.Patch(kind, "two", broken)
	e.Fence()
	watches := watched(e)

	annotateSet(e, "one", "espalier.dev/kstatus", "true")
	await(e, "one", "False/GadgetUnhealthy", rolledOut)
	await(e, "two", healthy, rolledOut)
	e.Expect(watched(e)).To(Equal(watches))

	t.Log("the set that does not judge by status still hears of its objects")
	seen := follow(e, "two")
	e.Remove(kind, "two")
	soon(e, func() []string { return seen.of("ResourcesHealthy") }).Should(Equal([]string{healthy, "False/GadgetMissing", healthy}))

	annotateSet(e, "one", "espalier.dev/kstatus", "null")
	await(e, "one", healthy, rolledOut)
	annotateSet(e, "two", "espalier.dev/kstatus", "true")
	e.Patch(kind, "two", broken)
	await(e, "two", "False/GadgetUnhealthy", rolledOut)
	e.Expect(watched(e)).To(Equal(watches))
}

// For a kind that is not judged, only creation and deletion matter.
func TestObjectsThatMerelyHaveToExistCauseNothingElse(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Stopped: true, Configure: quietly()})
	e.Define(gadgets(e), "v1", "Gadget")
	e.Start()
	e.Set("mr", gadget(e, "g"))
	before := await(e, "mr", healthy, rolledOut)
	e.Patch(gadgets(e)+"/v1/Gadget", "g", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)
	e.Fence()
	e.Expect(e.Get("mr").ResourceVersion).To(Equal(before.ResourceVersion))
	seen := follow(e, "mr")
	e.Remove(gadgets(e)+"/v1/Gadget", "g")
	soon(e, func() []string { return seen.of("ResourcesHealthy") }).Should(Equal([]string{healthy, "False/GadgetMissing", healthy}))
}

// The origin annotation of an object names the set, but the set does not contain the object.
func TestObjectsOfOthersCauseNothing(t *testing.T) {
	e := quiet(t)
	account(e, false)
	e.Set("mr", podManifest(e, "p"))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	running(e, "p")
	before := await(e, "mr", healthy, rolledOut)
	e.AwaitRest()
	e.Create(podManifest(e, "foreign", "labels: {resources.gardener.cloud/managed-by: gardener}",
		fmt.Sprintf("annotations: {resources.gardener.cloud/origin: 'other:%s/mr'}", e.Namespace)))
	e.Consistently(e.Requests.Seen).WithTimeout(500 * time.Millisecond).Should(BeEmpty())
	e.Expect(e.Get("mr").ResourceVersion).To(Equal(before.ResourceVersion))
}

// restrict replaces the shipped permissions of the controller in the target by the given ones.
func restrict(e *Env, rules ...rbacv1.PolicyRule) {
	e.T.Helper()
	for _, role := range []string{"target-base", "target-builtin"} {
		name := e.Namespace + "-espalier-managedresource-controller-" + role
		e.Expect(e.Target.Delete(e.Ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: e.Namespace + "-"}, Rules: rules}
	e.Expect(e.Target.Create(e.Ctx, role)).To(Succeed())
	e.Expect(e.Target.Create(e.Ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: e.Namespace, Name: "managedresource-controller"}},
	})).To(Succeed())
	// The API server's authorizer learns of roles from its own watches.
	soon(e, func() []bool {
		return []bool{allowed(e, rules[0].APIGroups[0], rules[0].Resources[0]), allowed(e, "", "secrets")}
	}).Should(Equal([]bool{true, false}))
}

// allowed reports whether the controller may create objects of a kind in the target.
func allowed(e *Env, group, resource string) bool {
	e.T.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               "system:serviceaccount:" + e.Namespace + ":managedresource-controller",
		ResourceAttributes: &authorizationv1.ResourceAttributes{Group: group, Resource: resource, Verb: "create"},
	}}
	e.Expect(e.Target.Create(e.Ctx, review)).To(Succeed())
	return review.Status.Allowed
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

func TestWithoutTheRightToSeePodsTheConditionsComeWithoutThem(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Stopped: true, TwoClusters: true, Configure: quietly()})
	account(e, true)
	restrict(e, rule("apps", "deployments", "*"), rule("autoscaling", "horizontalpodautoscalers", "list", "watch"),
		rule("autoscaling.k8s.io", "hvpas", "list", "watch"))
	e.Start()
	e.Set("mr", deploymentManifest(e, "web", 1, "i"))
	await(e, "mr", "False/DeploymentUnhealthy", "True/DeploymentProgressing")
	complete(e, "web", 1, 1)
	await(e, "mr", healthy, rolledOut)
}

func TestWithoutTheRightToSeeEventsNoneAreReported(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Stopped: true, TwoClusters: true, Configure: quietly()})
	restrict(e, rule("", "services", "*"))
	e.Start()
	e.Expect(e.Target.Create(e.Ctx, warning(e, "Service", "lb"))).To(Succeed())
	e.Set("mr", e.Fill("apiVersion: v1\nkind: Service\nmetadata: {name: lb, namespace: $NS}\nspec: {type: LoadBalancer, ports: [{port: 80}]}"))
	mr := await(e, "mr", "False/ServiceUnhealthy", rolledOut)
	e.Expect(Message(mr, "ResourcesHealthy")).To(Equal(e.Fill(`Service "$NS/lb" is unhealthy: service is missing ingress status`)))
}

// Objects that may not be watched are checked in every period.
func TestWhatMayNotBeWatchedIsJudgedAllTheSame(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Stopped: true, TwoClusters: true, Configure: quietly(checkedEvery(2 * time.Second))})
	account(e, true)
	restrict(e, rule("apps", "deployments", "get", "create", "update", "patch", "delete"), rule("", "pods", "list", "watch"),
		rule("autoscaling", "horizontalpodautoscalers", "list", "watch"), rule("autoscaling.k8s.io", "hvpas", "list", "watch"))
	e.Start()
	e.Set("mr", deploymentManifest(e, "web", 0, "i"))
	await(e, "mr", "False/DeploymentUnhealthy", "True/DeploymentProgressing")
	complete(e, "web", 1, 0)
	await(e, "mr", healthy, rolledOut)
	e.Create(podManifest(e, "old", "labels: {app: web}"))
	await(e, "mr", healthy, "True/DeploymentProgressing")
}

// The health condition reports that a kind is no longer served. ResourcesApplied stays True until the ManagedResource controller checks
// again.
func TestAcceptance70AKindThatIsGone(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Stopped: true, Configure: quietly(checkedEvery(2 * time.Second))})
	define(e)
	restrict(e, rule(gadgets(e), "gadgets", "get", "create", "update", "patch", "delete")) // no watch, which would notify at once
	e.Start()
	e.Set("mr", gadget(e, "g"))
	await(e, "mr", healthy, rolledOut)
	e.Remove("apiextensions.k8s.io/v1/CustomResourceDefinition", "gadgets."+gadgets(e))
	await(e, "mr", "False/GadgetMissing", rolledOut) // the objects are deleted before their kind
	soon(e, func() string { return Message(e.Get("mr"), "ResourcesHealthy") }).
		Should(Equal(e.Fill(`Required Gadget "g" in namespace "$NS" is missing: no matches for kind "Gadget" in version "` + gadgets(e) +
			`/v1"`)))
}

// define creates the CustomResourceDefinition of gadgets. It gives the controller no permissions on them.
func define(e *Env) {
	e.T.Helper()
	e.Create(fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.%[1]s}
spec:
  group: %[1]s
  names: {kind: Gadget, listKind: GadgetList, plural: gadgets, singular: gadget}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, gadgets(e)))
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: gadgets(e), Version: "v1", Kind: "GadgetList"})
	soon(e, func() error { return e.Target.List(e.Ctx, list, client.InNamespace(e.Namespace)) }).Should(Succeed())
}

// The object existed, another client deletes it, and the set cannot be applied, so the object is not created again.
func TestAnObjectThatIsGoneForGoodIsReported(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Stopped: true, TwoClusters: true, Configure: quietly()})
	account(e, true)
	e.Start()
	e.Set("mr", e.ConfigMap("c", "1"))
	await(e, "mr", healthy, rolledOut)
	e.Create(e.Fill("{apiVersion: v1, kind: ResourceQuota, metadata: {name: none, namespace: $NS}, spec: {hard: {count/configmaps: '0'}}}"))
	e.PatchStatus("v1/ResourceQuota", "none", `{"status":{"hard":{"count/configmaps":"0"},"used":{"count/configmaps":"0"}}}`)
	admitted := func() (bool, error) { // the API server learns of quotas from its own watch
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, GenerateName: "probe-"}}
		err := e.Target.Create(e.Ctx, object)
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		if err == nil {
			err = e.Target.Delete(e.Ctx, object)
		}
		return true, err
	}
	soon(e, admitted).Should(BeFalse())
	e.Remove("v1/ConfigMap", "c")
	e.AwaitApplied("mr", "False/ApplyFailed")
	mr := await(e, "mr", "False/ConfigMapMissing", rolledOut)
	e.Expect(Message(mr, "ResourcesHealthy")).To(Equal(e.Fill(`Required ConfigMap "c" in namespace "$NS" is missing`)))
	e.Remove("v1/ResourceQuota", "none")
	soon(e, admitted).Should(BeTrue())
	annotateSet(e, "mr", "gardener.cloud/operation", "reconcile")
	await(e, "mr", healthy, rolledOut)
}

// A new process also judges the objects that an earlier process applied, even if the new process must not apply the set.
func TestASetThatIsHeldBackIsJudgedAfterARestart(t *testing.T) {
	t.Parallel()
	for name, annotation := range map[string][2]string{
		"waiting": {"gardener.cloud/operation", "wait-for-state"}, "planned": {"espalier.dev/plan", "true"},
	} {
		t.Run(name, func(t *testing.T) {
			e := apart(t)
			e.Set("mr", deploymentManifest(e, "web", 0, "i"))
			e.AwaitApplied("mr", "True/ApplySucceeded")
			complete(e, "web", 1, 0)
			await(e, "mr", healthy, rolledOut)
			e.Stop()
			annotateSet(e, "mr", annotation[0], annotation[1])
			e.PatchStatus(deployment, "web", `{"status":{"conditions":null}}`)
			e.Start()
			await(e, "mr", "False/DeploymentUnhealthy", "True/DeploymentProgressing")
			complete(e, "web", 1, 0)
			await(e, "mr", healthy, rolledOut)
		})
	}
}

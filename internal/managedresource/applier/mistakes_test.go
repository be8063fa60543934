package applier_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// deny makes the target refuse objects of the namespace of the env that match a rule and an expression in CEL.
func deny(e *Env, name, rule, expression, message string) {
	e.T.Helper()
	e.Create(e.Fill(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: $NS-` + name + `}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: $NS}}
    resourceRules: [` + rule + `]
  validations: [{expression: "!(` + expression + `)", message: ` + message + `}]`))
	e.Create(e.Fill(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: $NS-` + name + `}
spec: {policyName: $NS-` + name + `, validationActions: [Deny]}`))
}

// denyNames makes the target refuse to create ConfigMaps whose names begin with "denied".
func denyNames(e *Env) {
	e.T.Helper()
	deny(e, "names", `{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}`,
		"object.metadata.name.startsWith('denied')", "a bad name")
	e.Eventually(func() bool { return apierrors.IsInvalid(probe(e)) }).WithTimeout(Patience).Should(BeTrue())
}

// probe tries to create a ConfigMap with a name that begins with "denied", and returns the error.
func probe(e *Env) error {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, GenerateName: "denied-probe-"}}
	err := e.Target.Create(e.Ctx, object)
	if err == nil {
		err = e.Target.Delete(e.Ctx, object)
	}
	return err
}

// fullQuota creates a quota that allows no further ConfigMap until one is deleted. No controller counts the ConfigMaps in the test: used is
// the number in the status of the quota.
func fullQuota(e *Env, used int) {
	e.T.Helper()
	e.Create(e.Fill("{apiVersion: v1, kind: ResourceQuota, metadata: {name: full, namespace: $NS}, spec: {hard: {count/configmaps: '1'}}}"))
	e.PatchStatus("v1/ResourceQuota", "full",
		fmt.Sprintf(`{"status":{"hard":{"count/configmaps":"1"},"used":{"count/configmaps":"%d"}}}`, used))
	e.Eventually(func() bool { return apierrors.IsForbidden(probe(e)) }).WithTimeout(Patience).Should(BeTrue())
}

func replaceableDeployment(e *Env, app, port string) string {
	return e.Fill(`apiVersion: apps/v1
kind: Deployment
metadata: {name: precious, namespace: $NS, annotations: {resources.gardener.cloud/delete-on-invalid-update: "true"}}
spec:
  replicas: 0
  selector: {matchLabels: {app: ` + app + `}}
  template:
    metadata: {labels: {app: ` + app + `}}
    spec: {containers: [{name: main, image: "i", ports: [{containerPort: ` + port + `}]}]}`)
}

func immutable(e *Env, kind, key string) string {
	data := "data"
	if kind == "Secret" {
		data = "stringData"
	}
	return e.Fill(fmt.Sprintf("---\n{apiVersion: v1, kind: %s, metadata: {name: frozen, namespace: $NS}, immutable: true, "+
		"%s: {good: '1', %q: '2'}}", kind, data, key))
}

func replaceableService(e *Env, class string, port any) string {
	return e.Fill(fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: balanced, namespace: $NS, annotations: {resources.gardener.cloud/delete-on-invalid-update: "true"}}
spec: {type: LoadBalancer, loadBalancerClass: example.com/%s, selector: {app: x}, ports: [{port: 80, nodePort: %v}]}`, class, port))
}

// The second manifest of each object cannot be applied as an update, so the object must be replaced; and it contains a mistake.
func TestAnObjectIsDeletedOnlyIfItsSuccessorIsAcceptable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind, object         string
		first, second, third func(e *Env) string
		want                 string
	}{
		"a Deployment": {
			kind: deploymentKind, object: "precious", want: "containerPort: Invalid value: 80000",
			first:  func(e *Env) string { return replaceableDeployment(e, "one", "80") },
			second: func(e *Env) string { return replaceableDeployment(e, "two", "80000") },
			third:  func(e *Env) string { return replaceableDeployment(e, "two", "8000") },
		},
		"an immutable ConfigMap": {
			kind: configMapKind, object: "frozen", want: `data[not a key]: Invalid value`,
			first:  func(e *Env) string { return immutable(e, "ConfigMap", "one") },
			second: func(e *Env) string { return immutable(e, "ConfigMap", "not a key") },
			third:  func(e *Env) string { return immutable(e, "ConfigMap", "two") },
		},
		"an immutable Secret": {
			kind: "v1/Secret", object: "frozen", want: `data[not a key]: Invalid value`,
			first:  func(e *Env) string { return immutable(e, "Secret", "one") },
			second: func(e *Env) string { return immutable(e, "Secret", "not a key") },
			third:  func(e *Env) string { return immutable(e, "Secret", "two") },
		},
		"a name that a policy denies by now": {
			kind: configMapKind, object: "denied", want: "denied request: a bad name",
			first:  func(e *Env) string { return e.ConfigMap("denied", "1") + "immutable: true\n" },
			second: func(e *Env) string { denyNames(e); return e.ConfigMap("denied", "2") + "immutable: true\n" },
			third: func(e *Env) string {
				e.Remove("admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding", e.Namespace+"-names")
				e.Eventually(func() error { return probe(e) }).WithTimeout(Patience).Should(Succeed())
				return e.ConfigMap("denied", "3") + "immutable: true\n"
			},
		},
		"a node port of another Service": {
			kind: serviceKind, object: "balanced", want: "provided port is already allocated",
			first: func(e *Env) string { return replaceableService(e, "one", nodePort(e, "first")) },
			second: func(e *Env) string {
				other := e.Create(e.Fill("{apiVersion: v1, kind: Service, metadata: {name: other, namespace: $NS}, spec: {type: NodePort, " +
					"ports: [{port: 80}]}}"))
				return replaceableService(e, "two", portOf(other))
			},
			third: func(e *Env) string { return replaceableService(e, "two", nodePort(e, "third")) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := withoutControllers(t)
			e.Set("mr", tc.first(e))
			before := e.AwaitApplied("mr", succeeded)
			uid := e.Live(tc.kind, tc.object).GetUID()
			changed(e, "mr", planned)
			e.Secret("mr", tc.second(e))
			awaitPlan(e, "mr", func(g Gomega, p *published) { g.Expect(p.of(tc.object).Action).To(Equal("refused")) })
			changed(e, "mr", applyNow)
			mr := e.AwaitApplied("mr", "False/ApplyFailed")
			e.Expect(Message(mr, "ResourcesApplied")).To(And(ContainSubstring(tc.want), ContainSubstring("it is not replaced, because")))
			e.Expect(e.Live(tc.kind, tc.object).GetUID()).To(Equal(uid))
			e.Secret("mr", tc.third(e))
			e.AwaitChange(before)
			e.Expect(e.Live(tc.kind, tc.object).GetUID()).NotTo(Equal(uid))
		})
	}
}

// nodePort returns a port that no Service has at the moment.
func nodePort(e *Env, name string) any {
	e.T.Helper()
	service := e.Create(e.Fill("{apiVersion: v1, kind: Service, metadata: {name: " + name + ", namespace: $NS}, spec: {type: NodePort, " +
		"ports: [{port: 80}]}}"))
	e.Remove(serviceKind, name)
	return portOf(service)
}

// portOf returns the first node port of a Service.
func portOf(service *unstructured.Unstructured) any {
	ports, _ := Field(service, "spec", "ports").([]any)
	port, _ := ports[0].(map[string]any)
	return port["nodePort"]
}

// In the cases of the node port and the quota, the API server refuses to create the new object, also in a dry run, as long as the object
// that it replaces exists. In the case of the annotation, a policy always refuses the new object, and the annotation allows the deletion
// although no dry run succeeds.
func TestAnObjectIsReplacedIfOnlyItselfIsInTheWay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind          string
		object        string
		first, second func(e *Env) string
	}{
		"its node port": {
			kind: serviceKind, object: "balanced",
			first:  func(e *Env) string { return replaceableService(e, "one", nodePort(e, "free")) },
			second: func(e *Env) string { return replaceableService(e, "two", portOf(e.Live(serviceKind, "balanced"))) },
		},
		"its share of a full quota": {
			kind: configMapKind, object: "frozen",
			first: func(e *Env) string { return immutable(e, "ConfigMap", "one") },
			second: func(e *Env) string {
				fullQuota(e, 1)
				return immutable(e, "ConfigMap", "two")
			},
		},
		"an annotation confirms the deletion": {
			kind: configMapKind, object: "denied",
			first: func(e *Env) string { return e.ConfigMap("denied", "1") + "immutable: true\n" },
			second: func(e *Env) string {
				denyNames(e)
				return e.ConfigMap("denied", "2", "annotations: {espalier.dev/delete-untested: 'true'}") + "immutable: true\n"
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := withoutControllers(t)
			e.Set("mr", tc.first(e))
			e.AwaitApplied("mr", succeeded)
			uid := e.Live(tc.kind, tc.object).GetUID()
			changed(e, "mr", planned)
			e.Secret("mr", tc.second(e))
			awaitPlan(e, "mr", func(g Gomega, p *published) { g.Expect(p.of(tc.object).Action).To(Equal("replace")) })
			changed(e, "mr", applyNow)
			e.Eventually(func() bool {
				live := e.Live(tc.kind, tc.object)
				return live == nil || live.GetUID() != uid
			}).WithTimeout(Patience).Should(BeTrue())
		})
	}
}

// A mistake changes the name of an object in the manifest into a name with which the object cannot be created.
func TestAMistakeInTheNameOfAnObjectDeletesNothing(t *testing.T) {
	e := withoutControllers(t)
	denyNames(e)
	for name, tc := range map[string]struct {
		// first is the manifest that is applied first. Then the text old in this manifest is replaced by the text mistake.
		first, old, mistake string
		kind, object        string
		// kept is the name of the kept object in the condition. refused is the part of the condition about the new object.
		kept, refused string
	}{
		"kind": {
			first: e.ConfigMap("kind", "1"), old: "kind: ConfigMap", mistake: "kind: ConfgMap", kind: configMapKind, object: "kind",
			kept: "ConfigMap $NS/kind", refused: `no matches for kind "ConfgMap"`,
		},
		"group": {
			first: strings.Replace(replaceableDeployment(e, "x", "80"), "name: precious", "name: group", 1),
			old:   "apiVersion: apps/v1", mistake: "apiVersion: app/v1", kind: deploymentKind, object: "group",
			kept: "Deployment $NS/group", refused: `no matches for kind "Deployment" in version "app/v1"`,
		},
		"namespace": {
			first: e.ConfigMap("namespace", "1"), old: "namespace: " + e.Namespace, mistake: "namespace: " + e.Namespace + "a",
			kind: configMapKind, object: "namespace", kept: "ConfigMap $NS/namespace", refused: `namespaces "$NSa" not found`,
		},
		"name": {
			first: e.ConfigMap("name", "1"), old: "name: name", mistake: "name: na_me", kind: configMapKind, object: "name",
			kept: "ConfigMap $NS/name", refused: `Invalid value: "na_me"`,
		},
		"a name that a policy denies": {
			first: e.ConfigMap("allowed", "1"), old: "name: allowed", mistake: "name: denied", kind: configMapKind, object: "allowed",
			kept: "ConfigMap $NS/allowed", refused: "a bad name",
		},
		"the kind of a Namespace": {
			first: e.Fill("---\n{apiVersion: v1, kind: Namespace, metadata: {name: $NS-precious}}"),
			old:   "kind: Namespace", mistake: "kind: Namspace", kind: "v1/Namespace", object: e.Namespace + "-precious",
			kept: "Namespace default/$NS-precious", refused: `no matches for kind "Namspace"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := e.Within(t) //nolint:govet // the env of the subtest must hide the env of the test
			set := strings.ReplaceAll(name, " ", "-")
			set = strings.ToLower(set)
			other := e.ConfigMap("other-"+set, "1")
			e.Set(set, tc.first, other)
			before := e.AwaitApplied(set, succeeded)
			uid := e.Live(tc.kind, tc.object).GetUID()

			changed(e, set, planned)
			e.Secret(set, strings.ReplaceAll(tc.first, tc.old, tc.mistake), other)
			awaitPlan(e, set, func(g Gomega, p *published) {
				g.Expect(p.Counts).To(Equal(map[string]int{"keep": 1, "refused": 1, "unchanged": 1}))
			})
			changed(e, set, applyNow)
			mr := e.AwaitApplied(set, "False/ApplyFailed")
			e.Expect(Message(mr, "ResourcesApplied")).To(And(ContainSubstring(e.Fill(tc.refused)), ContainSubstring(
				e.Fill("until it is applied, these objects, which the set no longer contains, are not deleted: "+tc.kept))))
			live := e.Live(tc.kind, tc.object)
			e.Expect(live.GetUID()).To(Equal(uid))
			e.Expect(live.GetDeletionTimestamp()).To(BeNil())
			e.Expect(names(mr)).To(ContainElements(names(before)))

			e.Secret(set, tc.first, other) // the mistake is corrected
			mr = e.AwaitApplied(set, succeeded)
			e.Expect(names(mr)).To(Equal(names(before)))
			e.Expect(e.Live(tc.kind, tc.object).GetUID()).To(Equal(uid))
		})
	}
}

// An obsolete object stays if the new object needs another object of the set that is refused. It also stays if the API server refuses the
// new object with a message that merely contains the name of another new object.
func TestAMistakeBesideTheNewObjectDeletesNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		first, second func(e *Env) string
		kind          string
		// namespace is the namespace of the object old; "" stands for the namespace of the Env.
		namespace string
		// stay is the number of objects that are not deleted. kept is one of them.
		stay int
		kept string
	}{
		"in the name of its new namespace": {
			first:  func(e *Env) string { return inNamespace(e, "$NS-shop") },
			second: func(e *Env) string { return inNamespace(e, "$NS_shop") },
			kind:   configMapKind, namespace: "$NS-shop", stay: 2, kept: "ConfigMap $NS-shop/old",
		},
		"in the definition of its new kind": {
			first:  func(e *Env) string { return ofGroup(e, "$NS.example.test", "object") },
			second: func(e *Env) string { return ofGroup(e, "new.$NS.example.test", "objct") },
			kind:   "$NS.example.test/v1/Gadget", stay: 2, kept: "Gadget $NS/old",
		},
		"in a reference to another new object": {
			first:  func(e *Env) string { return served(e, "old", "80") },
			second: func(e *Env) string { return served(e, "new", "80000") },
			kind:   "networking.k8s.io/v1/Ingress", stay: 1, kept: "Ingress $NS/old",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := withoutControllers(t)
			e.Grant(e.Fill("$NS.example.test"), "gadgets")
			e.Set("mr", tc.first(e))
			e.AwaitApplied("mr", succeeded)
			find := func() error {
				object := &unstructured.Unstructured{}
				object.SetGroupVersionKind(schema.FromAPIVersionAndKind(path.Dir(e.Fill(tc.kind)), path.Base(tc.kind)))
				return e.Target.Get(e.Ctx, client.ObjectKey{Namespace: cmp.Or(e.Fill(tc.namespace), e.Namespace), Name: "old"}, object)
			}
			e.Expect(find()).To(Succeed())
			changed(e, "mr", planned)
			e.Secret("mr", tc.second(e))
			awaitPlan(e, "mr", func(g Gomega, p *published) {
				g.Expect(p.Counts).To(And(HaveKeyWithValue("refused", 1), HaveKeyWithValue("keep", tc.stay)))
			})
			changed(e, "mr", applyNow)
			mr := e.AwaitApplied("mr", "False/ApplyFailed")
			e.Expect(Message(mr, "ResourcesApplied")).To(ContainSubstring(e.Fill(tc.kept)))
			e.Expect(find()).To(Succeed())
		})
	}
}

func inNamespace(e *Env, namespace string) string {
	return e.Fill("---\n{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}\n---\n") +
		strings.Replace(e.ConfigMap("old", "1"), "namespace: "+e.Namespace, "namespace: "+e.Fill(namespace), 1)
}

// ofGroup returns a CustomResourceDefinition in a group, whose schema allows values of one type, and an object of its kind.
func ofGroup(e *Env, group, schemaType string) string {
	return e.Fill(fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: %[2]s}}}]
---
{apiVersion: %[1]s/v1, kind: Gadget, metadata: {name: old, namespace: $NS}}`, group, schemaType))
}

func served(e *Env, name, port string) string {
	return e.Fill("---\n{apiVersion: v1, kind: Service, metadata: {name: " + name + ", namespace: $NS}, spec: {ports: [{port: 80}]}}\n---\n" +
		"{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: " + name + ", namespace: $NS}, " +
		"spec: {defaultBackend: {service: {name: " + name + ", port: {number: " + port + "}}}}}")
}

func TestAMistakeIsKnownAfterARestartAndDoesNotDelayTheDeletionOfTheSet(t *testing.T) {
	e := withoutControllers(t)
	e.Set("mr", e.ConfigMap("old", "1"))
	e.AwaitApplied("mr", succeeded)
	e.Secret("mr", e.ConfigMap("Not-A-Name", "1"))
	e.AwaitApplied("mr", "False/ApplyFailed")
	e.Stop()
	e.Start()
	e.Secret("mr", e.ConfigMap("Not-A-Name-Either", "1"))
	e.Eventually(func() string { return Message(e.Get("mr"), "ResourcesApplied") }).WithTimeout(Patience).
		Should(ContainSubstring("Not-A-Name-Either"))
	e.Expect(e.LiveConfigMap("old").DeletionTimestamp).To(BeNil())
	e.Secret("mr", e.ConfigMap("new", "1"))
	mr := e.AwaitApplied("mr", succeeded)
	e.Expect(names(mr)).To(Equal([]string{"v1/ConfigMap/new"}))
	e.Expect(e.LiveConfigMap("old")).To(BeNil())
	e.Secret("mr", e.ConfigMap("Not-A-Name", "1"))
	e.AwaitApplied("mr", "False/ApplyFailed")
	e.Delete("mr")
	e.AwaitGone("mr")
	e.Expect(e.LiveConfigMap("new")).To(BeNil())
}

// The set drops two objects. The Secret is deleted at once, the ConfigMap only when the API server has accepted the ConfigMap that replaces
// it.
func TestAnObjectIsDeletedWhenTheObjectInItsPlaceIsApplied(t *testing.T) {
	e := withoutControllers(t)
	e.Set("mr", e.ConfigMap("c", "1"), e.Fill("---\n{apiVersion: v1, kind: Secret, metadata: {name: other, namespace: $NS}}"))
	e.AwaitApplied("mr", succeeded)
	e.Secret("mr", strings.Replace(e.ConfigMap("c", "1"), "namespace: "+e.Namespace, "namespace: "+e.Namespace+"-late", 1))
	mr := e.AwaitApplied("mr", "False/ApplyFailed")
	e.Expect(names(mr)).To(ContainElement("v1/ConfigMap/c"))
	e.Expect(e.Live("v1/Secret", "other")).To(BeNil())
	e.Expect(e.LiveConfigMap("c").DeletionTimestamp).To(BeNil())
	e.Create(e.Fill("{apiVersion: v1, kind: Namespace, metadata: {name: $NS-late}}"))
	e.AwaitApplied("mr", succeeded)
	e.Expect(e.LiveConfigMap("c")).To(BeNil())
}

// In each case, the obsolete object is deleted, although the API server refuses the new object at first or did not accept it in a dry run.
func TestObsoleteObjectsMakeRoomForNewOnes(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]func(e *Env) string{
		"the quota is full":                   func(e *Env) string { fullQuota(e, 1); return e.ConfigMap("new", "1") },
		"an annotation confirms the deletion": func(e *Env) string { denyNames(e); return e.ConfigMap("denied", "1", untested) },
		"the set brings the namespace":        inNewNamespace,
		"the set brings the kind": func(e *Env) string {
			return (&setTest{e}).definition() + "---\n" + (&setTest{e}).gadget(e.Namespace, "old")
		},
		"another set holds the new object":       heldByOther,
		"a Service has the port of the obsolete": nil,
	} {
		t.Run(name, func(t *testing.T) {
			e := withoutControllers(t)
			first, object, kind := e.ConfigMap("old", "1"), "old", configMapKind
			if second == nil {
				kind, first = serviceKind, fixedPort(e, "old", nodePort(e, "free"))
			}
			e.Set("mr", first)
			e.AwaitApplied("mr", succeeded)
			changed(e, "mr", planned)
			if second == nil {
				e.Secret("mr", strings.Replace(first, "name: old", "name: new", 1))
			} else {
				e.Secret("mr", second(e))
			}
			awaitPlan(e, "mr", func(g Gomega, p *published) { g.Expect(p.Counts).To(HaveKeyWithValue("delete", 1)) })
			changed(e, "mr", applyNow)
			e.AwaitAbsent(kind, object)
		})
	}
}

const untested = "annotations: {espalier.dev/delete-untested: 'true'}"

func inNewNamespace(e *Env) string {
	return e.Fill("---\n{apiVersion: v1, kind: Namespace, metadata: {name: $NS-new}}\n---\n") +
		strings.Replace(e.ConfigMap("old", "1"), "namespace: "+e.Namespace, "namespace: "+e.Namespace+"-new", 1)
}

func heldByOther(e *Env) string {
	e.Set("other", e.ConfigMap("new", "1"))
	e.AwaitApplied("other", succeeded)
	return e.ConfigMap("new", "1")
}

func fixedPort(e *Env, name string, port any) string {
	return e.Fill(fmt.Sprintf("---\n{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: $NS}, spec: {type: NodePort, "+
		"ports: [{port: 80, nodePort: %v}]}}", name, port))
}

// The plan without values shows the reason of a refused replacement too.
func TestThePlanNamesTheFieldThatPreventsAReplacement(t *testing.T) {
	e := withoutControllers(t)
	e.Set("mr", immutable(e, "Secret", "one"))
	e.AwaitApplied("mr", succeeded)
	changed(e, "mr", planned)
	e.Secret("mr", immutable(e, "Secret", "not a key"))
	found := awaitPlan(e, "mr", func(g Gomega, p *published) { g.Expect(p.of("frozen").Action).To(Equal("refused")) })
	p := &published{}
	e.Expect(json.Unmarshal([]byte(found.Data["plan.json"]), p)).To(Succeed())
	e.Expect(p.of("frozen").Note).To(
		ContainSubstring("the API server would refuse the new one: the API server answers Invalid data[not a key]"))
}

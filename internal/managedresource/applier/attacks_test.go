package applier_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/binary"
)

// marker is in the data, metadata or status of every object that no ServiceAccount of the attackers may read, and in no text about an
// object that one of them may read.
const marker = "s3cr3t"

var update = flag.Bool("update", false, "write the list of attacks into docs/reference/attacks.md")

// attackDocuments is the content of testdata/attacks.yaml.
type attackDocuments struct {
	Creations, Changes, Lures map[string]string
	Annotations               map[string]map[string]string
	Victims                   []string
}

// scene is a namespace of the attackers, who may write ManagedResources and Secrets in it, and a namespace of a victim. The attackers know
// the names of the victim's objects.
type scene struct {
	*Env
	// whole is the test of all attacks.
	whole     *testing.T
	documents attackDocuments
	victim    string
	// guarded are the objects that must not change. forbidden are those that must not appear.
	guarded   []*unstructured.Unstructured
	forbidden []*unstructured.Unstructured
	// printed is the output of a command that the attackers ran.
	printed string
}

func object(e *Env, manifest string) *unstructured.Unstructured {
	e.T.Helper()
	parsed := &unstructured.Unstructured{}
	e.Expect(yaml.Unmarshal([]byte(manifest), &parsed.Object)).To(Succeed(), manifest)
	return parsed
}

// befriend creates a set whose ServiceAccount may read the objects of the victim, so that the controller watches them for this set.
func (s *scene) befriend() {
	s.T.Helper()
	s.BareAccount("friend")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "test-friend"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", "apps"}, Resources: []string{"configmaps", "secrets", "deployments"}, Verbs: []string{"*"}},
	}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.victim, Name: "friend"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.Namespace, Name: "friend"}},
	}
	for _, c := range []client.Client{s.Source, s.Target} {
		s.Expect(client.IgnoreAlreadyExists(c.Create(s.Ctx, role.DeepCopy()))).To(Succeed())
		s.Expect(client.IgnoreAlreadyExists(c.Create(s.Ctx, binding.DeepCopy()))).To(Succeed())
		s.GrantTo(c, "friend", role.Name, authorizationv1.ResourceAttributes{Resource: "secrets", Verb: "get"})
	}
	setOf(s.Env, "friendly", "friend", s.fill("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: friendly, namespace: $V}"),
		s.fill("apiVersion: v1\nkind: Secret\nmetadata: {name: friendly, namespace: $V}"),
		s.fill("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: friendly, namespace: $V}\nspec:\n  replicas: 0\n"+
			"  selector: {matchLabels: {app: friendly}}\n  template:\n    metadata: {labels: {app: friendly}}\n"+
			"    spec: {containers: [{name: web, image: registry.test/web}]}\n"))
}

// guard creates an object of the victim as another set would have: with the label of the objects that the controller watches.
func (s *scene) guard(manifest string) *unstructured.Unstructured {
	s.T.Helper()
	created := object(s.Env, manifest)
	labels := map[string]string{"resources.gardener.cloud/managed-by": "gardener"}
	maps.Copy(labels, created.GetLabels())
	created.SetLabels(labels)
	annotations := map[string]string{"resources.gardener.cloud/origin": s.Namespace + "/" + marker + "-set", "note": marker}
	maps.Copy(annotations, created.GetAnnotations())
	created.SetAnnotations(annotations)
	create := func() error { return s.Target.Create(s.Ctx, created) }
	s.Eventually(create).WithTimeout(Patience).Should(Succeed()) // the definition of its kind may be new
	if created.GetNamespace() == "" {                            // the namespaces of tests are removed by other means
		s.removeAtEnd(created.DeepCopy())
	}
	return s.keep(created)
}

// removeAtEnd deletes an object of the target at the end of the test of all attacks.
func (s *scene) removeAtEnd(o client.Object) {
	s.whole.Cleanup(func() { _ = s.Target.Delete(context.WithoutCancel(s.Ctx), o) })
}

func (s *scene) keep(guarded *unstructured.Unstructured) *unstructured.Unstructured {
	s.guarded = append(s.guarded, guarded)
	return guarded
}

func newScene(e *Env, documents attackDocuments) *scene {
	e.T.Helper()
	s := &scene{Env: e, whole: e.T, documents: documents, victim: e.Namespace + "-victim"}
	for _, c := range slices.Compact([]client.Client{e.Source, e.Target}) {
		e.Expect(c.Create(e.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.victim}})).To(Succeed())
	}
	e.Account("deployer")
	for _, verb := range verbs {
		s.accountWithout(verb)
	}
	s.counter()
	s.befriend()
	for _, each := range documents.Victims {
		s.guard(s.fill(each))
	}
	// The other set claims the objects of the victim.
	other := e.ManagedResource(marker+"-set", "none")
	other.Spec.Class = new("other")
	e.Expect(e.Source.Create(e.Ctx, other)).To(Succeed())
	refs := make([]resourcesv1alpha1.ObjectReference, 0, len(s.guarded))
	for _, each := range s.guarded {
		refs = append(refs, reference(each))
	}
	s.forge(other.Name, refs...)
	return s
}

// named returns a manifest with a name in place of $N. It leaves $NS as it is.
func named(manifest, name string) string {
	return strings.NewReplacer("$NS", "$NS", "$N", name).Replace(manifest)
}

func (s *scene) fill(text string) string { return s.Fill(strings.ReplaceAll(text, "$V", s.victim)) }

// lure returns the manifest of an object of the victim with the origin of a set.
func (s *scene) lure(kind, set string) string {
	return s.fill(named(s.documents.Lures[kind], set))
}

func reference(o *unstructured.Unstructured) resourcesv1alpha1.ObjectReference {
	return resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{
		APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(),
	}}
}

var verbs = []string{"get", "create", "update", "patch", "delete"}

// accountWithout creates a ServiceAccount "no-VERB" that may read Secrets and watch ConfigMaps of its namespace, and has all other rights
// but one on these ConfigMaps.
func (s *scene) accountWithout(verb string) {
	s.T.Helper()
	name := "no-" + verb
	s.BareAccount(name)
	allowed := append(slices.DeleteFunc(slices.Clone(verbs), func(each string) bool { return each == verb }), "list", "watch")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "test-" + name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: allowed},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
	}}
	for _, c := range []client.Client{s.Source, s.Target} {
		s.Expect(client.IgnoreAlreadyExists(c.Create(s.Ctx, role.DeepCopy()))).To(Succeed())
		s.GrantTo(c, name, role.Name, authorizationv1.ResourceAttributes{Resource: "configmaps", Verb: allowed[0]})
	}
}

// counter creates a ServiceAccount "counter" that may read Secrets and definitions of kinds, and no objects of these kinds.
func (s *scene) counter() {
	s.T.Helper()
	s.BareAccount("counter")
	s.GrantTo(s.Source, "counter", "test-no-get", authorizationv1.ResourceAttributes{Resource: "secrets", Verb: "get"})
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.victim + "-counter"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"get"}},
	}}
	s.Expect(s.Target.Create(s.Ctx, role)).To(Succeed())
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.Namespace, Name: "counter"}},
	}
	s.Expect(s.Target.Create(s.Ctx, binding)).To(Succeed())
	s.removeAtEnd(binding)
	s.removeAtEnd(role)
	s.AwaitRight(s.Target, "counter",
		authorizationv1.ResourceAttributes{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Verb: "get"})
}

// forge makes the status of a set say that it was applied and contains these objects.
func (s *scene) forge(set string, refs ...resourcesv1alpha1.ObjectReference) {
	s.T.Helper()
	status, err := json.Marshal(map[string]any{"status": map[string]any{"resources": refs}})
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.Source.Status().Patch(s.Ctx, s.Get(set), client.RawPatch("application/merge-patch+json", status))).To(Succeed())
}

// forged creates a set that the controller begins to process when its status is forged.
func (s *scene) forged(set, account string, change func(*resourcesv1alpha1.ManagedResource), refs ...resourcesv1alpha1.ObjectReference) {
	s.T.Helper()
	s.Secret(set, s.ConfigMap(set, "1"))
	mr := s.ManagedResource(set, set)
	mr.Annotations = map[string]string{"espalier.dev/service-account": account, "resources.gardener.cloud/ignore": "true"}
	s.Expect(s.Source.Create(s.Ctx, mr)).To(Succeed())
	s.AwaitCondition(set, "ResourcesApplied", "True/ManagedResourceIgnored")
	s.forge(set, refs...)
	s.Change(set, func(mr *resourcesv1alpha1.ManagedResource) {
		delete(mr.Annotations, "resources.gardener.cloud/ignore")
		if change != nil {
			change(mr)
		}
	})
}

// refused waits until the condition of a set reports a missing right, a refusal, a List that no API serves, or a faulty annotation.
func (s *scene) refused(set string) {
	s.T.Helper()
	s.Eventually(func() string { return Message(s.Get(set), "ResourcesApplied") }).WithTimeout(Patience).
		Should(MatchRegexp(`cannot (get|create|update|patch|delete|list) resource|^refused: |no matches for kind "List"|` +
			`annotation espalier.dev/`))
}

// verify requires that no guarded object has changed, no forbidden object exists, and nothing that the attackers can read contains the
// marker.
func (s *scene) verify() {
	s.T.Helper()
	for _, each := range s.guarded {
		live := each.DeepCopy()
		s.Expect(s.Target.Get(s.Ctx, client.ObjectKeyFromObject(each), live)).To(Succeed(), each.GetName())
		s.Expect(live.GetUID()).To(Equal(each.GetUID()), each.GetName())
		s.Expect(live.GetDeletionTimestamp()).To(BeNil(), each.GetName())
		for _, field := range []string{"data", "spec", "immutable", "secrets"} {
			s.Expect(equality.Semantic.DeepEqual(live.Object[field], each.Object[field])).To(BeTrue(), "%s of %s", field, each.GetName())
		}
		s.Expect(live.GetAnnotations()["note"]).To(Equal(each.GetAnnotations()["note"]), each.GetName())
		s.Expect(live.GetAnnotations()["resources.gardener.cloud/origin"]).To(Equal(each.GetAnnotations()["resources.gardener.cloud/origin"]))
	}
	for _, each := range s.forbidden {
		err := s.Target.Get(s.Ctx, client.ObjectKeyFromObject(each), each.DeepCopy())
		s.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%s %s: %v", each.GetKind(), each.GetName(), err)
	}
	text := s.visible()
	if at := strings.Index(text, marker); at >= 0 {
		s.T.Errorf("an attacker can read: …%s…", text[max(0, at-300):min(len(text), at+300)])
	}
}

// visible returns everything that the controller has published in the namespace of the attackers, and its metrics.
func (s *scene) visible() string {
	s.T.Helper()
	var text strings.Builder
	_, _ = text.WriteString(s.printed)
	add := func(v any) {
		encoded, err := json.Marshal(v)
		s.Expect(err).NotTo(HaveOccurred())
		_, _ = text.Write(encoded)
	}
	sets := &resourcesv1alpha1.ManagedResourceList{}
	s.Expect(s.Source.List(s.Ctx, sets, client.InNamespace(s.Namespace))).To(Succeed())
	for _, each := range sets.Items {
		if each.Name != marker+"-set" {
			add(each)
		}
	}
	for _, c := range []client.Client{s.Source, s.Target} {
		events, plans := &corev1.EventList{}, &corev1.ConfigMapList{}
		s.Expect(c.List(s.Ctx, events, client.InNamespace(s.Namespace))).To(Succeed())
		add(slices.DeleteFunc(events.Items, func(each corev1.Event) bool { return strings.HasPrefix(each.InvolvedObject.Name, marker) }))
		s.Expect(c.List(s.Ctx, plans, client.InNamespace(s.Namespace))).To(Succeed())
		add(slices.DeleteFunc(plans.Items, func(each corev1.ConfigMap) bool { return each.Name == "closed" }))
	}
	metrics, err := s.Registry.Gather()
	s.Expect(err).NotTo(HaveOccurred())
	for _, each := range metrics {
		_, _ = text.WriteString(each.String())
	}
	return text.String()
}

// attacks returns the table of attacks, and the objects for it.
func attacks(t *testing.T) (all []attack, documents attackDocuments) {
	t.Helper()
	content, err := os.ReadFile("testdata/attacks.yaml")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(yaml.UnmarshalStrict(content, &documents)).To(Succeed())
	return slices.Concat(
		creations(documents.Creations), changes(documents.Changes), forgeries(), namings(), missingVerbs(), others(),
		annotated(documents), formerContent(), definitions(), paths(), plans(), differences(documents.Changes), thefts()), documents
}

// The page lists the attacks; with -update, the test writes the list.
func TestThePageListsTheAttacks(t *testing.T) {
	all, _ := attacks(t)
	var list strings.Builder
	for number, each := range all {
		fmt.Fprintf(&list, "%d. %s\n", number+1, each.name)
	}
	binary.CheckScreens(t, "reference/attacks.md", *update, map[string]string{"attacks": list.String()})
}

// attack is an attempt to exceed the rights of a ServiceAccount. It returns when the controller has processed it.
type attack struct {
	name string
	run  func(s *scene, set string)
}

// TestNoSetExceedsTheRightsOfItsServiceAccount runs each attack against a controller with the shipped roles. After each, the objects of the
// victim must be as before, and nothing that the attackers may not read may be in a condition, Event, plan or metric.
func TestNoSetExceedsTheRightsOfItsServiceAccount(t *testing.T) {
	t.Parallel()
	all, documents := attacks(t)
	NewWithT(t).Expect(len(all)).To(BeNumerically(">=", 60))
	for name, two := range map[string]bool{"one cluster": false, "two clusters": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(NewImpersonating(t, Options{TwoClusters: two, Configure: serveAttackers, Stopped: true}), documents)
			s.Start() // it knows the kinds of the victim from the start
			s.AwaitApplied("friendly", "True/ApplySucceeded")
			for number, each := range all {
				t.Run(each.name, func(t *testing.T) {
					within := *s
					within.Env = s.Within(t)
					each.run(&within, fmt.Sprintf("attack-%d", number))
					within.verify()
					s.guarded, s.forbidden = within.guarded, within.forbidden
				})
			}
		})
	}
}

// serveAttackers makes the controller serve the attackers and the victim. A definition of a kind with objects is protected.
func serveAttackers(cfg *config.ResourceManagerConfiguration) {
	longSyncPeriod(cfg)
	served := &cfg.SourceClientConnection.Namespaces
	*served = append(*served, (*served)[0]+"-victim")
	cfg.Espalier.ManagedResource.DeletionLimit = &config.EspalierDeletionLimit{
		ProtectedKinds: &[]string{"CustomResourceDefinition.apiextensions.k8s.io"},
		Objects:        new(1000), Percent: new(100), NamespacesAndDefinitions: new(0),
	}
}

// creations are objects that the ServiceAccount may not create, each in every form of a document.
func creations(kinds map[string]string) []attack {
	forms := map[string]func(string) string{
		"": func(document string) string { return document },
		", once": func(document string) string {
			return withAnnotation(document, "resources.gardener.cloud/ignore: 'true'")
		},
		" in a List": func(document string) string { return "kind: List\napiVersion: v1\nitems:\n- " + indented(document) },
		" with the origin of another set": func(document string) string {
			return withAnnotation(document, "resources.gardener.cloud/origin: $NS/another")
		},
	}
	var all []attack
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		for _, form := range slices.Sorted(maps.Keys(forms)) {
			if len(form) > len(", once") && kind != "a ConfigMap of the victim" && kind != "a Role" {
				continue
			}
			all = append(all, attack{"create " + kind + form, func(s *scene, set string) {
				manifest := s.fill(named(kinds[kind], set+"-"+s.Namespace))
				s.forbidden = append(s.forbidden, object(s.Env, manifest))
				setOf(s.Env, set, "deployer", s.fill(forms[form](manifest)))
				s.refused(set)
			}})
		}
	}
	return all
}

func indented(document string) string { return strings.ReplaceAll(document, "\n", "\n  ") }

func withAnnotation(document, annotation string) string {
	if strings.Contains(document, "annotations: {") {
		return strings.Replace(document, "annotations: {", "annotations: {"+annotation+", ", 1)
	}
	return strings.Replace(document, "metadata: {", "metadata: {annotations: {"+annotation+"}, ", 1)
}

// changes are sets that want an object of the victim.
func changes(documents map[string]string) []attack {
	var all []attack
	for _, kind := range slices.Sorted(maps.Keys(documents)) {
		all = append(all,
			attack{"change " + kind, func(s *scene, set string) {
				setOf(s.Env, set, "deployer", s.fill(documents[kind]))
				s.refused(set)
			}},
			attack{"take over " + kind + " that exists", func(s *scene, set string) {
				setOf(s.Env, set, "deployer", s.fill(withAnnotation(documents[kind], "resources.gardener.cloud/ignore: 'true'")))
				s.refused(set)
			}},
			attack{"plan " + kind, func(s *scene, set string) {
				s.Secret(set, s.fill(documents[kind]))
				mr := s.ManagedResource(set, set)
				mr.Annotations = map[string]string{
					"espalier.dev/service-account": "deployer", "espalier.dev/plan": "true", "espalier.dev/plan-values": "true",
				}
				s.Expect(s.Source.Create(s.Ctx, mr)).To(Succeed())
				s.Eventually(func() string { return s.Get(set).Annotations["espalier.dev/planned"] }).WithTimeout(Patience).ShouldNot(BeEmpty())
			}},
			attack{"move an own object to " + kind, func(s *scene, set string) {
				setOf(s.Env, set, "deployer", s.ConfigMap(set, "1"))
				s.AwaitApplied(set, "True/ApplySucceeded")
				s.Secret(set, s.fill(documents[kind]))
				s.refused(set)
			}})
	}
	return all
}

// forgeries are sets whose status lists objects of the victim: attackers who may write the status, or have an object that once was theirs.
func forgeries() []attack {
	var all []attack
	for _, name := range []string{
		"v1/ConfigMap/treasure", "v1/Secret/treasure", "v1/Secret/collectable", "apps/v1/Deployment/web", "v1/Service/web",
	} {
		parts := strings.Split(name, "/")
		ref := func(s *scene) resourcesv1alpha1.ObjectReference {
			at := len(parts) - 2
			return resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{
				APIVersion: strings.Join(parts[:at], "/"), Kind: parts[at], Name: parts[at+1], Namespace: s.victim,
			}}
		}
		all = append(all,
			attack{"prune " + name, func(s *scene, set string) {
				s.forged(set, "deployer", nil, ref(s))
				s.refused(set)
			}},
			attack{"delete with the set " + name, func(s *scene, set string) {
				s.forged(set, "deployer", nil, ref(s))
				s.refused(set)
				s.Expect(s.Source.Delete(s.Ctx, s.Get(set))).To(Succeed())
				s.AwaitCondition(set, "ResourcesHealthy", "False/DeletionPending")
				s.refused(set)
			}},
			attack{"plan the deletion of " + name, func(s *scene, set string) {
				s.forged(set, "deployer", func(mr *resourcesv1alpha1.ManagedResource) {
					mr.Annotations["espalier.dev/plan"], mr.Annotations["espalier.dev/plan-values"] = "true", "true"
				}, ref(s))
				s.Eventually(func() string { return s.Get(set).Annotations["espalier.dev/planned"] }).WithTimeout(Patience).ShouldNot(BeEmpty())
			}},
			attack{"hand over to another class " + name, func(s *scene, set string) {
				s.forged(set, "deployer", nil, ref(s))
				s.refused(set)
				s.Change(set, func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = new("other") })
				s.AwaitCondition(set, "ResourcesApplied", "Progressing/DeletionPending")
				s.refused(set)
			}})
	}
	return append(all,
		attack{"prune an object with the origin of the set", func(s *scene, set string) {
			lure := s.guard(s.lure("config", set))
			s.forged(set, "deployer", nil, reference(lure))
			s.refused(set)
		}},
		attack{"remove finalizers of an object with the origin of the set", func(s *scene, set string) {
			lure := object(s.Env, s.lure("finalized", set))
			s.Expect(s.Target.Create(s.Ctx, lure)).To(Succeed())
			s.Expect(s.Target.Delete(s.Ctx, lure)).To(Succeed())
			s.forged(set, "deployer", nil, reference(lure))
			s.refused(set)
			s.Expect(s.Target.Get(s.Ctx, client.ObjectKeyFromObject(lure), lure)).To(Succeed())
			lure.SetFinalizers(nil)
			s.Expect(s.Target.Update(s.Ctx, lure)).To(Succeed())
		}},
		attack{"delete claims of a StatefulSet with the origin of the set", func(s *scene, set string) {
			lure := s.guard(s.lure("stateful", set))
			s.guard(s.lure("claim", set))
			s.forged(set, "deployer", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.DeletePersistentVolumeClaims = new(true) },
				reference(lure))
			s.refused(set)
		}},
		attack{"release an object with the origin of the set", func(s *scene, set string) {
			lure := s.guard(s.lure("config", set))
			s.forged(set, "deployer", nil, reference(lure))
			s.Secret(set, withAnnotation(s.lure("config", set), "resources.gardener.cloud/mode: Ignore"))
			s.refused(set)
		}})
}

// namings are values of the annotation that are not a ServiceAccount of the namespace.
func namings() []attack {
	var all []attack
	for _, name := range []string{
		"", "system:masters", "kube-system:default", "../kube-system/default", "$V/powerful", "$V:powerful", "powerful", "DEPLOYER", "deployer ",
		"deployer\r\nImpersonate-Group: system:masters", "deployer\nImpersonate-User: admin", "system:serviceaccount:$V:powerful",
		"deployer,powerful",
	} {
		all = append(all, attack{fmt.Sprintf("name ServiceAccount %q", name), func(s *scene, set string) {
			s.forbidden = append(s.forbidden, object(s.Env, s.ConfigMap(set, "1")))
			setOf(s.Env, set, s.fill(name), s.ConfigMap(set, "1"))
			s.refused(set)
		}})
	}
	return all
}

// missingVerbs are sets of ServiceAccounts that lack one verb on ConfigMaps, in every way that needs the verb.
func missingVerbs() []attack {
	closed := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: closed, namespace: $NS}\ndata: {key: mine}"
	return []attack{
		{"change without get", func(s *scene, set string) { setOf(s.Env, set, "no-get", s.fill(closed)); s.refused(set) }},
		{"change without update", func(s *scene, set string) {
			own := s.openConfigMap(set)
			setOf(s.Env, set, "no-update", s.ConfigMap(own.GetName(), "mine"))
			s.refused(set)
		}},
		{"plan without get", func(s *scene, set string) {
			s.Secret(set, s.fill(closed))
			mr := s.ManagedResource(set, set)
			mr.Annotations = map[string]string{
				"espalier.dev/service-account": "no-get", "espalier.dev/plan": "true", "espalier.dev/plan-values": "true",
			}
			s.Expect(s.Source.Create(s.Ctx, mr)).To(Succeed())
			s.Eventually(func() string { return s.Get(set).Annotations["espalier.dev/planned"] }).WithTimeout(Patience).ShouldNot(BeEmpty())
		}},
		{"create without create", func(s *scene, set string) {
			s.forbidden = append(s.forbidden, object(s.Env, s.ConfigMap(set, "1")))
			setOf(s.Env, set, "no-create", s.ConfigMap(set, "1"))
			s.refused(set)
		}},
		{"prune without delete", func(s *scene, set string) {
			setOf(s.Env, set, "no-delete", s.ConfigMap(set, "1"), s.ConfigMap(set+"-b", "1"))
			s.AwaitApplied(set, "True/ApplySucceeded")
			s.keep(s.Live(configMapKind, set+"-b"))
			s.Secret(set, s.ConfigMap(set, "1"))
			s.refused(set)
		}},
		{"delete with the set without delete", func(s *scene, set string) {
			setOf(s.Env, set, "no-delete", s.ConfigMap(set, "1"))
			s.AwaitApplied(set, "True/ApplySucceeded")
			s.keep(s.Live(configMapKind, set))
			s.Expect(s.Source.Delete(s.Ctx, s.Get(set))).To(Succeed())
			s.refused(set)
		}},
		{"replace without delete", func(s *scene, set string) {
			immutable := func(value string) string {
				return s.ConfigMap(set, value, "annotations: {resources.gardener.cloud/delete-on-invalid-update: 'true'}") + "immutable: true\n"
			}
			setOf(s.Env, set, "no-delete", immutable("1"))
			s.AwaitApplied(set, "True/ApplySucceeded")
			s.keep(s.Live(configMapKind, set))
			s.Secret(set, immutable("2"))
			s.refused(set)
		}},
		{"release without patch", func(s *scene, set string) {
			setOf(s.Env, set, "no-patch", s.ConfigMap(set, "1"))
			s.AwaitApplied(set, "True/ApplySucceeded")
			s.keep(s.Live(configMapKind, set))
			s.Secret(set, s.ConfigMap(set, "1", "annotations: {resources.gardener.cloud/mode: Ignore}"))
			s.refused(set)
		}},
		{"repair without get", func(s *scene, set string) {
			setOf(s.Env, set, "no-get", s.ConfigMap(set, "1"))
			s.AwaitApplied(set, "True/ApplySucceeded")
			s.Edit(set, `{"data":{"key":"other","s3cr3t-key":"x"}}`)
			s.refused(set)
			s.Edit(set, `{"data":{"s3cr3t-key":null}}`) // the attackers of other sets may read ConfigMaps of the namespace
		}},
	}
}

// openConfigMap creates a ConfigMap in the namespace of the attackers that must not change.
func (s *scene) openConfigMap(set string) *unstructured.Unstructured {
	s.T.Helper()
	created := object(s.Env, s.ConfigMap(set+"-open", "1"))
	s.Expect(s.Target.Create(s.Ctx, created)).To(Succeed())
	return s.keep(created)
}

func others() []attack {
	return []attack{
		{"a set without a ServiceAccount", func(s *scene, set string) {
			s.forbidden = append(s.forbidden, object(s.Env, s.ConfigMap(set, "1")))
			s.Set(set, s.ConfigMap(set, "1"))
			s.refused(set)
		}},
		{"remove the annotation", func(s *scene, set string) {
			setOf(s.Env, set, "deployer", s.ConfigMap(set, "1"))
			s.AwaitApplied(set, "True/ApplySucceeded")
			s.keep(s.Live(configMapKind, set))
			s.Change(set, func(mr *resourcesv1alpha1.ManagedResource) { delete(mr.Annotations, "espalier.dev/service-account") })
			s.refused(set)
			s.Secret(set, s.ConfigMap(set, "2"))
			s.Expect(s.Source.Delete(s.Ctx, s.Get(set))).To(Succeed())
			s.AwaitCondition(set, "ResourcesApplied", "Progressing/DeletionPending")
		}},
		{"a Secret that the ServiceAccount may not read", func(s *scene, set string) {
			s.BareAccount("blind")
			s.SecretData(set, map[string][]byte{"a.yaml": []byte("{s3cr3t: [")})
			mr := s.ManagedResource(set, set)
			mr.Annotations = map[string]string{"espalier.dev/service-account": "blind"}
			s.Expect(s.Source.Create(s.Ctx, mr)).To(Succeed())
			s.AwaitApplied(set, "False/CannotReadSecret")
			s.refused(set)
		}},
		{"learn from errors whether an object exists", func(s *scene, set string) {
			texts := make([]string, 0, 2)
			for _, name := range []string{"treasure", "nothing"} {
				each := set + "-" + name
				setOf(s.Env, each, "deployer", s.fill("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+", namespace: $V}"))
				s.refused(each)
				message := Message(s.AwaitApplied(each, "False/ApplyFailed"), "ResourcesApplied")
				texts = append(texts, strings.ReplaceAll(message, name, "NAME"))
			}
			s.Expect(texts[0]).To(Equal(texts[1]))
		}},
		{"learn from an owner reference whether an object exists", func(s *scene, set string) {
			if s.Source == s.Target {
				return // the garbage collector of Kubernetes deletes the object
			}
			document := s.ConfigMap(set, "1", "ownerReferences: [{apiVersion: v1, kind: ServiceAccount, name: nothing, uid: 1-2}]")
			setOf(s.Env, set, "deployer", document)
			s.AwaitApplied(set, "True/ApplySucceeded")
			s.Remove(configMapKind, set)
			s.AwaitData(set, "1")
		}},
		{"learn from a condition which set has taken an object", func(s *scene, set string) {
			setOf(s.Env, set, "no-get", s.ConfigMap(set, "1"))
			s.AwaitApplied(set, "True/ApplySucceeded")
			other := s.Get(marker + "-set")
			s.forge(other.Name, append(other.Status.Resources, reference(object(s.Env, s.ConfigMap(set, "1"))))...)
			s.Edit(set, `{"metadata":{"annotations":{"resources.gardener.cloud/origin":"`+s.Namespace+"/"+other.Name+`"}}}`)
			s.refused(set)
			s.Edit(set, `{"metadata":{"annotations":{"resources.gardener.cloud/origin":null}}}`) // others may read it
		}},
		{"the label of the garbage collector on an own object", func(s *scene, set string) {
			setOf(s.Env, set, "no-delete", s.ConfigMap(set, "1", "labels: {resources.gardener.cloud/garbage-collectable-reference: 'true'}"))
			s.AwaitApplied(set, "True/ApplySucceeded")
			s.keep(s.Live(configMapKind, set))
			s.Secret(set, s.ConfigMap(set+"-b", "1"))
			s.refused(set)
		}},
		{"equivalent kinds", func(s *scene, set string) {
			s.forged(set, "deployer", func(mr *resourcesv1alpha1.ManagedResource) {
				mr.Spec.Equivalences = [][]metav1.GroupKind{{{Kind: "ConfigMap"}, {Kind: "Secret"}}}
			}, reference(object(s.Env, s.fill("apiVersion: v1\nkind: Secret\nmetadata: {name: treasure, namespace: $V}"))))
			s.refused(set)
		}},
		{"health of an object of the victim by its status", func(s *scene, set string) {
			s.forged(set, "deployer", func(mr *resourcesv1alpha1.ManagedResource) { mr.Annotations["espalier.dev/kstatus"] = "true" },
				reference(object(s.Env, s.fill("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: $V}"))))
			s.refused(set)
		}},
		{"health of an object after the right to read it was lost", (*scene).unreadableHealth},
	}
}

// annotated are sets with annotations that want an object of the victim.
func annotated(documents attackDocuments) []attack {
	all := []attack{{"learn from a dependency whether a set exists", func(s *scene, set string) {
		texts := make([]string, 0, 2)
		for _, name := range []string{"known", "absent"} {
			if name == "known" {
				other := s.ManagedResource("known")
				other.Namespace, other.Spec.Class = s.victim, new("other")
				s.Expect(s.Source.Create(s.Ctx, other)).To(Succeed())
			}
			each := set + "-" + name
			s.annotatedSet(each, "deployer", map[string]string{"espalier.dev/depends-on": s.victim + "/" + name}, s.ConfigMap(each, "1"))
			s.forbidden = append(s.forbidden, object(s.Env, s.ConfigMap(each, "1")))
			s.refused(each)
			texts = append(texts, strings.ReplaceAll(Message(s.Get(each), "ResourcesApplied"), name, "NAME"))
		}
		s.Expect(texts[0]).To(Equal(texts[1]))
	}}}
	all = append(all, attack{"learn from a deletion which sets depend on the set", func(s *scene, set string) {
		setOf(s.Env, set, "deployer", s.ConfigMap(set, "1"))
		s.AwaitApplied(set, "True/ApplySucceeded")
		other := s.ManagedResource(marker + "-dependent")
		other.Namespace, other.Spec.Class, other.Finalizers = s.victim, new("other"), []string{"example.org/stay"}
		other.Annotations = map[string]string{"espalier.dev/depends-on": s.Namespace + "/" + set}
		s.Expect(s.Source.Create(s.Ctx, other)).To(Succeed())
		s.Expect(s.Source.Delete(s.Ctx, other)).To(Succeed())
		s.Edit(set, `{"metadata":{"finalizers":["example.org/stay"]}}`) // so that the condition says why the set stays
		s.Expect(s.Source.Delete(s.Ctx, s.Get(set))).To(Succeed())
		s.Eventually(func() string { return Message(s.Get(set), "ResourcesApplied") }).WithTimeout(Patience).
			Should(Or(ContainSubstring("waits for the deletion"), ContainSubstring(set)))
		s.verify()
		s.Edit(set, `{"metadata":{"finalizers":null}}`)
		s.AwaitGone(set)
	}})
	for _, name := range slices.Sorted(maps.Keys(documents.Annotations)) {
		all = append(all, attack{name, func(s *scene, set string) {
			annotations := map[string]string{}
			for key, value := range documents.Annotations[name] {
				annotations[key] = s.fill(value)
			}
			s.annotatedSet(set, "deployer", annotations, s.fill(documents.Changes["a ConfigMap"]))
			s.Eventually(func() string {
				mr := s.Get(set)
				return Message(mr, "ResourcesApplied") + mr.Annotations["espalier.dev/planned"]
			}).WithTimeout(Patience).Should(MatchRegexp(`cannot get resource|annotation espalier.dev/|^` + set + "-plan$"))
		}})
	}
	return all
}

// annotatedSet creates a set with annotations that acts as a ServiceAccount.
func (s *scene) annotatedSet(set, account string, annotations map[string]string, documents ...string) {
	s.T.Helper()
	s.Secret(set, documents...)
	mr := s.ManagedResource(set, set)
	mr.Annotations = map[string]string{"espalier.dev/service-account": account}
	maps.Copy(mr.Annotations, annotations)
	s.Expect(s.Source.Create(s.Ctx, mr)).To(Succeed())
}

// formerContent are attempts to have objects restored to content that the controller keeps in its memory.
func formerContent() []attack {
	// pending applies a set, and then gives it content that waits for a set that does not exist any more.
	pending := func(s *scene, set, account string) {
		setOf(s.Env, set+"-base", "deployer", s.ConfigMap(set+"-base", "1"))
		s.AwaitApplied(set+"-base", "True/ApplySucceeded")
		s.annotatedSet(set, account, map[string]string{"espalier.dev/depends-on": set + "-base"}, s.ConfigMap(set, "1"))
		s.AwaitApplied(set, "True/ApplySucceeded")
		s.Expect(s.Source.Delete(s.Ctx, s.Get(set+"-base"))).To(Succeed())
		s.AwaitGone(set + "-base")
		s.Secret(set, s.ConfigMap(set, "2"))
		s.AwaitCondition(set, "ResourcesApplied", "Progressing/DependenciesPending")
	}
	edited := func(s *scene, set string) {
		s.Edit(set, `{"data":{"key":"other"}}`)
		s.keep(s.Live(configMapKind, set))
	}
	return []attack{
		{"restore former content without update", func(s *scene, set string) {
			pending(s, set, "no-update")
			edited(s, set)
			s.refused(set)
		}},
		{"restore former content of another ServiceAccount", func(s *scene, set string) {
			pending(s, set, "no-update")
			s.Change(set, func(mr *resourcesv1alpha1.ManagedResource) { mr.Annotations["espalier.dev/service-account"] = "no-get" })
			edited(s, set)
			s.Secret(set, s.ConfigMap(set, "3"))
			s.AwaitCondition(set, "ResourcesApplied", "Progressing/DependenciesPending")
		}},
	}
}

// thefts are attempts with the token of the controller, without the controller.
func thefts() []attack {
	var all []attack
	for _, as := range []rest.ImpersonationConfig{
		{UserName: "admin"},
		{UserName: "admin", Groups: []string{"system:masters"}},
		{UserName: "system:serviceaccount:kube-system:default"},
		{UserName: "system:serviceaccount:$V:powerful"},
		{UserName: "system:serviceaccount:$NS:deployer", Groups: []string{"system:masters"}},
		{UserName: "system:serviceaccount:$NS:deployer", UID: "1"},
		{UserName: "system:serviceaccount:$NS:deployer", Extra: map[string][]string{"a": {"b"}}},
		{UserName: "system:node:a"},
	} {
		all = append(all, attack{fmt.Sprintf("a stolen token of the controller as %v", as), func(s *scene, _ string) {
			other := as
			other.UserName = s.fill(as.UserName)
			err := s.stolen(other).Get(s.Ctx, client.ObjectKey{Namespace: s.victim, Name: "treasure"}, &corev1.Secret{})
			s.Expect(apierrors.IsForbidden(err)).To(BeTrue())
		}})
	}
	return append(all, attack{"a stolen token of the controller in a target of its own", func(s *scene, _ string) {
		if s.Source == s.Target {
			return // the rights of the source include ConfigMaps of plans
		}
		user := "system:serviceaccount:" + s.Namespace + ":managedresource-controller"
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "escalate", "bind"} {
			for _, resource := range []string{"configmaps", "secrets", "serviceaccounts", "deployments", "roles", "clusterroles", "namespaces"} {
				for _, namespace := range []string{s.victim, s.Namespace} {
					right := &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Resource: resource, Group: groupOf(resource)}
					s.Expect(binary.Allowed(s.Ctx, s.Target, user, right)).To(BeFalse(), "%s %s", verb, resource)
				}
			}
		}
	}})
}

func groupOf(resource string) string {
	switch resource {
	case "deployments":
		return "apps"
	case "roles", "clusterroles":
		return rbacv1.GroupName
	}
	return ""
}

// stolen returns a client with the credential of the controller in the target that acts as another user.
func (s *scene) stolen(as rest.ImpersonationConfig) client.Client {
	s.T.Helper()
	kubeconfig := s.Kubeconfigs.Target
	if kubeconfig == nil {
		kubeconfig = s.Kubeconfigs.Source
	}
	connection, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	s.Expect(err).NotTo(HaveOccurred())
	connection.Impersonate = as
	c, err := client.New(connection, client.Options{Scheme: s.Target.Scheme()})
	s.Expect(err).NotTo(HaveOccurred())
	return c
}

// unreadableHealth makes applied Deployments unhealthy after their ServiceAccount has lost the right to read Deployments.
func (s *scene) unreadableHealth(set string) {
	s.T.Helper()
	s.BareAccount("former")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "test-former"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"get", "list", "watch", "create", "update"}},
	}}
	s.Expect(client.IgnoreAlreadyExists(s.Target.Create(s.Ctx, role))).To(Succeed())
	s.GrantTo(s.Target, "former", role.Name, authorizationv1.ResourceAttributes{Group: "apps", Resource: "deployments", Verb: "create"})
	s.GrantTo(s.Source, "former", "test-team", authorizationv1.ResourceAttributes{Resource: "secrets", Verb: "get"})
	names := []string{set, set + "-2"}
	var deployments []string
	for _, each := range names {
		deployments = append(deployments, deploymentCalled(s.Env, each, "", "paused: true, ", ""))
	}
	setOf(s.Env, set, "former", deployments...)
	s.AwaitApplied(set, "True/ApplySucceeded")
	s.Expect(s.Target.Delete(s.Ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "former-test-former"}})).
		To(Succeed())
	right := &authorizationv1.ResourceAttributes{Namespace: s.Namespace, Group: "apps", Resource: "deployments", Verb: "get"}
	user := "system:serviceaccount:" + s.Namespace + ":former"
	s.Eventually(func() (bool, error) { return binary.Allowed(s.Ctx, s.Target, user, right) }).WithTimeout(Patience).Should(BeFalse())
	s.Eventually(func() string {
		// The controller of Deployments replaces the status again.
		for _, each := range names {
			s.PatchStatus(deploymentKind, each, `{"status":{"observedGeneration":1,"conditions":[{"type":"Available","status":"False",`+
				`"reason":"A","message":"s3cr3t"},{"type":"Progressing","status":"True","reason":"A","message":"s3cr3t"}]}}`)
		}
		return Message(s.Get(set), "ResourcesHealthy")
	}).WithTimeout(Patience).Should(ContainSubstring(`former" cannot get resource "deployments"`))
}

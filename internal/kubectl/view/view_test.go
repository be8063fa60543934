package view_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/gardenstatus"
	"github.com/espalier-dev/espalier/internal/kubectl/view"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var start = time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)

// at returns a time some minutes after the start.
func at(minutes int) metav1.Time {
	return metav1.NewTime(start.Add(time.Duration(minutes) * time.Minute))
}

type modifier = func(*resourcesv1alpha1.ManagedResource)

// set returns a set that is healthy and rolled out, with a ConfigMap, a Deployment and a ClusterRole.
func set(name string, modifiers ...modifier) *resourcesv1alpha1.ManagedResource {
	mr := &resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Generation: 1, CreationTimestamp: at(0), Annotations: map[string]string{}},
		Spec:       resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{{Name: name}}},
		Status: resourcesv1alpha1.ManagedResourceStatus{
			ObservedGeneration: 1, SecretsDataChecksum: new("e3b0c442"),
			Resources: []resourcesv1alpha1.ObjectReference{
				ref("v1", "ConfigMap", "shop", "settings"), ref("apps/v1", "Deployment", "shop", "web"),
				ref("rbac.authorization.k8s.io/v1", "ClusterRole", "", "web"),
			},
		},
	}
	for _, modify := range append([]modifier{
		condition("ResourcesApplied", "True", "ApplySucceeded", "All resources are applied."),
		condition("ResourcesHealthy", "True", "ResourcesHealthy", "All resources are healthy."),
		condition("ResourcesProgressing", "False", "ResourcesRolledOut", "All resources have been fully rolled out."),
	}, modifiers...) {
		modify(mr)
	}
	return mr
}

func ref(apiVersion, kind, namespace, name string) resourcesv1alpha1.ObjectReference {
	return resourcesv1alpha1.ObjectReference{
		ObjectReference: corev1.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name},
	}
}

func condition(kind, status, reason, message string) modifier {
	return func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Status.Conditions = corev1beta1.MergeConditions(mr.Status.Conditions, corev1beta1.Condition{
			Type: corev1beta1.ConditionType(kind), Status: corev1beta1.ConditionStatus(status), Reason: reason, Message: message,
			LastTransitionTime: at(1), LastUpdateTime: at(2),
		})
	}
}

func annotated(key, value string) modifier {
	return func(mr *resourcesv1alpha1.ManagedResource) { mr.Annotations[key] = value }
}

func deleted(mr *resourcesv1alpha1.ManagedResource) { mr.DeletionTimestamp = new(at(3)) }

func TestStateOfSets(t *testing.T) {
	pending := condition("ResourcesApplied", "Progressing", "DeletionPending", "ConfigMap shop/old still exists.")
	for name, tc := range map[string]struct {
		change modifier
		want   string // state and problem
	}{
		"deleted": {
			change: func(mr *resourcesv1alpha1.ManagedResource) { deleted(mr); pending(mr) },
			want:   "Deleting: DeletionPending: ConfigMap shop/old still exists.",
		},
		"deleted a moment ago": {change: deleted, want: "Deleting: "},
		"paused": {
			change: annotated("resources.gardener.cloud/ignore", "1"),
			want:   "Paused: annotation resources.gardener.cloud/ignore=1",
		},
		"not paused": {change: annotated("resources.gardener.cloud/ignore", "no"), want: "Healthy: "},
		"waiting for state": {
			change: annotated("gardener.cloud/operation", "wait-for-state"),
			want:   "Paused: annotation gardener.cloud/operation=wait-for-state",
		},
		"only planned": {change: annotated("espalier.dev/plan", "maybe"), want: "PlanOnly: annotation espalier.dev/plan=maybe"},
		"not planned":  {change: annotated("espalier.dev/plan", "false"), want: "Healthy: "},
		"not approved": {
			change: func(mr *resourcesv1alpha1.ManagedResource) {
				mr.Annotations = map[string]string{"espalier.dev/approved": "e3b0c442", "espalier.dev/planned": "a-plan"}
			},
			want: "PlanOnly: the content of the sources is not approved: the plan shows the checksum for the annotation espalier.dev/approved",
		},
		"approved and not applied": {
			change: annotated("espalier.dev/approved", "12ab"),
			want:   "Applying: the approved content is not applied: annotation espalier.dev/approved=12ab",
		},
		"approved and applied": {change: annotated("espalier.dev/approved", "e3b0c442"), want: "Healthy: "},
		"without a controller": {
			change: func(mr *resourcesv1alpha1.ManagedResource) { mr.Status.Conditions = nil },
			want: `Pending: no controller has acted on it: one must run for spec.class "resources" and be allowed to act in the namespace ` +
				"(label espalier.dev/managedresources=allowed)",
		},
		"failed":        {change: condition("ResourcesApplied", "False", "ApplyFailed", "no."), want: "Failed: ApplyFailed: no."},
		"being applied": {change: condition("ResourcesApplied", "Progressing", "ApplyProgressing", "!"), want: "Applying: ApplyProgressing: !"},
		"a newer spec": {
			change: func(mr *resourcesv1alpha1.ManagedResource) { mr.Generation = 2 },
			want:   "Applying: generation 2 of the spec is not applied yet",
		},
		"unhealthy":   {change: condition("ResourcesHealthy", "False", "PodMissing", "gone."), want: "Unhealthy: PodMissing: gone."},
		"not checked": {change: condition("ResourcesHealthy", "Unknown", "ChecksPending", "soon."), want: "Checking: ChecksPending: soon."},
		"rolling out": {change: condition("ResourcesProgressing", "True", "PodProgressing", "1/2"), want: "RollingOut: PodProgressing: 1/2"},
		"healthy":     {change: func(*resourcesv1alpha1.ManagedResource) {}, want: "Healthy: "},
		"healthy with other fields": {
			change: condition("ResourcesApplied", "True", "ApplySucceeded", "All resources are applied. But."),
			want:   "Healthy: ApplySucceeded: All resources are applied. But.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := view.SetOf(set("a", tc.change))
			NewWithT(t).Expect(string(got.State) + ": " + got.Problem).To(Equal(tc.want))
		})
	}
}

func TestGoalsFollowEachOther(t *testing.T) {
	for state, want := range map[view.State][]view.Goal{
		"Healthy": {"applied", "healthy", "rolled-out"}, "RollingOut": {"applied", "healthy"}, "Unhealthy": {"applied"}, "Checking": {"applied"},
		"Applying": nil, "Failed": nil, "Paused": nil, "PlanOnly": nil, "Deleting": nil, "Pending": nil,
	} {
		var reached []view.Goal
		for _, goal := range []view.Goal{"applied", "healthy", "rolled-out", "deleted"} {
			if (view.Set{State: state}).Reached(goal) {
				reached = append(reached, goal)
			}
		}
		NewWithT(t).Expect(reached).To(Equal(want), "%s", state)
	}
	_, err := view.ParseGoal("done")
	NewWithT(t).Expect(err).To(MatchError(`--for "done": want a list of applied, healthy, rolled-out, or deleted`))
}

func object(text string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		panic(err)
	}
	return o
}

// live returns the metadata of an object that a set has applied, and that other programs have changed.
func live(origin string) *metav1.PartialObjectMetadata {
	entry := func(manager string, minutes int, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: "Update", Time: new(at(minutes)), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{
			"resources.gardener.cloud/origin": origin, "kubectl.kubernetes.io/last-applied-configuration": "swordfish",
		},
		ManagedFields: []metav1.ManagedFieldsEntry{
			entry("espalier", 1, `{"f:data":{"f:a":{}}}`),
			entry("kubectl-edit", 5, `{"f:data":{"f:b":{},"f:c":{}},"f:metadata":{"f:finalizers":{"v:\"swordfish\"":{}}}}`),
			entry("other", 7, `{"f:data":{"f:1":{},"f:2":{},"f:3":{},"f:4":{},"f:5":{},"f:6":{},"f:7":{},"f:8":{},"f:9":{}}}`),
		},
	}}
}

func event(minutes int, kind, reason, note string, related *corev1.ObjectReference) corev1.Event {
	return corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: "ManagedResource", Namespace: "shop", Name: "web"},
		Type:           kind, Reason: reason, Message: note, Related: related, EventTime: metav1.NewMicroTime(at(minutes).Time),
	}
}

// repaired returns Events about a ConfigMap: a repair that happened three times, and a pause.
func repaired() []corev1.Event {
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings"}
	series := event(4, "Normal", "DriftRepaired", `Restored v1 ConfigMap shop/settings, changed by "kubectl-edit"`, about)
	series.Series = &corev1.EventSeries{Count: 3, LastObservedTime: metav1.NewMicroTime(at(6).Time)}
	return []corev1.Event{
		event(7, "Warning", "DriftRepairPaused",
			`Repairs of v1 ConfigMap shop/settings pause for 10s: field manager "other" changes it again and again`, about),
		series,
		event(5, "Normal", "DriftRepaired", "Recreated v1 Pod shop/other\x1b[2J",
			&corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "other"}),
	}
}

func plan(t *testing.T) *view.Plan {
	t.Helper()
	p, err := view.PlanOf(&corev1.ConfigMap{Data: map[string]string{
		"plan.txt": "Plan for ManagedResource shop/web\n1 to change, 2 unchanged\n\nchange v1 ConfigMap shop/settings\n" +
			"  ~ data.a: changed\n  + data.b: \"1\"\n",
		"plan.json": `{"version": "v1", "managedResource": {"generation": 1}, "secretsDataChecksum": "12ab", "objects": [
			{"action": "change", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "settings", "fields": [{"path": "data.a"}],
				"note": "why"}]}`,
	}})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return p
}

// configMap is the object that the tests of "why" are about.
var configMap = view.ID{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings"}

func TestWhatHappensToEdits(t *testing.T) {
	ignored := func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Status.Resources[0].Annotations = map[string]string{"resources.gardener.cloud/ignore": "true"}
	}
	sets := func(all ...*resourcesv1alpha1.ManagedResource) []resourcesv1alpha1.ManagedResource {
		var list []resourcesv1alpha1.ManagedResource
		for _, each := range all {
			list = append(list, *each)
		}
		return list
	}
	for name, tc := range map[string]struct {
		facts       view.Facts
		edits       string
		wouldChange string
	}{
		"a set that is applied": {
			facts: view.Facts{Live: live("shop/web"), Sets: sets(set("web"))},
			edits: "are undone at once: the set keeps the object as its manifest says", wouldChange: "nothing: the set is applied",
		},
		"an object that does not exist": {
			facts: view.Facts{Sets: sets(set("web", condition("ResourcesApplied", "False", "ApplyFailed", "quota.")))},
			edits: "are undone at once: the set keeps the object as its manifest says", wouldChange: "ApplyFailed: quota.",
		},
		"repairs that pause": {
			facts: view.Facts{Live: live("shop/web"), Sets: sets(set("web")), Events: repaired()},
			edits: `are undone after a pause: Repairs of v1 ConfigMap shop/settings pause for 10s: field manager "other" changes it again and again`,

			wouldChange: "nothing: the set is applied",
		},
		"a manifest with ignore": {
			facts: view.Facts{Sets: sets(set("web", ignored))},
			edits: "stay: the annotation resources.gardener.cloud/ignore of its manifest says that the object is created once and never " +
				"changed",
			wouldChange: "nothing: the set is applied",
		},
		"a set without its Secret": {
			facts:       view.Facts{Sets: sets(set("web", condition("ResourcesApplied", "False", "CannotReadSecret", "not found.")))},
			edits:       "stay until the controller can read the manifests: not found.",
			wouldChange: "CannotReadSecret: not found.",
		},
		"a set that is planned": {
			facts: view.Facts{Sets: sets(set("web", annotated("espalier.dev/plan", "true"))), Plan: plan(t)},
			edits: "stay until the set is applied (annotation espalier.dev/plan=true)", wouldChange: "plan: change data.a (why)",
		},
		"a set whose drift is reported": {
			facts:       view.Facts{Sets: sets(set("web", annotated("espalier.dev/drift", "report")))},
			edits:       "stay until the manifest changes, and are reported (annotation espalier.dev/drift=report)",
			wouldChange: "nothing: the set is applied",
		},
		"a set that is deleted": {
			facts: view.Facts{Sets: sets(set("web", deleted))},
			edits: "are lost: the set is being deleted, and its objects with it", wouldChange: "nothing: the set is applied",
		},
		"an origin that cannot be read": {
			facts: view.Facts{Live: live("other/db"), Sets: sets(set("web"))},
			edits: "not known: the annotation resources.gardener.cloud/origin of the object names set other/db, which does not exist in the " +
				"source cluster or which you may not read",
		},
		"an object of no set": {
			facts: view.Facts{Live: live("")},
			edits: "stay: no set that you may read has the object, so Espalier does not change it",
		},
		"nothing of that name": {edits: "not known: no set that you may read lists the object in its status"},
		"a set that does not list it": {
			facts: view.Facts{
				Live: live("shop/web"), Sets: sets(set("web", func(mr *resourcesv1alpha1.ManagedResource) { mr.Status.Resources = nil })),
			},
			edits:       "stay: the annotation of the object names the set, whose status does not list the object",
			wouldChange: "nothing: the set is applied",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			tc.facts.Object = configMap
			got := view.WhyOf(&tc.facts)
			g.Expect(got.Edits).To(Equal(tc.edits))
			g.Expect(got.WouldChange).To(Equal(tc.wouldChange))
		})
	}
}

// The golden files show each answer as text for a terminal, as wide text, and as JSON.
func TestScreens(t *testing.T) {
	paused := set("paused", annotated("resources.gardener.cloud/ignore", "true"))
	failed := set("db", condition("ResourcesApplied", "False", "ApplyFailed",
		"Could not apply all of the 12 new resources, because each of them was refused by the API server.\nAnd more"))
	garden := &operatorv1alpha1.Garden{ObjectMeta: metav1.ObjectMeta{Name: "orchards", Generation: 2}, Status: operatorv1alpha1.GardenStatus{
		ObservedGeneration: 1,
		LastOperation: &operatorv1alpha1.LastOperation{
			Type: "Reconcile", State: "Error", Progress: 25, Description: "etcds failed", LastUpdateTime: at(3),
		},
		Conditions: []corev1beta1.Condition{
			{Type: "RuntimeComponentsHealthy", Status: "False", Reason: "No", Message: "not yet", LastTransitionTime: at(1)},
		},
		Tasks: []operatorv1alpha1.Task{
			{Name: "authorities", State: "Succeeded", Since: at(1)},
			{Name: "old keys", State: "Skipped", Since: at(1)},
			{Name: "etcds", State: "Failed", Since: at(2), WaitingFor: "refused"},
			{Name: "API server", State: "Pending", Since: at(1)},
		},
	}}
	other := set("other", func(mr *resourcesv1alpha1.ManagedResource) { mr.CreationTimestamp = at(1) })
	secret := metav1.PartialObjectMetadata{ObjectMeta: live("").ObjectMeta}
	secret.Name, secret.ManagedFields = "web", secret.ManagedFields[1:2]
	for name, answer := range map[string]view.Answer{
		"status":       view.Sets{Sets: []view.Set{view.SetOf(failed), view.SetOf(paused), view.SetOf(set("web"))}},
		"status-empty": view.Sets{Sets: []view.Set{}},
		"tree": view.TreeOf(set("web"), []view.Observed{
			{Object: object("{apiVersion: v1, kind: ConfigMap}")},
			{Object: object("{apiVersion: apps/v1, kind: Deployment, metadata: {generation: 2}, status: {observedGeneration: 1}}")},
			{Unreadable: "you may not read it"},
		}, []resourcesv1alpha1.ManagedResource{*set("cart", annotated("espalier.dev/depends-on", "db,web")), *other}, []string{"sets of others"}),
		"tree-missing": view.TreeOf(set("web"), []view.Observed{
			{Missing: true},
			{Object: object("{apiVersion: apps/v1, kind: Deployment, metadata: {deletionTimestamp: '2026-05-01T10:00:00Z', finalizers: [a/b]}}")},
			{Object: object("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {annotations: {" +
				"resources.gardener.cloud/keep-object: 'true'}}}")},
		}, nil, nil),
		"tree-kept": view.TreeOf(set("web", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.KeepObjects = new(true) }), []view.Observed{
			{Missing: true}, {Unreadable: "you may not read it"}, {Unreadable: "you may not read it"},
		}, nil, nil),
		"why": view.WhyOf(&view.Facts{
			Object: configMap, Live: live("shop/web"), Sets: []resourcesv1alpha1.ManagedResource{*other, *set("web")}, Events: repaired(),
			Remarks: []string{"the plan"},
		}),
		"why-paused": view.WhyOf(&view.Facts{
			Object: configMap, Unreadable: "you may not read it", Sets: []resourcesv1alpha1.ManagedResource{*paused},
		}),
		"plan":         plan(t),
		"events":       view.EventsOf(repaired()),
		"events-empty": view.EventsOf(nil),
		"history": view.HistoryOf(
			set("web", deleted), []metav1.PartialObjectMetadata{secret}, repaired(), []string{"Secret b: you may not read it"},
		),
		"garden-status": view.Gardens{Gardens: []gardenstatus.Screen{
			gardenstatus.Of(garden, gardenstatus.Facts{}), gardenstatus.Of(&operatorv1alpha1.Garden{}, gardenstatus.Facts{}),
		}},
		"garden-tasks": view.TasksOf(garden),
		"confirm":      confirmation(t, set("web", suspended)),
		"confirmed":    confirmation(t, set("web", suspended, annotated("espalier.dev/confirm-deletion", "12ab"))),
		"approve":      approval(t, set("web")),
		"approved":     approval(t, set("web", annotated("espalier.dev/approved", "12ab"))),
		"gone":         view.Gone{Set: "shop/web"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			text := &view.Printer{Colours: true, Now: at(10).Time}
			answer.Text(text)
			wide := &view.Printer{Wide: true, Now: at(10).Time}
			answer.Text(wide)
			document, err := json.MarshalIndent(answer, "", "  ")
			g.Expect(err).NotTo(HaveOccurred())
			got := text.String() + "\n# wide\n" + wide.String() + "\n# json\n" + string(document) + "\n"
			g.Expect(got).NotTo(ContainSubstring("swordfish"))

			file := filepath.Join("testdata", name+".txt")
			if *update {
				g.Expect(os.WriteFile(file, []byte(got), 0o600)).To(Succeed())
			}
			want, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(string(want)))
		})
	}
}

// suspended is a condition as in the tests of the controller.
func suspended(mr *resourcesv1alpha1.ManagedResource) {
	condition("ResourcesApplied", "False", "PruningSuspended",
		`Pruning is suspended: 12 objects would go. Confirm with the annotation espalier.dev/confirm-deletion: "12ab". More`)(mr)
}

func confirmation(t *testing.T, mr *resourcesv1alpha1.ManagedResource) view.Confirmation {
	t.Helper()
	found, isSuspended := view.ConfirmationOf(mr)
	NewWithT(t).Expect(isSuspended).To(BeTrue())
	return found
}

func approval(t *testing.T, mr *resourcesv1alpha1.ManagedResource) view.Approval {
	t.Helper()
	found, err := view.ApprovalOf(mr, plan(t))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return found
}

func TestPlansThatCannotBeApproved(t *testing.T) {
	g := NewWithT(t)
	_, err := view.ApprovalOf(set("web", func(mr *resourcesv1alpha1.ManagedResource) { mr.Generation = 2 }), plan(t))
	g.Expect(err).To(MatchError("the plan of ManagedResource shop/web is of generation 1, and the specification has generation 2: " +
		"wait until the controller has published a new plan"))
	unreadable, err := view.PlanOf(&corev1.ConfigMap{Data: map[string]string{"plan.json": `{"problem": "no Secret"}`}})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = view.ApprovalOf(set("web"), unreadable)
	g.Expect(err).To(MatchError("the plan of ManagedResource shop/web has no content to approve: no Secret"))
}

func TestAPlanThatIsNone(t *testing.T) {
	_, err := view.PlanOf(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-plan"}})
	NewWithT(t).Expect(err).To(MatchError(HavePrefix("read key plan.json of ConfigMap shop/web-plan: ")))
}

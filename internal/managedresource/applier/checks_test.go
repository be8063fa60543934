package applier

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managedresource/engine"
)

const (
	ownFinalizer   = "resources.gardener.cloud/gardener-resource-manager"
	otherFinalizer = "resources.gardener.cloud/gardener-resource-manager-other"
)

func set1(modify ...func(*resourcesv1alpha1.ManagedResource)) *resourcesv1alpha1.ManagedResource {
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mr", Generation: 1}}
	for _, each := range modify {
		each(mr)
	}
	return mr
}

func class(name string) func(*resourcesv1alpha1.ManagedResource) {
	return func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = &name }
}

func finalizers(names ...string) func(*resourcesv1alpha1.ManagedResource) {
	return func(mr *resourcesv1alpha1.ManagedResource) { mr.Finalizers = names }
}

func annotated(key, value string) func(*resourcesv1alpha1.ManagedResource) {
	return func(mr *resourcesv1alpha1.ManagedResource) { mr.Annotations = map[string]string{key: value} }
}

func deleting(mr *resourcesv1alpha1.ManagedResource) { mr.DeletionTimestamp = &metav1.Time{Time: noon} }

func generation(n int64) func(*resourcesv1alpha1.ManagedResource) {
	return func(mr *resourcesv1alpha1.ManagedResource) { mr.Generation = n }
}

func healthy(status corev1beta1.ConditionStatus) func(*resourcesv1alpha1.ManagedResource) {
	return func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Status.Conditions = []corev1beta1.Condition{{Type: "ResourcesHealthy", Status: status}}
	}
}

func TestNextStep(t *testing.T) {
	for name, tc := range map[string]struct {
		class Class
		mr    *resourcesv1alpha1.ManagedResource
		want  step
	}{
		"a new set of the default class": {class: "resources", mr: set1(), want: stepApply},
		"an empty class is the default":  {class: "resources", mr: set1(class("")), want: stepApply},
		"its own set":                    {class: "resources", mr: set1(finalizers(ownFinalizer)), want: stepApply},
		"its own set with a second instance's finalizer": {
			class: "resources", mr: set1(finalizers(ownFinalizer, otherFinalizer)),
			want: stepApply,
		},
		"handed over to another class": {
			class: "resources", mr: set1(class("other"), finalizers(ownFinalizer)),
			want: stepRemove,
		},
		"waits for another instance":       {class: "resources", mr: set1(finalizers(otherFinalizer)), want: stepNone},
		"another class":                    {class: "resources", mr: set1(class("other")), want: stepNone},
		"a named class":                    {class: "other", mr: set1(class("other")), want: stepApply},
		"the all-serving class serves any": {class: "*", mr: set1(class("whatever")), want: stepApply},
		"the all-serving class uses the default's finalizer": {
			class: "*", mr: set1(class("whatever"), finalizers(ownFinalizer)),
			want: stepApply,
		},
		"deleted":                      {class: "resources", mr: set1(deleting, finalizers(ownFinalizer)), want: stepRemove},
		"deleted before it was served": {class: "resources", mr: set1(deleting), want: stepNone},
		"deleted while another instance serves it": {class: "resources", mr: set1(deleting, finalizers(otherFinalizer)), want: stepNone},
		"ignored": {
			class: "resources", mr: set1(annotated("resources.gardener.cloud/ignore", "T")),
			want: stepIgnore,
		},
		"an untrue ignore": {
			class: "resources", mr: set1(annotated("resources.gardener.cloud/ignore", "yes")),
			want: stepApply,
		},
		"ignored is not handed over": {
			class: "resources",
			mr:    set1(class("other"), finalizers(ownFinalizer), annotated("resources.gardener.cloud/ignore", "true")), want: stepIgnore,
		},
		"ignored and deleted": {
			class: "resources",
			mr:    set1(deleting, finalizers(ownFinalizer), annotated("resources.gardener.cloud/ignore", "true")), want: stepRemove,
		},
		"ignored, of another class": {
			class: "resources",
			mr:    set1(class("other"), annotated("resources.gardener.cloud/ignore", "true")), want: stepNone,
		},
		"waits for a restored state": {
			class: "resources",
			mr:    set1(finalizers(ownFinalizer), annotated("gardener.cloud/operation", "wait-for-state")), want: stepWait,
		},
		"restored": {
			class: "resources", mr: set1(annotated("gardener.cloud/operation", "restore")),
			want: stepApply,
		},
		"planned": {class: "resources", mr: set1(annotated("espalier.dev/plan", "true")), want: stepPlan},
		"planned after it was applied": {
			class: "resources", mr: set1(finalizers(ownFinalizer), annotated("espalier.dev/plan", "1")),
			want: stepPlan,
		},
		"planned by an invalid value": {class: "resources", mr: set1(annotated("espalier.dev/plan", "yes")), want: stepPlan},
		"not planned":                 {class: "resources", mr: set1(annotated("espalier.dev/plan", "false")), want: stepApply},
		"planned and handed over": {
			class: "resources",
			mr:    set1(class("other"), finalizers(ownFinalizer), annotated("espalier.dev/plan", "true")), want: stepPlan,
		},
		"planned while another instance serves it": {
			class: "resources",
			mr:    set1(finalizers(otherFinalizer), annotated("espalier.dev/plan", "true")), want: stepNone,
		},
		"planned, of another class": {
			class: "resources", mr: set1(class("other"), annotated("espalier.dev/plan", "true")),
			want: stepNone,
		},
		"planned and deleted": {
			class: "resources",
			mr:    set1(deleting, finalizers(ownFinalizer), annotated("espalier.dev/plan", "true")), want: stepRemove,
		},
		"planned and deleted before it was served": {
			class: "resources", mr: set1(deleting, annotated("espalier.dev/plan", "true")),
			want: stepNone,
		},
		"planned and ignored": {class: "resources", mr: set1(func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Annotations = map[string]string{"espalier.dev/plan": "true", "resources.gardener.cloud/ignore": "true"}
		}), want: stepIgnore},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(tc.class.next(tc.mr)).To(Equal(tc.want)) })
	}
}

func TestPlanOfTheNextStep(t *testing.T) {
	keptBySeed := finalizers("resources.gardener.cloud/gardener-resource-manager-seed")
	for name, tc := range map[string]struct {
		class Class
		mr    *resourcesv1alpha1.ManagedResource
		want  setPlan
	}{
		"it is applied": {class: "resources", mr: set1(finalizers(ownFinalizer)), want: setPlan{}},
		"it is handed over": {
			class: "resources", mr: set1(class("other"), finalizers(ownFinalizer)),
			want: setPlan{removesSet: true},
		},
		"it is deleted": {
			class: "resources", mr: set1(deleting, finalizers(ownFinalizer)),
			want: setPlan{removesSet: true},
		},
		"it is deleted, and of another instance": {
			class: "resources", mr: set1(deleting, keptBySeed),
			want: setPlan{problem: "the set is being deleted, and it has the finalizer of another controller or none"},
		},
		"it is ignored": {
			class: "resources", mr: set1(annotated("resources.gardener.cloud/ignore", "true")),
			want: setPlan{problem: "the set is ignored: it has the annotation resources.gardener.cloud/ignore"},
		},
		"it waits": {
			class: "resources", mr: set1(annotated("gardener.cloud/operation", "wait-for-state")),
			want: setPlan{problem: "the set waits: it has the annotation gardener.cloud/operation=wait-for-state"},
		},
		"it is of another class": {
			class: "resources", mr: set1(class("seed")),
			want: setPlan{problem: `the set is of class "seed", and this is about the controller of class "resources"`},
		},
		"it comes from another class": {class: "resources", mr: set1(keptBySeed), want: setPlan{
			problem: "another controller holds the set and lets go of it first, which deletes its objects unless spec.keepObjects is set; then " +
				"they are made anew",
		}},
		"it is planned": {
			class: "resources", mr: set1(annotated("espalier.dev/plan", "true")),
			want: setPlan{remark: "the set has the annotation espalier.dev/plan: nothing of this is done while it is there"},
		},
		"it is planned and handed over": {class: "resources", mr: set1(class("other"), finalizers(ownFinalizer),
			annotated("espalier.dev/plan", "true")), want: setPlan{
			removesSet: true,
			remark:     "the set has the annotation espalier.dev/plan: nothing of this is done while it is there",
		}},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(tc.class.planStep(tc.mr)).To(Equal(tc.want)) })
	}
}

// A set whose class has changed may still have a plan that the controller of the first class published.
func TestEventsOfSetsThatMoveToAnotherInstance(t *testing.T) {
	g := NewWithT(t)
	r := &Reconciler{Planner: Planner{Settings: Settings{Class: "resources"}}}
	planned := annotated("espalier.dev/planned", "mr-plan")
	g.Expect(r.isRelevantFor(set1(planned), set1(planned, class("other")))).To(BeTrue())
	g.Expect(r.isRelevantFor(set1(), set1(class("other")))).To(BeFalse())
	g.Expect(r.isRelevantFor(set1(planned, class("other")), set1(planned, class("other")))).To(BeFalse())
	g.Expect(r.isRelevantFor(nil, set1(planned, class("other")))).To(BeFalse())
}

func TestRelevantUpdates(t *testing.T) {
	for name, tc := range map[string]struct {
		old, next *resourcesv1alpha1.ManagedResource
		want      bool
	}{
		"nothing but status":           {old: set1(), next: set1(), want: false},
		"the generation":               {old: set1(), next: set1(generation(2)), want: true},
		"deletion":                     {old: set1(), next: set1(deleting), want: true},
		"asked to reconcile":           {old: set1(), next: set1(annotated("gardener.cloud/operation", "reconcile")), want: true},
		"asked to wait":                {old: set1(), next: set1(annotated("gardener.cloud/operation", "wait-for-state")), want: false},
		"became unhealthy":             {old: set1(healthy("True")), next: set1(healthy("False")), want: true},
		"unhealthy for the first time": {old: set1(), next: set1(healthy("False")), want: true},
		"from unknown to unhealthy":    {old: set1(healthy("Unknown")), next: set1(healthy("False")), want: false},
		"became healthy":               {old: set1(healthy("False")), next: set1(healthy("True")), want: false},
		"ignored":                      {old: set1(), next: set1(annotated("resources.gardener.cloud/ignore", "true")), want: true},
		"no longer ignored":            {old: set1(annotated("resources.gardener.cloud/ignore", "true")), next: set1(), want: true},
		"changed while ignored": {
			old:  set1(annotated("resources.gardener.cloud/ignore", "true")),
			next: set1(annotated("resources.gardener.cloud/ignore", "true"), generation(2)), want: false,
		},
		"deleted while ignored": {
			old:  set1(annotated("resources.gardener.cloud/ignore", "true")),
			next: set1(annotated("resources.gardener.cloud/ignore", "true"), deleting), want: true,
		},
		"another instance removed its finalizer": {old: set1(finalizers(otherFinalizer)), next: set1(), want: true},
		"planned":                                {old: set1(), next: set1(annotated("espalier.dev/plan", "")), want: true},
		"planned with another value": {
			old:  set1(annotated("espalier.dev/plan", "true")),
			next: set1(annotated("espalier.dev/plan", "false")), want: true,
		},
		"no longer planned": {old: set1(annotated("espalier.dev/plan", "true")), next: set1(), want: true},
		"still planned": {
			old:  set1(annotated("espalier.dev/plan", "true")),
			next: set1(annotated("espalier.dev/plan", "true")), want: false,
		},
		"another annotation": {old: set1(), next: set1(annotated("a", "b")), want: false},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(relevant(tc.old, tc.next)).To(Equal(tc.want)) })
	}
}

func TestPanicBecomesAnErrorAndItsStackIsLogged(t *testing.T) {
	g := NewWithT(t)
	var lines []string
	logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	err := engine.Recover(log.IntoContext(t.Context(), logger), panicking)
	g.Expect(err).To(MatchError("panic: no reason"))
	g.Expect(lines).To(ConsistOf(ContainSubstring("Recovered from a panic")))
	g.Expect(strings.Join(lines, "")).To(ContainSubstring("applier.panicking("))
}

func panicking() error { panic("no reason") }

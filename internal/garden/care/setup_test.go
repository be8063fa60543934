package care

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func garden(kind operatorv1alpha1.LastOperationType, state operatorv1alpha1.LastOperationState) *operatorv1alpha1.Garden {
	g := &operatorv1alpha1.Garden{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	if kind != "" {
		g.Status.LastOperation = &operatorv1alpha1.LastOperation{Type: kind, State: state}
	}
	return g
}

func TestTriggersByGardens(t *testing.T) {
	for sentence, tc := range map[string]struct {
		old, updated *operatorv1alpha1.Garden
		want         bool
	}{
		"a success":                         {old: garden("Reconcile", "Processing"), updated: garden("Reconcile", "Succeeded"), want: true},
		"an error":                          {old: garden("Reconcile", "Processing"), updated: garden("Reconcile", "Error")},
		"a success that was one already":    {old: garden("Reconcile", "Succeeded"), updated: garden("Reconcile", "Succeeded")},
		"a success after an error":          {old: garden("Reconcile", "Error"), updated: garden("Reconcile", "Succeeded")},
		"the begin of an operation":         {old: garden("", ""), updated: garden("Reconcile", "Processing")},
		"a success without begin":           {old: garden("", ""), updated: garden("Reconcile", "Succeeded")},
		"no operation any more":             {old: garden("Reconcile", "Processing"), updated: garden("", "")},
		"a deletion":                        {old: garden("Delete", "Processing"), updated: garden("Delete", "Succeeded")},
		"a deletion after a reconciliation": {old: garden("Reconcile", "Processing"), updated: garden("Delete", "Succeeded")},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(gardens().Update(event.UpdateEvent{ObjectOld: tc.old, ObjectNew: tc.updated})).To(Equal(tc.want))
		})
	}
	g := NewWithT(t)
	g.Expect(gardens().Create(event.CreateEvent{Object: garden("", "")})).To(BeTrue())
	g.Expect(gardens().Delete(event.DeleteEvent{Object: garden("", "")})).To(BeFalse())
	g.Expect(gardens().Generic(event.GenericEvent{Object: garden("", "")})).To(BeFalse())
}

func TestTriggersByManagedResources(t *testing.T) {
	for sentence, tc := range map[string]struct {
		change func(*resourcesv1alpha1.ManagedResource)
		want   bool
	}{
		"nothing":             {change: func(*resourcesv1alpha1.ManagedResource) {}},
		"metadata":            {change: func(mr *resourcesv1alpha1.ManagedResource) { mr.Labels = map[string]string{"a": "b"} }},
		"times":               {change: func(mr *resourcesv1alpha1.ManagedResource) { mr.Status.Conditions[0].LastUpdateTime = metav1.Now() }},
		"the order":           {change: func(mr *resourcesv1alpha1.ManagedResource) { c := mr.Status.Conditions; c[0], c[1] = c[1], c[0] }},
		"a foreign condition": {change: func(mr *resourcesv1alpha1.ManagedResource) { mr.Status.Conditions[0].Type = "Foreign" }, want: true},
		"the status":          {change: setCondition("ResourcesApplied", "False"), want: true},
		"the reason":          {change: func(mr *resourcesv1alpha1.ManagedResource) { mr.Status.Conditions[1].Reason = "b" }, want: true},
		"the message":         {change: func(mr *resourcesv1alpha1.ManagedResource) { mr.Status.Conditions[2].Message = "b" }, want: true},
		"a condition that goes": {
			change: func(mr *resourcesv1alpha1.ManagedResource) { mr.Status.Conditions = mr.Status.Conditions[:2] }, want: true,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			old := managedResource("garden", "a")
			updated := old.DeepCopy()
			tc.change(updated)
			NewWithT(t).Expect(changed(relevant).Update(event.UpdateEvent{ObjectOld: &old, ObjectNew: updated})).To(Equal(tc.want))
		})
	}
	g := NewWithT(t)
	mr := managedResource("garden", "a")
	g.Expect(changed(relevant).Create(event.CreateEvent{Object: &mr})).To(BeTrue())
	g.Expect(changed(relevant).Delete(event.DeleteEvent{Object: &mr})).To(BeTrue())
	g.Expect(changed(relevant).Generic(event.GenericEvent{Object: &mr})).To(BeFalse())
}

func TestManagedResourcesBelongToTheFirstGarden(t *testing.T) {
	scheme := runtime.NewScheme()
	NewWithT(t).Expect(operatorv1alpha1.AddToScheme(scheme)).To(Succeed())
	for sentence, tc := range map[string]struct {
		gardens []client.Object
		want    int
	}{
		"no Garden":                    {},
		"a new Garden":                 {gardens: []client.Object{garden("", "")}, want: 1},
		"a Garden that is reconciled":  {gardens: []client.Object{garden("Reconcile", "Succeeded")}, want: 1},
		"a Garden that is in progress": {gardens: []client.Object{garden("Reconcile", "Processing")}},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.gardens...).Build()}
			requests := r.gardenOf(t.Context(), nil)
			g.Expect(requests).To(HaveLen(tc.want))
			for _, each := range requests {
				g.Expect(each.Name).To(Equal("a"))
			}
		})
	}
}

func TestKindsThatAreNotServedHaveNoObjects(t *testing.T) {
	g := NewWithT(t)
	g.Expect(ignoreNotServed(&meta.NoKindMatchError{})).To(Succeed())
	g.Expect(ignoreNotServed(&meta.NoResourceMatchError{})).To(Succeed())
	g.Expect(ignoreNotServed(apierrors.NewNotFound(schema.GroupResource{}, ""))).To(Succeed())
	g.Expect(ignoreNotServed(errors.New("boom"))).To(MatchError("boom"))
	g.Expect(ignoreNotServed(nil)).To(Succeed())
}

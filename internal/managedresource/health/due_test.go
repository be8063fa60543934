package health

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// condition returns a set with one condition.
func condition(kind, status, message string) *resourcesv1alpha1.ManagedResource {
	return &resourcesv1alpha1.ManagedResource{Status: resourcesv1alpha1.ManagedResourceStatus{Conditions: []corev1beta1.Condition{
		{Type: corev1beta1.ConditionType(kind), Status: corev1beta1.ConditionStatus(status), Reason: "Reason", Message: message},
	}}}
}

func annotated(mr *resourcesv1alpha1.ManagedResource, key, value string) *resourcesv1alpha1.ManagedResource {
	metav1.SetMetaDataAnnotation(&mr.ObjectMeta, key, value)
	return mr
}

func TestDue(t *testing.T) {
	applied := func(status string) *resourcesv1alpha1.ManagedResource {
		return condition("ResourcesApplied", status, "")
	}
	leaving := applied("True")
	leaving.DeletionTimestamp = &metav1.Time{}
	for name, tc := range map[string]struct {
		mr   *resourcesv1alpha1.ManagedResource
		want bool
	}{
		"an applied set is judged":                                  {applied("True"), true},
		"a set of which applying says that it does not know is too": {applied("Unknown"), true},
		"a set that was never applied is not":                       {&resourcesv1alpha1.ManagedResource{}, false},
		"another condition does not stand for it":                   {condition("ResourcesHealthy", "True", ""), false},
		"a set in work is not":                                      {applied("Progressing"), false},
		"a set that could not be applied is not":                    {applied("False"), false},
		"an ignored set is not":                                     {annotated(applied("True"), "resources.gardener.cloud/ignore", "T"), false},
		"a set that is expressly not ignored is": {
			annotated(applied("True"), "resources.gardener.cloud/ignore", "false"),
			true,
		},
		"a set that is being deleted is not, whatever its condition": {leaving, false},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(due(tc.mr)).To(Equal(tc.want)) })
	}
}

func TestMayDiffer(t *testing.T) {
	plain := func() *resourcesv1alpha1.ManagedResource { return condition("ResourcesApplied", "True", "") }
	ofClass := func(class *string) *resourcesv1alpha1.ManagedResource {
		mr := plain()
		mr.Spec.Class = class
		return mr
	}
	for name, tc := range map[string]struct {
		before, after *resourcesv1alpha1.ManagedResource
		want          bool
	}{
		"nothing changed":                         {plain(), plain(), false},
		"the class was set":                       {plain(), ofClass(ptr.To("seed")), true},
		"the class was removed":                   {ofClass(ptr.To("seed")), plain(), true},
		"the class was emptied, which is no news": {ofClass(ptr.To("")), plain(), false},
		"it was applied for the first time":       {&resourcesv1alpha1.ManagedResource{}, plain(), true},
		"it was applied after a failure":          {condition("ResourcesApplied", "False", ""), plain(), true},
		"only the message of applying changed":    {condition("ResourcesApplied", "True", "old"), plain(), false},
		"it is ignored no longer":                 {annotated(plain(), "resources.gardener.cloud/ignore", "true"), plain(), true},
		"it is ignored in other words": {
			annotated(plain(), "resources.gardener.cloud/ignore", "true"),
			annotated(plain(), "resources.gardener.cloud/ignore", "1"), false,
		},
		"it asks to be judged by status": {plain(), annotated(plain(), "espalier.dev/kstatus", "true"), true},
		"another annotation changed":     {plain(), annotated(plain(), "example.com/x", "true"), false},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(mayDiffer(tc.before, tc.after)).To(Equal(tc.want)) })
	}
}

func TestOverwritten(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after *resourcesv1alpha1.ManagedResource
		want          bool
	}{
		"nothing changed":    {condition("ResourcesHealthy", "True", ""), condition("ResourcesHealthy", "True", ""), false},
		"the health changed": {condition("ResourcesHealthy", "True", ""), condition("ResourcesHealthy", "False", ""), true},
		"the message of progress changed": {
			condition("ResourcesProgressing", "True", "old"), condition("ResourcesProgressing", "True", "new"),
			true,
		},
		"the condition was removed":     {condition("ResourcesHealthy", "True", ""), &resourcesv1alpha1.ManagedResource{}, true},
		"a condition of others changed": {condition("ResourcesApplied", "True", ""), condition("ResourcesApplied", "False", ""), false},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(overwritten(tc.before, tc.after)).To(Equal(tc.want)) })
	}
}

func TestKstatusIsAsTheSetSaysElseAsConfigured(t *testing.T) {
	type answers struct{ off, on bool }
	for name, tc := range map[string]struct {
		mr   *resourcesv1alpha1.ManagedResource
		want answers
	}{
		"a set that says nothing": {&resourcesv1alpha1.ManagedResource{}, answers{off: false, on: true}},
		"a set that wants it": {
			annotated(&resourcesv1alpha1.ManagedResource{}, "espalier.dev/kstatus", "true"),
			answers{off: true, on: true},
		},
		"a set that does not want it": {
			annotated(&resourcesv1alpha1.ManagedResource{}, "espalier.dev/kstatus", "false"),
			answers{off: false, on: false},
		},
		"a set with an unknown value": {
			annotated(&resourcesv1alpha1.ManagedResource{}, "espalier.dev/kstatus", "True"),
			answers{off: false, on: true},
		},
		"a set that says the empty string": {
			annotated(&resourcesv1alpha1.ManagedResource{}, "espalier.dev/kstatus", ""),
			answers{off: false, on: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(answers{off: Kstatus(tc.mr, false), on: Kstatus(tc.mr, true)}).To(Equal(tc.want))
		})
	}
}

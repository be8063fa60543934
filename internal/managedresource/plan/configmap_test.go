package plan_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
)

func TestConfigMap(t *testing.T) {
	g := NewWithT(t)
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}}
	p := everything()
	machine, err := p.JSON(plan.Unbounded)
	g.Expect(err).NotTo(HaveOccurred())
	made, err := p.ConfigMap(mr)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(made).To(BeComparableTo(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-plan", Labels: map[string]string{"espalier.dev/plan-of": "web"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "resources.gardener.cloud/v1alpha1", Kind: "ManagedResource", Name: "web",
				UID: "u", Controller: ptr.To(true),
			}},
		},
		Data: map[string]string{"summary": p.Summary(), "plan.txt": p.Text(plan.Unbounded), "plan.json": machine},
	}))
	g.Expect(plan.Generation(made)).To(Equal(int64(3)))
	g.Expect(plan.Generation(&corev1.ConfigMap{Data: map[string]string{"plan.json": "{"}})).To(Equal(int64(0)))
	g.Expect(plan.Announcement(p, made.Name)).To(Equal(p.Summary() + ` (see plan.txt in ConfigMap "web-plan")`))
}

func TestLongNamesAreShortenedAndStayDifferent(t *testing.T) {
	g := NewWithT(t)
	one, two := strings.Repeat("a", 252)+"b", strings.Repeat("a", 252)+"c"
	dotted := strings.Repeat("a", 239) + "." + strings.Repeat("b", 13)
	for _, name := range []string{"web", strings.Repeat("a", 248), one, two, dotted} {
		made, err := everything().ConfigMap(&resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Name: name}})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(validation.IsDNS1123Subdomain(made.Name)).To(BeEmpty(), made.Name)
		g.Expect(validation.IsValidLabelValue(made.Labels["espalier.dev/plan-of"])).To(BeEmpty())
	}
	g.Expect(plan.ConfigMapName(strings.Repeat("a", 248))).To(Equal(strings.Repeat("a", 248) + "-plan"))
	g.Expect(plan.ConfigMapName(one)).To(MatchRegexp(`^a{239}-[0-9a-f]{8}-plan$`))
	g.Expect(plan.ConfigMapName(one)).NotTo(Equal(plan.ConfigMapName(two)))
}

func TestOursAndPublished(t *testing.T) {
	g := NewWithT(t)
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}}
	made, err := everything().ConfigMap(mr)
	g.Expect(err).NotTo(HaveOccurred())
	for name, tc := range map[string]struct {
		change          func(*corev1.ConfigMap)
		ours, published bool
	}{
		"as made":                    {change: func(*corev1.ConfigMap) {}, ours: true, published: true},
		"without the label":          {change: func(c *corev1.ConfigMap) { c.Labels = nil }, published: true},
		"with the label of another":  {change: func(c *corev1.ConfigMap) { c.Labels["espalier.dev/plan-of"] = "x" }, published: true},
		"without an owner":           {change: func(c *corev1.ConfigMap) { c.OwnerReferences = nil }},
		"with another owner":         {change: func(c *corev1.ConfigMap) { c.OwnerReferences[0].Kind = "Deployment" }, published: true},
		"of an earlier set":          {change: func(c *corev1.ConfigMap) { c.OwnerReferences[0].UID = "earlier" }, ours: true},
		"of a set of another name":   {change: func(c *corev1.ConfigMap) { c.OwnerReferences[0].Name = "x" }, published: true},
		"of a kind of another group": {change: func(c *corev1.ConfigMap) { c.OwnerReferences[0].APIVersion = "v1" }, published: true},
		"edited":                     {change: func(c *corev1.ConfigMap) { c.Data["summary"] = "x" }, ours: true},
		"with more in it":            {change: func(c *corev1.ConfigMap) { c.BinaryData = map[string][]byte{"x": nil} }, ours: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			found := made.DeepCopy()
			tc.change(found)
			g.Expect(plan.Ours(found, mr)).To(Equal(tc.ours))
			g.Expect(plan.Published(found, made)).To(Equal(tc.published))
		})
	}
}

func TestOnlyATrueAnnotationRequestsValues(t *testing.T) {
	g := NewWithT(t)
	g.Expect(plan.ValuesAsked(&resourcesv1alpha1.ManagedResource{})).To(BeFalse())
	for value, want := range map[string]bool{
		"true": true, "1": true, "T": true, "false": false, "0": false, "": false, "yes": false, "truly": false,
	} {
		mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"espalier.dev/plan-values": value}}}
		g.Expect(plan.ValuesAsked(mr)).To(Equal(want), "%q", value)
	}
}

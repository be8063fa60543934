package lifecycle

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/config"
)

func hard(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func quotaOwner(uid string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "X", Name: "x" + uid, UID: "uid"}
}

func foreignOwner() metav1.OwnerReference {
	return metav1.OwnerReference{Name: "foreign", UID: "foreign"}
}

func TestDesiredQuota(t *testing.T) {
	configured := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ignored", Name: "ignored", Labels: map[string]string{"l": "new"}, Annotations: map[string]string{"a": "new"},
		},
		Spec: corev1.ResourceQuotaSpec{Hard: hard("pods", "10", "secrets", "20"), Scopes: []corev1.ResourceQuotaScope{"BestEffort"}},
	}
	for name, tc := range map[string]struct{ existing, want *corev1.ResourceQuota }{
		"none is there": {nil, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "n", Name: "gardener", Labels: map[string]string{"l": "new"}, Annotations: map[string]string{"a": "new"},
				OwnerReferences: []metav1.OwnerReference{quotaOwner("")},
			},
			Spec: corev1.ResourceQuotaSpec{Hard: hard("pods", "10", "secrets", "20")},
		}},
		"one was changed by hand, and by others": {&corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "n", Name: "gardener", Labels: map[string]string{"l": "old", "o": "stays"}, Annotations: map[string]string{"o": "stays"},
				OwnerReferences: []metav1.OwnerReference{quotaOwner("old"), foreignOwner()}, ResourceVersion: "7",
			},
			Spec: corev1.ResourceQuotaSpec{Hard: hard("pods", "1", "services", "3")},
		}, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "n", Name: "gardener", Labels: map[string]string{"l": "new", "o": "stays"},
				Annotations:     map[string]string{"a": "new", "o": "stays"},
				OwnerReferences: []metav1.OwnerReference{quotaOwner(""), foreignOwner()}, ResourceVersion: "7",
			},
			Spec: corev1.ResourceQuotaSpec{Hard: hard("pods", "1", "secrets", "20")},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			before := tc.existing.DeepCopy()
			g.Expect(desiredQuota("n", tc.existing, configured, quotaOwner(""))).To(BeComparableTo(tc.want))
			g.Expect(tc.existing).To(Equal(before), "what is there is not touched")
		})
	}
}

func TestSelectQuota(t *testing.T) {
	quota := func(name string) *corev1.ResourceQuota {
		return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	selects := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	invalid := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
	for name, tc := range map[string]struct {
		entries []config.ProjectQuota
		want    *corev1.ResourceQuota
		err     string
	}{
		"none is configured": {nil, nil, ""},
		"the first counts": {
			[]config.ProjectQuota{
				{Config: quota("1"), ProjectSelector: selects("a", "b")}, {Config: quota("2"), ProjectSelector: selects("a", "b")},
			},
			quota("1"), "",
		},
		"the second matches": {
			[]config.ProjectQuota{
				{Config: quota("1"), ProjectSelector: selects("a", "c")}, {Config: quota("2"), ProjectSelector: &metav1.LabelSelector{}},
			},
			quota("2"), "",
		},
		"without selector": {[]config.ProjectQuota{{Config: quota("1")}}, quota("1"), ""},
		"none matches":     {[]config.ProjectQuota{{Config: quota("1"), ProjectSelector: selects("a", "c")}}, nil, ""},
		"selector invalid": {
			[]config.ProjectQuota{{Config: quota("1"), ProjectSelector: invalid}},
			nil,
			`controllers.project.quotas[0].projectSelector: "Like" is not a valid label selector operator`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			have, err := selectQuota(tc.entries, map[string]string{"a": "b"})
			if tc.err != "" {
				g.Expect(err).To(MatchError(tc.err))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(have).To(Equal(tc.want))
		})
	}
}

func TestTrimmedQuotaHasWhatIsCompared(t *testing.T) {
	g := NewWithT(t)
	q := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "gardener", Labels: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{}}},
		Spec:       corev1.ResourceQuotaSpec{Hard: hard("pods", "1"), Scopes: []corev1.ResourceQuotaScope{"BestEffort"}},
		Status:     corev1.ResourceQuotaStatus{Used: hard("pods", "1")},
	}
	g.Expect(trimQuota(q)).To(Equal(&corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "gardener", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.ResourceQuotaSpec{Hard: hard("pods", "1")},
	}))
}

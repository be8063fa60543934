package inventory

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func gk(group, kind string) metav1.GroupKind { return metav1.GroupKind{Group: group, Kind: kind} }

func TestEquivalences(t *testing.T) {
	for name, tc := range map[string]struct {
		additional [][]metav1.GroupKind
		of         metav1.GroupKind
		want       []metav1.GroupKind
	}{
		"Deployment":              {of: gk("extensions", "Deployment"), want: []metav1.GroupKind{gk("apps", "Deployment")}},
		"DaemonSet":               {of: gk("apps", "DaemonSet"), want: []metav1.GroupKind{gk("extensions", "DaemonSet")}},
		"ReplicaSet":              {of: gk("extensions", "ReplicaSet"), want: []metav1.GroupKind{gk("apps", "ReplicaSet")}},
		"StatefulSet":             {of: gk("extensions", "StatefulSet"), want: []metav1.GroupKind{gk("apps", "StatefulSet")}},
		"Ingress":                 {of: gk("extensions", "Ingress"), want: []metav1.GroupKind{gk("networking.k8s.io", "Ingress")}},
		"NetworkPolicy":           {of: gk("extensions", "NetworkPolicy"), want: []metav1.GroupKind{gk("networking.k8s.io", "NetworkPolicy")}},
		"PodSecurityPolicy":       {of: gk("policy", "PodSecurityPolicy"), want: []metav1.GroupKind{gk("extensions", "PodSecurityPolicy")}},
		"a kind that never moved": {of: gk("", "ConfigMap")},
		"a kind of the same name": {of: gk("example.com", "Deployment")},
		"a set of its own": {
			additional: [][]metav1.GroupKind{{gk("b", "B"), gk("a", "A"), gk("c", "C")}}, of: gk("b", "B"),
			want: []metav1.GroupKind{gk("a", "A"), gk("c", "C")},
		},
		"a set with a known member": {
			additional: [][]metav1.GroupKind{{gk("apps", "Deployment"), gk("a", "A")}}, of: gk("a", "A"),
			want: []metav1.GroupKind{gk("apps", "Deployment"), gk("extensions", "Deployment")},
		},
		"a known member at the end": {
			additional: [][]metav1.GroupKind{{gk("a", "A"), gk("apps", "Deployment")}}, of: gk("extensions", "Deployment"),
			want: []metav1.GroupKind{gk("a", "A"), gk("apps", "Deployment")},
		},
		"a third set that shares members with two sets": {
			additional: [][]metav1.GroupKind{{gk("a", "A"), gk("b", "B")}, {gk("c", "C"), gk("d", "D")}, {gk("b", "B"), gk("d", "D")}},
			of:         gk("a", "A"), want: []metav1.GroupKind{gk("b", "B"), gk("c", "C"), gk("d", "D")},
		},
		"a member that occurs twice": {
			additional: [][]metav1.GroupKind{{gk("a", "A"), gk("a", "A"), gk("b", "B")}}, of: gk("b", "B"),
			want: []metav1.GroupKind{gk("a", "A")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(NewEquivalences(tc.additional).Of(tc.of)).To(BeComparableTo(tc.want, cmpEmpty))
		})
	}
}

func TestIndex(t *testing.T) {
	old := []resourcesv1alpha1.ObjectReference{
		labelled(ref("extensions/v1beta1", "Deployment", "shop", "web"), "1"),
		labelled(ref("v1", "ConfigMap", "", "a"), "first"),
		labelled(ref("v1", "ConfigMap", "default", "a"), "last"),
		ref("v1", "Secret", "shop", "z"),
		ref("v1", "Secret", "shop", "b"),
	}
	for name, tc := range map[string]struct {
		lookups  []Key
		want     []string // the labels of the references that are found, "-" for none
		obsolete []resourcesv1alpha1.ObjectReference
	}{
		"without look-ups all references are obsolete, sorted, each once": {
			obsolete: []resourcesv1alpha1.ObjectReference{old[2], old[4], old[3], old[0]},
		},
		"of several references with the key, the last one is returned": {
			lookups: []Key{KeyOf("", "ConfigMap", "", "a")}, want: []string{"last"},
			obsolete: []resourcesv1alpha1.ObjectReference{old[4], old[3], old[0]},
		},
		"an object that moves to the successor group keeps its reference": {
			lookups: []Key{KeyOf("apps", "Deployment", "shop", "web")}, want: []string{"1"},
			obsolete: []resourcesv1alpha1.ObjectReference{old[2], old[4], old[3]},
		},
		"an equivalent kind matches only with the same namespace and name": {
			lookups: []Key{
				KeyOf("apps", "Deployment", "shop", "web2"), KeyOf("apps", "Deployment", "", "web"), KeyOf("apps", "StatefulSet", "shop", "web"),
			},
			want:     []string{"-", "-", "-"},
			obsolete: []resourcesv1alpha1.ObjectReference{old[2], old[4], old[3], old[0]},
		},
		"a second look-up finds the reference again": {
			lookups: []Key{KeyOf("", "Secret", "shop", "b"), KeyOf("", "Secret", "shop", "b")}, want: []string{"", ""},
			obsolete: []resourcesv1alpha1.ObjectReference{old[2], old[3], old[0]},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			index := NewIndex(old, NewEquivalences(nil))
			var got []string
			for _, key := range tc.lookups {
				reference, found := index.Lookup(key)
				if found {
					got = append(got, reference.Labels["l"])
				} else {
					g.Expect(reference).To(BeZero())
					got = append(got, "-")
				}
			}
			g.Expect(got).To(Equal(tc.want))
			g.Expect(index.Obsolete()).To(Equal(tc.obsolete))
		})
	}
}

func TestIndexKeepsBothReferencesWhileAnObjectMovesToAnotherGroup(t *testing.T) {
	g := NewWithT(t)
	index := NewIndex([]resourcesv1alpha1.ObjectReference{
		labelled(ref("apps/v1", "Deployment", "shop", "web"), "new"), labelled(ref("extensions/v1beta1", "Deployment", "shop", "web"), "old"),
	}, NewEquivalences(nil))
	reference, found := index.Lookup(KeyOf("apps", "Deployment", "shop", "web"))
	g.Expect(found).To(BeTrue())
	g.Expect(reference.Labels).To(HaveKeyWithValue("l", "new"))
	g.Expect(index.Obsolete()).To(BeEmpty(), "both references name the same live object, which the set contains")
}

func TestIndexReturnsLabelsOfBothReferencesWhileAnObjectMovesToAnotherGroup(t *testing.T) {
	g := NewWithT(t)
	old := labelled(ref("extensions/v1beta1", "Deployment", "shop", "web"), "old")
	old.Labels["gone"], old.Annotations = "1", map[string]string{"gone": "2"}
	refs := []resourcesv1alpha1.ObjectReference{labelled(ref("apps/v1", "Deployment", "shop", "web"), "new"), old}
	reference, found := NewIndex(refs, NewEquivalences(nil)).Lookup(KeyOf("apps", "Deployment", "shop", "web"))
	g.Expect(found).To(BeTrue())
	g.Expect(reference.APIVersion).To(Equal("apps/v1"))
	g.Expect(reference.Labels).To(Equal(map[string]string{"l": "new", "gone": "1"}))
	g.Expect(reference.Annotations).To(Equal(map[string]string{"gone": "2"}))
	g.Expect(refs[0].Labels).To(Equal(map[string]string{"l": "new"}), "the input stays unchanged")
}

func TestChecksum(t *testing.T) {
	const value = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}`
	for name, tc := range map[string]struct {
		values []string
		want   string
	}{
		"no object":  {want: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		"one object": {values: []string{value}, want: "499895ace2e0c9653558b937646a770408fbb5541739310ad6df1c2280e4ba1f"},
		"two objects of one value hash the value twice": {
			values: []string{"a", "a"}, want: "961b6dd3ede3cb8ecbaacbd68de040cd78eb2ed5889130cceb4c49268ea4d506",
		},
		"only the concatenation counts": {
			values: []string{"aa"}, want: "961b6dd3ede3cb8ecbaacbd68de040cd78eb2ed5889130cceb4c49268ea4d506",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var checksum Checksum
			for _, value := range tc.values {
				checksum.AddObject([]byte(value))
			}
			g.Expect(checksum.String()).To(Equal(tc.want))
			g.Expect(checksum.String()).To(Equal(tc.want), "String does not change it")
		})
	}
}

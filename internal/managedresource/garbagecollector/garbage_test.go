package garbagecollector

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func collectableObject(change ...func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "settings-1", UID: "u", ResourceVersion: "7", CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)),
		Labels: map[string]string{"resources.gardener.cloud/garbage-collectable-reference": "true"}, Annotations: map[string]string{},
	}}
	for _, each := range change {
		each(object)
	}
	return object
}

func TestConsider(t *testing.T) {
	label := func(value string) func(*metav1.PartialObjectMetadata) {
		return func(o *metav1.PartialObjectMetadata) {
			o.Labels = map[string]string{"resources.gardener.cloud/garbage-collectable-reference": value}
		}
	}
	age := func(age time.Duration) func(*metav1.PartialObjectMetadata) {
		return func(o *metav1.PartialObjectMetadata) { o.CreationTimestamp = metav1.NewTime(noon.Add(-age)) }
	}
	keep := func(value string) func(*metav1.PartialObjectMetadata) {
		return func(o *metav1.PartialObjectMetadata) { o.Annotations["resources.gardener.cloud/keep-object"] = value }
	}
	for name, tc := range map[string]struct {
		object *metav1.PartialObjectMetadata
		taken  bool
	}{
		"an old object":                {object: collectableObject(), taken: true},
		"exactly as old as it must be": {object: collectableObject(age(10 * time.Minute)), taken: true},
		"a second too young":           {object: collectableObject(age(10*time.Minute - time.Second))},
		"created in the future":        {object: collectableObject(age(-time.Hour))},
		"another truthy label":         {object: collectableObject(label("True"))},
		"an empty label":               {object: collectableObject(label(""))},
		"no label":                     {object: collectableObject(func(o *metav1.PartialObjectMetadata) { o.Labels = nil })},
		"to be kept":                   {object: collectableObject(keep("t"))},
		"not to be kept":               {object: collectableObject(keep("false")), taken: true},
		"in deletion, held by finalizers": {object: collectableObject(func(o *metav1.PartialObjectMetadata) {
			o.DeletionTimestamp = &metav1.Time{Time: noon}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			g := garbage{}
			g.consider("ConfigMap", tc.object, noon, 10*time.Minute)
			want := garbage{}
			if tc.taken {
				named := key{kind: "ConfigMap", namespace: "shop", name: "settings-1"}
				want[named] = candidate{key: named, uid: "u", version: "7", created: tc.object.CreationTimestamp.Time}
			}
			NewWithT(t).Expect(g).To(Equal(want))
		})
	}
}

func garbageOf(keys ...key) garbage {
	g := garbage{}
	for _, each := range keys {
		g[each] = candidate{key: each}
	}
	return g
}

var (
	configMapA = key{kind: "ConfigMap", namespace: "shop", name: "a"}
	secretA    = key{kind: "Secret", namespace: "shop", name: "a"}
	secretB    = key{kind: "Secret", namespace: "shop", name: "b"}
	elsewhereA = key{kind: "Secret", namespace: "elsewhere", name: "a"}
)

func TestSpareReferenced(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations map[string]string
		left        garbage
	}{
		"nothing": {left: garbageOf(configMapA, secretA, secretB, elsewhereA)},
		"a Secret, in the namespace of the referrer only": {
			annotations: map[string]string{"reference.resources.gardener.cloud/secret-ca978112": "a"},
			left:        garbageOf(configMapA, secretB, elsewhereA),
		},
		"a ConfigMap": {
			annotations: map[string]string{"reference.resources.gardener.cloud/configmap-ca978112": "a"},
			left:        garbageOf(secretA, secretB, elsewhereA),
		},
		"a hash that is none": {
			annotations: map[string]string{"reference.resources.gardener.cloud/secret-foo": "a"},
			left:        garbageOf(configMapA, secretB, elsewhereA),
		},
		"several": {
			annotations: map[string]string{
				"reference.resources.gardener.cloud/secret-1": "a", "reference.resources.gardener.cloud/secret-2": "b",
				"other": "a",
			},
			left: garbageOf(configMapA, elsewhereA),
		},
		"what looks similar": {
			annotations: map[string]string{
				"reference.resources.gardener.cloud/secret":          "a",
				"reference.resources.gardener.cloud/secret-a-b":      "a",
				"reference.resources.gardener.cloud/Secret-ca978112": "a",
				"reference.resources.gardener.cloud/pod-ca978112":    "a",
				"reference.resources.gardener.cloud/secret-ca978112": "",
				"resources.gardener.cloud/secret-ca978112":           "a",
			},
			left: garbageOf(configMapA, secretA, secretB, elsewhereA),
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := garbageOf(configMapA, secretA, secretB, elsewhereA)
			g.spareReferenced("shop", tc.annotations)
			NewWithT(t).Expect(g).To(Equal(tc.left))
		})
	}
}

func FuzzSpareReferenced(f *testing.F) {
	f.Add("reference.resources.gardener.cloud/secret-ca978112", "a")
	f.Add("reference.resources.gardener.cloud/configmap-", "b")
	f.Fuzz(func(t *testing.T, annotation, value string) {
		g := garbageOf(configMapA, secretA, secretB, elsewhereA)
		g.spareReferenced("shop", map[string]string{annotation: value})
		for _, each := range []key{configMapA, secretA, secretB, elsewhereA} {
			if _, left := g[each]; !left && (each.name != value || each.namespace != "shop") {
				t.Errorf("%q: %q spares %s", annotation, value, each)
			}
		}
	})
}

func TestSpareSet(t *testing.T) {
	set := func(finalizers ...string) *resourcesv1alpha1.ManagedResource {
		mr := &resourcesv1alpha1.ManagedResource{}
		mr.Namespace, mr.Name, mr.Finalizers = "shop", "set", finalizers
		mr.Spec.SecretRefs = []corev1.LocalObjectReference{{Name: "a"}}
		for _, each := range []corev1.ObjectReference{
			{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "b"},
			{APIVersion: "example.com/v1", Kind: "ConfigMap", Namespace: "shop", Name: "a"},
			{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "a"},
		} {
			mr.Status.Resources = append(mr.Status.Resources, resourcesv1alpha1.ObjectReference{ObjectReference: each})
		}
		return mr
	}
	const ours, theirs = "resources.gardener.cloud/gardener-resource-manager", "resources.gardener.cloud/gardener-resource-manager-seed"
	for name, tc := range map[string]struct {
		set      *resourcesv1alpha1.ManagedResource
		inTarget bool
		left     garbage
	}{
		"ours, in the target":           {set: set("x", ours), inTarget: true, left: garbageOf(configMapA, elsewhereA)},
		"ours, in another cluster":      {set: set(ours), left: garbageOf(configMapA, secretA, elsewhereA)},
		"another's, in the target":      {set: set(theirs), inTarget: true, left: garbageOf(configMapA, secretB, elsewhereA)},
		"another's, in another cluster": {set: set(theirs), left: garbageOf(configMapA, secretA, secretB, elsewhereA)},
	} {
		t.Run(name, func(t *testing.T) {
			g := garbageOf(configMapA, secretA, secretB, elsewhereA)
			g.spareSet(tc.set, tc.inTarget, ours)
			NewWithT(t).Expect(g).To(Equal(tc.left))
		})
	}
}

func TestSorted(t *testing.T) {
	NewWithT(t).Expect(garbageOf(secretB, secretA, elsewhereA, configMapA).sorted()).To(Equal([]candidate{
		{key: configMapA}, {key: elsewhereA}, {key: secretA}, {key: secretB},
	}))
}

func TestCount(t *testing.T) {
	NewWithT(t).Expect(count([]candidate{{key: secretA}, {key: secretB}})).To(Equal(map[string]int{"ConfigMap": 0, "Secret": 2}))
}

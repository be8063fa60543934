package inventory

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func ref(apiVersion, kind, namespace, name string) resourcesv1alpha1.ObjectReference {
	return resourcesv1alpha1.ObjectReference{
		ObjectReference: corev1.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name},
	}
}

func labelled(r resourcesv1alpha1.ObjectReference, value string) resourcesv1alpha1.ObjectReference {
	r.Labels = map[string]string{"l": value}
	return r
}

func TestRefKey(t *testing.T) {
	for name, tc := range map[string]struct {
		reference resourcesv1alpha1.ObjectReference
		want      string
	}{
		"a core object has no group": {
			reference: ref("v1", "ConfigMap", "bar", "foo"), want: "/ConfigMap/bar/foo",
		},
		"the version is not part of the key": {
			reference: ref("apps/v1beta2", "Deployment", "web", "nginx"), want: "apps/Deployment/web/nginx",
		},
		"an empty namespace counts as default": {
			reference: ref("v1", "ConfigMap", "", "foo"), want: "/ConfigMap/default/foo",
		},
		"an empty namespace of a cluster-scoped kind counts as default": {
			reference: ref("rbac.authorization.k8s.io/v1", "ClusterRole", "", "foo"), want: "rbac.authorization.k8s.io/ClusterRole/default/foo",
		},
		"an empty namespace of a Namespace stays empty": {reference: ref("v1", "Namespace", "", "foo"), want: "/Namespace//foo"},
		"a malformed apiVersion counts as no group":     {reference: ref("a/b/c", "Thing", "bar", "foo"), want: "/Thing/bar/foo"},
		"a reference without type has a key":            {reference: ref("", "", "", "foo"), want: "//default/foo"},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(RefKey(tc.reference).String()).To(Equal(tc.want)) })
	}
}

func TestReference(t *testing.T) {
	for name, tc := range map[string]struct {
		object       map[string]any
		injectLabels map[string]string
		want         resourcesv1alpha1.ObjectReference
	}{
		"labels of the manifest are overlaid by injected ones, annotations are the manifest's": {
			object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{
				"name": "web", "namespace": "shop", "uid": "1", "resourceVersion": "2",
				"labels": map[string]any{"a": "manifest", "b": "manifest"}, "annotations": map[string]any{"c": "d"},
			}},
			injectLabels: map[string]string{"a": "injected", "resources.gardener.cloud/managed-by": "gardener"},
			want: resourcesv1alpha1.ObjectReference{
				ObjectReference: corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"},
				Labels:          map[string]string{"a": "injected", "b": "manifest", "resources.gardener.cloud/managed-by": "gardener"},
				Annotations:     map[string]string{"c": "d"},
			},
		},
		"a manifest with empty annotations gets nil annotations": {
			object: map[string]any{
				"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop", "annotations": map[string]any{}},
			},
			injectLabels: map[string]string{"resources.gardener.cloud/managed-by": "gardener"},
			want: resourcesv1alpha1.ObjectReference{
				ObjectReference: corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "shop"},
				Labels:          map[string]string{"resources.gardener.cloud/managed-by": "gardener"},
			},
		},
		"a manifest without name, labels and annotations": {
			object:       map[string]any{},
			injectLabels: map[string]string{"resources.gardener.cloud/managed-by": "gardener"},
			want:         resourcesv1alpha1.ObjectReference{Labels: map[string]string{"resources.gardener.cloud/managed-by": "gardener"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(Reference(&unstructured.Unstructured{Object: tc.object}, tc.injectLabels)).To(Equal(tc.want))
			g.Expect(tc.injectLabels).To(HaveKeyWithValue("resources.gardener.cloud/managed-by", "gardener"))
			g.Expect(tc.injectLabels).NotTo(HaveKey("b"))
		})
	}
}

func TestSortReferences(t *testing.T) {
	t.Run("sorts by group, kind, namespace and name; equal keys keep the input order", func(t *testing.T) {
		refs := []resourcesv1alpha1.ObjectReference{
			ref("apps/v1", "Deployment", "web", "nginx"), labelled(ref("v1", "ConfigMap", "bar", "foo"), "second"),
			ref("v1", "ConfigMap", "", "zoo"),
			ref("v1", "Namespace", "", "bar"), labelled(ref("v1", "ConfigMap", "bar", "foo"), "first"), ref("v1", "ConfigMap", "bar", "fo"),
			ref("apps/v1", "DaemonSet", "web", "nginx"),
		}
		SortReferences(refs)
		NewWithT(t).Expect(refs).To(Equal([]resourcesv1alpha1.ObjectReference{
			ref("v1", "ConfigMap", "bar", "fo"), labelled(ref("v1", "ConfigMap", "bar", "foo"), "second"),
			labelled(ref("v1", "ConfigMap", "bar", "foo"), "first"),
			ref("v1", "ConfigMap", "", "zoo"), ref("v1", "Namespace", "", "bar"), ref("apps/v1", "DaemonSet", "web", "nginx"),
			ref("apps/v1", "Deployment", "web", "nginx"),
		}))
	})
}

func TestUnion(t *testing.T) {
	for name, tc := range map[string]struct {
		oldRefs, newRefs, want []resourcesv1alpha1.ObjectReference
	}{
		"nothing": {want: []resourcesv1alpha1.ObjectReference{}},
		"the new reference wins, other references of both lists stay": {
			oldRefs: []resourcesv1alpha1.ObjectReference{labelled(ref("v1", "ConfigMap", "ns", "b"), "old"), ref("v1", "ConfigMap", "ns", "c")},
			newRefs: []resourcesv1alpha1.ObjectReference{labelled(ref("v1", "ConfigMap", "ns", "b"), "new"), ref("v1", "ConfigMap", "ns", "a")},
			want: []resourcesv1alpha1.ObjectReference{
				ref("v1", "ConfigMap", "ns", "a"), labelled(ref("v1", "ConfigMap", "ns", "b"), "new"), ref("v1", "ConfigMap", "ns", "c"),
			},
		},
		"another version is the same object": {
			oldRefs: []resourcesv1alpha1.ObjectReference{ref("apps/v1beta1", "Deployment", "ns", "a")},
			newRefs: []resourcesv1alpha1.ObjectReference{ref("apps/v1", "Deployment", "ns", "a")},
			want:    []resourcesv1alpha1.ObjectReference{ref("apps/v1", "Deployment", "ns", "a")},
		},
		"an object that is listed twice stays twice": {
			oldRefs: []resourcesv1alpha1.ObjectReference{ref("v1", "ConfigMap", "ns", "a")},
			newRefs: []resourcesv1alpha1.ObjectReference{
				labelled(ref("v1", "ConfigMap", "ns", "a"), "1"), labelled(ref("v1", "ConfigMap", "ns", "a"), "2"),
			},
			want: []resourcesv1alpha1.ObjectReference{
				labelled(ref("v1", "ConfigMap", "ns", "a"), "1"), labelled(ref("v1", "ConfigMap", "ns", "a"), "2"),
			},
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(Union(tc.oldRefs, tc.newRefs)).To(Equal(tc.want)) })
	}
}

func TestSameReferences(t *testing.T) {
	base := labelled(ref("v1", "ConfigMap", "ns", "a"), "x")
	for name, tc := range map[string]struct {
		a, b []resourcesv1alpha1.ObjectReference
		want bool
	}{
		"nil and empty": {a: nil, b: []resourcesv1alpha1.ObjectReference{}, want: true},
		"the same": {
			a: []resourcesv1alpha1.ObjectReference{base},
			b: []resourcesv1alpha1.ObjectReference{labelled(ref("v1", "ConfigMap", "ns", "a"), "x")}, want: true,
		},
		"nil and empty maps": {
			a: []resourcesv1alpha1.ObjectReference{{Labels: map[string]string{}, Annotations: nil}},
			b: []resourcesv1alpha1.ObjectReference{{Labels: nil, Annotations: map[string]string{}}}, want: true,
		},
		"another label": {a: []resourcesv1alpha1.ObjectReference{base}, b: []resourcesv1alpha1.ObjectReference{labelled(base, "y")}},
		"another annotation": {
			a: []resourcesv1alpha1.ObjectReference{base},
			b: []resourcesv1alpha1.ObjectReference{
				{ObjectReference: base.ObjectReference, Labels: base.Labels, Annotations: map[string]string{"a": "b"}},
			},
		},
		"another version": {
			a: []resourcesv1alpha1.ObjectReference{ref("apps/v1", "Deployment", "ns", "a")},
			b: []resourcesv1alpha1.ObjectReference{ref("apps/v1beta1", "Deployment", "ns", "a")},
		},
		"one more": {a: []resourcesv1alpha1.ObjectReference{base}, b: []resourcesv1alpha1.ObjectReference{base, base}},
		"the order counts": {
			a: []resourcesv1alpha1.ObjectReference{base, ref("v1", "ConfigMap", "ns", "b")},
			b: []resourcesv1alpha1.ObjectReference{ref("v1", "ConfigMap", "ns", "b"), base},
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(SameReferences(tc.a, tc.b)).To(Equal(tc.want)) })
	}
}

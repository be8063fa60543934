package diff

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func set(modify ...func(*resourcesv1alpha1.ManagedResource)) *resourcesv1alpha1.ManagedResource {
	mr := &resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{{Name: "web"}}},
	}
	for _, each := range modify {
		each(mr)
	}
	return mr
}

// typed sets the apiVersion and kind of a file.
func typed(mr *resourcesv1alpha1.ManagedResource) {
	mr.APIVersion, mr.Kind = "resources.gardener.cloud/v1alpha1", "ManagedResource"
}

const setManifest = "apiVersion: resources.gardener.cloud/v1alpha1\nkind: ManagedResource\nmetadata: {name: web, namespace: shop}\n" +
	"spec: {secretRefs: [{name: web}]}\n"

func secret(data map[string][]byte) map[types.NamespacedName]*corev1.Secret {
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	return map[types.NamespacedName]*corev1.Secret{key: {ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Data: data}}
}

func TestRead(t *testing.T) {
	name := types.NamespacedName{Namespace: "shop", Name: "web"}
	for description, tc := range map[string]struct {
		content string
		want    *input
		fault   string
	}{
		"a set and its Secret": {
			content: "---\n" + setManifest +
				"---\napiVersion: v1\nkind: Secret\nmetadata: {name: web, namespace: shop}\ndata: {a: eA==, b: eQ==}\nstringData: {b: z}\n",
			want: &input{
				sets:    []*resourcesv1alpha1.ManagedResource{set(typed)},
				secrets: secret(map[string][]byte{"a": []byte("x"), "b": []byte("z")}),
			},
		},
		"other documents are reported": {
			content: setManifest +
				"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n# nothing\n---\napiVersion: v1\nkind: Secret\n" +
				"metadata: {name: x}\n",
			want: &input{sets: []*resourcesv1alpha1.ManagedResource{set(typed)}, secrets: map[types.NamespacedName]*corev1.Secret{
				{Namespace: "default", Name: "x"}: {ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}, Data: map[string][]byte{}},
			}, remarks: []string{"not looked at, since it is in the file but in no set: document 1, Namespace shop", "not looked at, since it is " +
				"in the file but in no set: document 3, Secret x"}},
		},
		"a set in the default namespace": {
			content: "apiVersion: resources.gardener.cloud/v1alpha1\nkind: ManagedResource\nmetadata: {name: web}\n" +
				"spec: {secretRefs: [{name: web}]}\n",
			want: &input{
				sets:    []*resourcesv1alpha1.ManagedResource{set(typed, func(mr *resourcesv1alpha1.ManagedResource) { mr.Namespace = "default" })},
				secrets: map[types.NamespacedName]*corev1.Secret{},
			},
		},
		"plain manifests": {
			content: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
			want: &input{
				sets: []*resourcesv1alpha1.ManagedResource{set()}, plain: true,
				secrets: secret(map[string][]byte{"objects.yaml": []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")}),
			},
		},
		"JSON": {
			content: `{"apiVersion":"v1","kind":"ConfigMap"}`,
			fault:   "read f.yaml: document 0: apiVersion, kind and metadata.name are required",
		},
		"no YAML": {
			content: "a: b\n---\nhunter2: [\n",
			fault:   "read f.yaml: document 1: invalid YAML at line 1: did not find expected node content",
		},
		"broken JSON": {content: `{"a": 1} {"b": hunter2`, fault: "read f.yaml: document 1: invalid JSON at byte 16"},
		"a text": {
			content: setManifest + "---\nhunter2\n",
			fault:   "read f.yaml: document 1: document is not an object",
		},
		"nothing": {content: "# nothing\n---\n", fault: "read f.yaml: it holds no objects"},
		"a set with a field that is not": {
			content: setManifest + "status: {}\nspce: {}\n",
			fault:   `read f.yaml: document 0: ManagedResource web: strict decoding error: unknown field "spce"`,
		},
		"a Secret that is not in base64": {
			content: "---\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: x}\ndata: {a: hunter2}\n",
			fault:   "read f.yaml: document 1: Secret x: data[a] is not in base64",
		},
		"a Secret with a number": {
			content: "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\ndata: {a: 1234}\n",
			fault:   "read f.yaml: document 0: Secret x: data[a] is not in base64",
		},
		"a Secret whose data is a text": {
			content: "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\ndata: hunter2\n",
			fault:   "read f.yaml: document 0: Secret x: data must be a map of texts",
		},
		"a Secret whose texts are no texts": {
			content: "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\nstringData: {a: 1}\n",
			fault:   "read f.yaml: document 0: Secret x: data and stringData must be maps of texts",
		},
	} {
		t.Run(description, func(t *testing.T) {
			g := NewWithT(t)
			got, err := read("f.yaml", []byte(tc.content), name)
			if tc.fault != "" {
				g.Expect(err).To(MatchError(tc.fault))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(tc.want))
		})
	}
}

func TestSettle(t *testing.T) {
	applied := func(mr *resourcesv1alpha1.ManagedResource) {
		mr.UID, mr.Generation = "u", 4
		mr.Status.ObservedGeneration = 4
	}
	lastApplied := func(annotations string) func(*resourcesv1alpha1.ManagedResource) {
		return func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Annotations = map[string]string{
				"resources.gardener.cloud/ignore": "true", "a": "live",
				"kubectl.kubernetes.io/last-applied-configuration": `{"metadata":{"annotations":` + annotations + `}}`,
			}
		}
	}
	marked := func(name, value string) func(*resourcesv1alpha1.ManagedResource) {
		return func(mr *resourcesv1alpha1.ManagedResource) { mr.Annotations = map[string]string{name: value} }
	}
	ending := func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Finalizers, mr.DeletionTimestamp = []string{"example.com/x"}, &metav1.Time{}
	}
	injecting := func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.InjectLabels = map[string]string{"a": "b"} }
	for name, tc := range map[string]struct {
		in       input
		mr, live *resourcesv1alpha1.ManagedResource
		want     *resourcesv1alpha1.ManagedResource
	}{
		"a new set":       {mr: set(applied), want: set(func(mr *resourcesv1alpha1.ManagedResource) { mr.UID = "u" })},
		"one that exists": {mr: set(), live: set(applied), want: set(applied)},
		"one that exists with another spec": {
			mr: set(), live: set(applied, injecting),
			want: set(applied, func(mr *resourcesv1alpha1.ManagedResource) { mr.Generation = 5 }),
		},
		"only the content of one that exists is another one": {
			in: input{plain: true}, mr: set(), live: set(applied, injecting),
			want: set(applied, injecting),
		},
		"one that is being deleted": {mr: set(), live: set(applied, ending), want: set(applied, ending)},
		"a new one cannot be deleted": {
			mr:   set(ending),
			want: set(func(mr *resourcesv1alpha1.ManagedResource) { mr.Finalizers = []string{"example.com/x"} }),
		},
		"annotations that the file does not mention stay": {
			mr: set(marked("a", "file")), live: set(lastApplied("{}")),
			want: set(lastApplied("{}"), func(mr *resourcesv1alpha1.ManagedResource) {
				mr.Annotations["a"] = "file"
			}),
		},
		"annotations that were in the file go": {
			mr: set(), live: set(lastApplied(`{"resources.gardener.cloud/ignore":"true"}`)),
			want: set(lastApplied(`{"resources.gardener.cloud/ignore":"true"}`), func(mr *resourcesv1alpha1.ManagedResource) {
				delete(mr.Annotations, "resources.gardener.cloud/ignore")
			}),
		},
		"only the file has annotations": {mr: set(marked("a", "file")), live: set(), want: set(marked("a", "file"))},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.settle(tc.mr, tc.live)
			NewWithT(t).Expect(tc.mr).To(BeComparableTo(tc.want))
		})
	}
}

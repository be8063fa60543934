package kill_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

func TestFindings(t *testing.T) {
	each := set{namespace: "ns", name: "set", revisions: map[int]int{0: 7, 4: 8}}
	identity, role := key{"ConfigMap", "set-00"}, key{"Role", "set-04"}
	for name, tc := range map[string]struct {
		change func(have map[key]*unstructured.Unstructured)
		stays  map[key]types.UID
		want   []string
	}{
		"nothing is wrong": {change: func(map[key]*unstructured.Unstructured) {}, stays: map[key]types.UID{identity: "uid"}},
		"others may add annotations": {change: func(have map[key]*unstructured.Unstructured) {
			have[identity].SetAnnotations(with(have[identity].GetAnnotations(), "example.com/note"))
		}},
		"an object is missing": {
			change: func(have map[key]*unstructured.Unstructured) { delete(have, identity) },
			want:   []string{"ConfigMap set-00 is missing"},
		},
		"an object is left over": {
			change: func(have map[key]*unstructured.Unstructured) {
				have[key{"Secret", "set-01"}] = have[identity]
			},
			want: []string{"Secret set-01 is left over, deleted: false, revision 7"},
		},
		"an object was deleted that should have stayed": {
			change: func(map[key]*unstructured.Unstructured) {},
			stays:  map[key]types.UID{identity: "another uid"},
			want:   []string{"ConfigMap set-00 was deleted and created anew"},
		},
		"an object is still being deleted": {
			change: func(have map[key]*unstructured.Unstructured) {
				have[identity].SetDeletionTimestamp(&metav1.Time{Time: metav1.Now().Time})
			},
			want: []string{"ConfigMap set-00 is being deleted"},
		},
		"a label and an annotation of an earlier revision": {
			change: func(have map[key]*unstructured.Unstructured) {
				have[identity].SetLabels(with(have[identity].GetLabels(), "crash.espalier.dev/at-6"))
				have[identity].SetAnnotations(with(have[identity].GetAnnotations(), "crash.espalier.dev/at-6"))
			},
			want: []string{
				`ConfigMap set-00: metadata.annotations has "crash.espalier.dev/at-6":  too much`,
				`ConfigMap set-00: metadata.labels has "crash.espalier.dev/at-6":  too much`,
			},
		},
		"data of an earlier revision": {
			change: func(have map[key]*unstructured.Unstructured) {
				settings := have[identity].Object["data"].(map[string]any)["settings.yaml"] //nolint:errcheck // a panic fails the test
				data := map[string]any{"revision": "6", "at-6": "", "at-7": "", "settings.yaml": settings}
				have[identity].Object["data"] = data
			},
			want: []string{"ConfigMap set-00: .data.revision is 6, not 7", `ConfigMap set-00: data has "at-6":  too much`},
		},
		"one rule too many": {
			change: func(have map[key]*unstructured.Unstructured) {
				have[role].Object["rules"] = []any{"one", "two"}
			},
			want: []string{"Role set-04: .rules is [one two], not [map[apiGroups:[] resourceNames:[at-8] resources:[configmaps] verbs:[get]]]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want, have := map[key]expectation{}, map[key]*unstructured.Unstructured{}
			for place := range each.revisions {
				want[each.key(place)] = expectation{object: each.expected(place)}
				live := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(each.expected(place))}
				live.SetUID("uid")
				have[each.key(place)] = live
			}
			tc.change(have)
			NewWithT(t).Expect(wrongObjects(want, have, tc.stays)).To(Equal(tc.want))
		})
	}
}

func with(texts map[string]string, key string) map[string]string {
	texts[key] = ""
	return texts
}

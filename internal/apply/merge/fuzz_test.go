package merge

import (
	"reflect"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// FuzzMerge proves for objects of any shape: nothing panics, inputs do not change, a second merge changes nothing, and an object
// does not differ from itself.
func FuzzMerge(f *testing.F) {
	for _, seed := range [][2]string{
		{
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"a":"b"}},"data":{"a":"b"}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`,
		},
		{
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"a":"b"}},"spec":{"replicas":1,` +
				`"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"x"}},"spec":{"containers":[{"name":"a",` +
				`"resources":{"limits":{"cpu":"1"}}}]}}}}`,
			`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"template":{"spec":{"containers":[{"name":"a"}]}}}}`,
		},
		{
			`{"apiVersion":"v1","kind":"Service","spec":{"type":"LoadBalancer","ports":[{"port":80,"nodePort":30080}],"clusterIP":"10.0.0.1"}}`,
			`{"apiVersion":"v1","kind":"Service","spec":{"type":"NodePort","ports":[{"port":80,"name":"x"}]}}`,
		},
		{
			`{"apiVersion":"batch/v1","kind":"Job","spec":{"selector":{},"template":{"metadata":{"labels":{"a":"b"}}}}}`,
			`{"apiVersion":"batch/v1","kind":"Job","spec":{"template":null}}`,
		},
		{
			`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"creationTimestamp":"x"},"spec":{"volumeClaimTemplates":[{}]}}`,
			`{"apiVersion":"apps/v1","kind":"StatefulSet","spec":{"volumeClaimTemplates":1}}`,
		},
		{
			`{"apiVersion":"batch/v1","kind":"CronJob","spec":{"jobTemplate":{"spec":{"template":[]}}}}`,
			`{"apiVersion":"batch/v1","kind":"CronJob","spec":{"jobTemplate":{"spec":{"template":{}}}}}`,
		},
		{
			`{"apiVersion":"v1","kind":"Secret","data":{"a":"!"},"stringData":{"a":1}}`,
			`{"apiVersion":"v1","kind":"Secret","stringData":{"a":"b"}}`,
		},
		{
			`{"apiVersion":"v1","kind":"ServiceAccount","secrets":[1,null,{"name":1.5}]}`,
			`{"apiVersion":"v1","kind":"ServiceAccount","secrets":{"name":[{"name":"x"},{"name":"x"}]}}`,
		},
		{
			`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1"}}}]}}`,
			`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1000m"}}},null]}}`,
		},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]), byte(0))
		f.Add([]byte(seed[0]), []byte(seed[1]), byte(0xff))
	}
	f.Fuzz(func(t *testing.T, liveJSON, manifestJSON []byte, switches byte) {
		g := NewWithT(t)
		live, manifest := readObject(liveJSON), readObject(manifestJSON)
		liveBefore, manifestBefore := live.DeepCopy(), manifest.DeepCopy()
		o := Options{
			Origin: "ns/mr", InjectLabels: map[string]string{"a": "b"},
			ForceLabels: switches&1 != 0, ForceAnnotations: switches&2 != 0, PreserveReplicas: switches&4 != 0, PreserveResources: switches&8 != 0,
		}
		if switches&16 != 0 {
			o.Previous = &resourcesv1alpha1.ObjectReference{Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"a": "b"}}
		}
		_, _ = MergeIgnored(live)
		_, _ = ForCreate(manifest, o)
		_ = Differences(live, manifest)
		merged, err := Merge(live, manifest, o)
		g.Expect(reflect.DeepEqual(live, liveBefore) && reflect.DeepEqual(manifest, manifestBefore)).To(BeTrue(), "inputs changed")
		if err != nil {
			return
		}
		again, err := Merge(live, manifest, o)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(again).To(Equal(merged))
		g.Expect(Differences(merged, again)).To(BeEmpty())
		_ = Differences(live, merged)
		for _, path := range Differences(live, merged) {
			_ = path.String()
		}
	})
}

// readObject reads an object from JSON and ignores errors.
func readObject(text []byte) *unstructured.Unstructured {
	object := map[string]any{}
	if err := json.Unmarshal(text, &object); err != nil || object == nil {
		object = map[string]any{}
	}
	return &unstructured.Unstructured{Object: object}
}

package status

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func entry(subresource, fields string, second int64) metav1.ManagedFieldsEntry {
	at := metav1.Unix(second, 0)
	return metav1.ManagedFieldsEntry{Manager: "any", Subresource: subresource, Time: &at, FieldsV1: metav1.NewFieldsV1(fields)}
}

func TestStatusIsWrittenByTheManagerThatRecordsChecksums(t *testing.T) {
	checksum := `{"f:status":{"f:secretsDataChecksum":{},"f:conditions":{}}}`
	for name, tc := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    time.Time
	}{
		"nothing is recorded":        {},
		"the checksum was never set": {entries: []metav1.ManagedFieldsEntry{entry("status", `{"f:status":{"f:conditions":{}}}`, 7)}},
		"the checksum was set": {
			entries: []metav1.ManagedFieldsEntry{entry("", `{"f:spec":{}}`, 9), entry("status", checksum, 7)},
			want:    time.Unix(7, 0),
		},
		"two managers set the checksum": {
			entries: []metav1.ManagedFieldsEntry{entry("status", checksum, 8), entry("status", checksum, 7)},
			want:    time.Unix(8, 0),
		},
		"an entry has no time": {entries: []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(checksum)}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{ManagedFields: tc.entries}}
			g.Expect(Written(mr)).To(BeTemporally("==", tc.want))
			shrunk, err := Shrink(mr)
			g.Expect(err).NotTo(HaveOccurred())
			kept, ok := shrunk.(*resourcesv1alpha1.ManagedResource)
			g.Expect(ok).To(BeTrue())
			g.Expect(Written(kept)).To(BeTemporally("==", tc.want))
		})
	}
}

func TestTheCacheTransformRemovesOnlyManagedFields(t *testing.T) {
	g := NewWithT(t)
	ref := func(name string, labels, annotations map[string]string) resourcesv1alpha1.ObjectReference {
		return resourcesv1alpha1.ObjectReference{
			ObjectReference: corev1.ObjectReference{
				APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns",
				Name: name,
			}, Labels: labels, Annotations: annotations,
		}
	}
	mr := &resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{Name: "set", ResourceVersion: "7", ManagedFields: []metav1.ManagedFieldsEntry{entry("", "{}", 1)}},
		Status: resourcesv1alpha1.ManagedResourceStatus{ObservedGeneration: 2, Resources: []resourcesv1alpha1.ObjectReference{
			ref("a", map[string]string{"l": "1"}, nil), ref("b", map[string]string{"l": "1"}, map[string]string{"x": "y"}), ref("c",
				map[string]string{"l": "2"}, nil),
		}},
	}
	want := mr.DeepCopy()
	want.ManagedFields = nil
	shrunk, err := Shrink(mr)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(shrunk).To(Equal(want))
}

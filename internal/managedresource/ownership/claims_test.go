package ownership

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// recordedAs returns a set with the annotation that records cluster IDs, or without it if value is nil.
func recordedAs(value *string) *resourcesv1alpha1.ManagedResource {
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mr"}}
	if value != nil {
		mr.Annotations = map[string]string{"espalier.dev/cluster-ids": *value}
	}
	return mr
}

func TestOriginWithAnotherClusterID(t *testing.T) {
	for name, tc := range map[string]struct {
		recorded *string
		origin   string
		want     Claim
	}{
		"an ID that the set had before":                    {recorded: new("old:new"), origin: "old:ns/mr", want: Former},
		"no ID, and the set had none before":               {recorded: new(""), origin: "ns/mr", want: Former},
		"no ID, and the set had none before and then one":  {recorded: new(":new"), origin: "ns/mr", want: Former},
		"an ID that the set never had":                     {recorded: new("new"), origin: "old:ns/mr", want: Unknown},
		"no ID, and the set always had one":                {recorded: new("new"), origin: "ns/mr", want: Unknown},
		"an ID, and nothing is recorded":                   {origin: "old:ns/mr", want: Doubtful},
		"no ID, and nothing is recorded":                   {origin: "ns/mr", want: Former},
		"another name, and an ID that the set had before":  {recorded: new("old"), origin: "old:ns/other", want: Unknown},
		"another namespace, and nothing is recorded of it": {origin: "old:other/mr", want: Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			origin, err := resourcesv1alpha1.ParseOrigin(tc.origin)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(foreignID(recordedAs(tc.recorded), origin)).To(Equal(tc.want))
		})
	}
}

func TestClusterIDIsRecordedBeforeAnObjectIsWritten(t *testing.T) {
	for name, tc := range map[string]struct {
		recorded *string
		isNew    bool
		want     *string
		id       string
	}{
		"a new set without an ID": {isNew: true},
		"a new set":               {id: "here", isNew: true, want: new("here")},
		"a set of an earlier version or another one": {id: "here"},
		"a set under the same ID":                    {id: "here", recorded: new("here"), want: new("here")},
		"a set under another ID":                     {id: "here", recorded: new("there"), want: new("there:here")},
		"a set that had an ID and has none now":      {recorded: new("there"), want: new("there:")},
	} {
		t.Run(name, func(t *testing.T) {
			mr := recordedAs(tc.recorded)
			RecordClusterID(mr, tc.id, tc.isNew)
			NewWithT(t).Expect(mr).To(BeComparableTo(recordedAs(tc.want)))
		})
	}
}

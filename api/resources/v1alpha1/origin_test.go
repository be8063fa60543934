package v1alpha1_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func TestParseOrigin(t *testing.T) {
	for name, tc := range map[string]struct {
		value string
		want  resourcesv1alpha1.Origin
	}{
		"without cluster ID": {value: "ns/mr", want: resourcesv1alpha1.Origin{Namespace: "ns", Name: "mr"}},
		"with cluster ID":    {value: "cid:ns/mr", want: resourcesv1alpha1.Origin{ClusterID: "cid", Namespace: "ns", Name: "mr"}},
		"with a slash in the cluster ID": {
			value: "land/scape:ns/mr", want: resourcesv1alpha1.Origin{ClusterID: "land/scape", Namespace: "ns", Name: "mr"},
		},
		"with dots and dashes in the name": {value: "kube-system/a.b-c", want: resourcesv1alpha1.Origin{Namespace: "kube-system", Name: "a.b-c"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := resourcesv1alpha1.ParseOrigin(tc.value)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(tc.want))
			g.Expect(got.String()).To(Equal(tc.value))
		})
	}
}

func TestParseOriginRejects(t *testing.T) {
	for name, value := range map[string]string{
		"nothing":                          "",
		"a name alone":                     "mr",
		"three colon-separated parts":      "a:b:ns/mr",
		"a second colon in the key":        "cid:ns:mr",
		"three slash-separated parts":      "ns/mr/x",
		"the same with cluster ID":         "cid:ns/mr/x",
		"a cluster ID without key":         "cid:",
		"a cluster ID with a name alone":   "cid:mr",
		"an empty cluster ID":              ":ns/mr",
		"an empty namespace":               "/mr",
		"an empty name":                    "ns/",
		"an empty name after a cluster ID": "cid:ns/",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := resourcesv1alpha1.ParseOrigin(value)
			g.Expect(err).To(MatchError(ContainSubstring(`parse origin "` + value + `"`)))
			g.Expect(got).To(Equal(resourcesv1alpha1.Origin{}))
		})
	}
}

func FuzzParseOrigin(f *testing.F) {
	f.Fuzz(func(t *testing.T, value string) {
		g := NewWithT(t)
		origin, err := resourcesv1alpha1.ParseOrigin(value)
		if err != nil {
			g.Expect(origin).To(Equal(resourcesv1alpha1.Origin{}))
			return
		}
		g.Expect(origin.String()).To(Equal(value))
		g.Expect(origin.Namespace).NotTo(BeEmpty())
		g.Expect(origin.Name).NotTo(BeEmpty())
		g.Expect(strings.ContainsAny(origin.Namespace+origin.Name, ":/")).To(BeFalse())
		g.Expect(origin.ClusterID).NotTo(ContainSubstring(":"))
	})
}

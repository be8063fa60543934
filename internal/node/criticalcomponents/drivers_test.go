package criticalcomponents

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

func TestBadAnnotations(t *testing.T) {
	long := strings.Repeat("a", 64)
	pod := podOf("a", "True", "ok", "Foo.csi.example.com", "empty", "", "list", "foo,bar", "space", " foo", "json", `["foo"]`, "long", long)
	pod.Annotations["other"] = "not, ours"
	const prefix, charset = "node.gardener.cloud/" +
		"wait-for-csi-node-", "only letters, digits, '-' and '.' may be in it, and it begins and ends with a letter or digit"
	NewWithT(t).Expect(badAnnotations(&pod)).To(Equal([]badAnnotation{
		{prefix + "empty", "", "it is empty"},
		{prefix + "json", `["foo"]`, charset},
		{prefix + "list", "foo,bar", charset},
		{prefix + "long", long, "it has more than 63 characters"},
		{prefix + "space", " foo", charset},
	}))
}

// For any value of the annotation, a Node keeps its taint until exactly that driver is registered, and the note about it is valid.
func FuzzWaitForCSINode(f *testing.F) {
	for _, seed := range []string{"", "foo", "foo,bar", `["foo"]`, "\x00\xff", "Foo.Example", strings.Repeat("ü", 600)} {
		f.Add("suffix", seed)
	}
	f.Fuzz(func(t *testing.T, suffix, value string) {
		g := NewWithT(t)
		pods := []corev1.Pod{podOf("a", "True", suffix, value)}
		required := requiredDrivers(pods)
		g.Expect(required).To(Equal([]string{value}))
		g.Expect(missingDrivers(required, nil)).To(Equal(required))
		g.Expect(missingDrivers(required, registering(value))).To(BeEmpty())
		found := finding{cause: unregistered, drivers: required}
		notes := []string{found.note(), found.related(nodeWith()).FieldPath}
		for _, bad := range badAnnotations(&pods[0]) {
			if len(suffix) <= 63 { // the API server refuses a longer suffix
				notes = append(notes, bad.note("n1"))
			}
		}
		for _, note := range notes {
			g.Expect(len(note)).To(BeNumerically("<=", maxNote))
			g.Expect(strings.ToValidUTF8(note, "")).To(Equal(note))
		}
		g.Expect(slices.ContainsFunc(notes[2:], func(string) bool { return true })).To(Equal(notADriverName(value) != "" && len(suffix) <= 63))
	})
}

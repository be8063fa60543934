package applier

import (
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/events"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func TestNoteOfAnEventIsCutBetweenCharacters(t *testing.T) {
	g := NewWithT(t)
	for _, start := range []string{"", "x"} { // of characters with two bytes, one of these is cut in the middle
		recorder := events.NewFakeRecorder(1)
		(&Events{Recorder: recorder}).send(&resourcesv1alpha1.ManagedResource{}, nil, "Warning", "Reason", "Action",
			start+strings.Repeat("ü", maxNote))
		note := strings.TrimPrefix(<-recorder.Events, "Warning Reason ")
		g.Expect(utf8.ValidString(note)).To(BeTrue())
		g.Expect(len(note)).To(BeNumerically("<=", maxNote))
	}
}

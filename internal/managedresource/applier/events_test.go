package applier

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/state"
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

func TestAPauseBlamesNoManagerThatIsNotKnown(t *testing.T) {
	i := &state.Object{Item: &desired.Item{Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}}
	i.Key = inventory.KeyOf("", "ConfigMap", "ns", "a")
	for manager, want := range map[string]string{
		"kubectl-edit": `field manager "kubectl-edit" changes it again and again`,
		"":             "it is deleted or changed again and again, and its managedFields do not show which program does this",
	} {
		recorder := events.NewFakeRecorder(1)
		(&Events{Recorder: recorder}).repairPaused(&resourcesv1alpha1.ManagedResource{}, i, manager, time.Minute)
		NewWithT(t).Expect(<-recorder.Events).To(HaveSuffix("Repairs of v1 ConfigMap ns/a pause for 1m0s: " + want))
	}
}

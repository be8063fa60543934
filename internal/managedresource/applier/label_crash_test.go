package applier_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// The manifest changes a label, the process dies before it has written the change, and the next manifest has no such label.
func TestALabelThatWasChangingDuringACrashIsRemoved(t *testing.T) {
	e := managedresourcetest.New(t, managedresourcetest.Options{})
	e.Set("one", e.ConfigMap("c", "1", "labels: {phase: a}", "annotations: {note: a}"))
	e.AwaitApplied("one", "True/ApplySucceeded")
	e.Requests.Hook(func(r *http.Request) error {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/configmaps/c") {
			return errors.New("the process dies here")
		}
		return nil
	})
	e.Secret("one", e.ConfigMap("c", "2", "labels: {phase: b}", "annotations: {note: b}"))
	e.AwaitApplied("one", "False/ApplyFailed")
	e.Restart(func() {
		e.Requests.Hook(nil)
		e.Secret("one", e.ConfigMap("c", "3"))
	})
	e.AwaitData("c", "3")
	live := e.LiveConfigMap("c")
	e.Expect(live.Labels).NotTo(HaveKey("phase"))
	e.Expect(live.Annotations).NotTo(HaveKey("note"))
}

package lifecycle_test

import (
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
)

// The specification that was validated must be the one that is deployed.
func TestOperationDoesNotBeginIfTheGardenHasChanged(t *testing.T) {
	s := newScene(t)
	s.create()
	changed := false
	s.requests.SetHook(func(r *http.Request) error {
		if !changed && r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/status") {
			changed = true
			s.edit(func(g *operatorv1alpha1.Garden) { g.Spec.RuntimeCluster.Provider.Zones = []string{"a"} })
		}
		return nil
	})
	_, err := s.reconcile()
	s.requests.SetHook(nil)
	s.Expect(conflict.Only(err)).To(BeTrue(), "%v", err)
	s.Expect(s.get().Status.LastOperation).To(BeNil())
}

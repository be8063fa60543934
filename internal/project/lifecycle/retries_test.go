package lifecycle_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/projecttest"
)

// failing creates a Project whose namespace has no labels, and lets it fail until the next retry is a quarter of an hour away.
func (s *fixture) failing(namespace string) *corev1beta1.Project {
	s.T.Helper()
	s.createNamespace(namespace, nil, nil)
	p := s.create(in(namespace))
	s.eventually(p, "Failed")
	for attempt := range 20 {
		s.edit(p, func(p *corev1beta1.Project) { p.Spec.Description = new(fmt.Sprintf("attempt %d", attempt)) })
		s.eventually(p, "Failed")
	}
	return s.Get(p)
}

// patches reports whether a request patches a Project, but not its status.
func patches(r *http.Request, project string) bool {
	return r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/projects/"+project)
}

func TestConflictAtTheFinalizerOfAProjectThatFailedIsRetriedAtOnce(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.failing("garden-conflict")
	name := p.Name // the hook runs in other goroutines while the test writes to p
	var conflicts atomic.Int32
	s.Requests.SetHook(func(r *http.Request) error {
		if patches(r, name) && conflicts.Add(1) == 1 {
			return apierrors.NewConflict(schema.GroupResource{Group: "core.gardener.cloud", Resource: "projects"}, name, errors.New("changed"))
		}
		return nil
	})
	s.delete(p)
	s.eventuallyGone(p)
	s.Expect(conflicts.Load()).To(BeEquivalentTo(2), "the second attempt is the last")
}

func TestLabelOfItsNamespaceEnqueuesAFailedProject(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.failing("garden-labelled")
	s.patch(s.namespace("garden-labelled"),
		fmt.Sprintf(`{"metadata":{"labels":{"gardener.cloud/role":"project","project.gardener.cloud/name":%q}}}`, p.Name))
	s.eventually(p, "Ready")
}

func TestDeletedNamespaceEnqueuesTheProjectThatWaitsForItsName(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.failing("garden-freed")
	s.Expect(s.Admin.Delete(s.Ctx, s.namespace("garden-freed"))).To(Succeed())
	s.eventually(p, "Ready")
}

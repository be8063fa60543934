package stale_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/project/projecttest"
)

// credentialsBinding creates a CredentialsBinding, and a Shoot in its namespace that uses it.
func (s *fixture) credentialsBinding(in, kind, namespace string, quotas ...any) {
	s.T.Helper()
	binding := &unstructured.Unstructured{Object: map[string]any{
		"credentialsRef": map[string]any{"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": "credentials"}, "quotas": quotas,
	}}
	binding.SetAPIVersion("security.gardener.cloud/v1alpha1")
	binding.SetKind("CredentialsBinding")
	binding.SetNamespace(in)
	binding.SetName("account")
	s.Eventually(func() error { return s.Admin.Create(s.Ctx, binding) }).Should(Succeed())
	s.create("Shoot", in, "s", map[string]any{"spec": map[string]any{"credentialsBindingName": "account"}})
}

func TestCredentialsUsedThroughACredentialsBindingKeepTheirProject(t *testing.T) {
	for name, use := range map[string]func(s *fixture, other, own string) string{
		"a Secret": func(s *fixture, other, own string) string {
			s.secret(own)
			s.credentialsBinding(other, "Secret", own)
			return "used by Secret"
		},
		"a WorkloadIdentity": func(s *fixture, other, own string) string {
			s.credentialsBinding(other, "WorkloadIdentity", own)
			return "used by CredentialsBinding"
		},
		"a Quota": func(s *fixture, other, own string) string {
			s.create("Quota", own, "limits", map[string]any{"spec": map[string]any{"scope": map[string]any{"apiVersion": "v1", "kind": "Secret"}}})
			s.credentialsBinding(other, "Secret", other, map[string]any{"namespace": own, "name": "limits"})
			return "used by Quota"
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, projecttest.Options{})
			p := s.project()
			other := s.namespace("other")
			s.age(p, 40*day)
			s.expectPlan(p, "unused")
			want := use(s, other, *p.Spec.Namespace)
			s.Eventually(func() string { s.status(p, 31*day, 0, 0); return s.pass(p) }).Should(Equal(want))
			s.becomes(p, unmarked())
		})
	}
}

// The caches have no binding; the API server has it at the check before the deletion.
func TestCredentialsBindingThatTheCacheMissesSavesTheProject(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true, Configure: atOnce})
	p := s.project(withFinalizer)
	s.secret(*p.Spec.Namespace)
	other := s.namespace("other")
	s.age(p, 1000*day)
	var done atomic.Bool
	s.Requests.SetHook(func(r *http.Request) error {
		if strings.HasPrefix(r.URL.Path, "/apis/core.gardener.cloud/v1beta1/namespaces/"+*p.Spec.Namespace+"/plants") &&
			done.CompareAndSwap(false, true) {
			s.credentialsBinding(other, "Secret", *p.Spec.Namespace)
		}
		return nil
	})
	s.Start()
	s.stays(p, "used by Secret", unmarked())
	s.Expect(done.Load()).To(BeTrue())
}

func TestCredentialsBindingsThatCannotBeReadLeaveProjectsUndecided(t *testing.T) {
	const group = "/apis/security.gardener.cloud/v1alpha1"
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no right"))
	for name, tc := range map[string]struct {
		path string
		err  error
	}{
		"a missing right":           {group + "/credentialsbindings", forbidden},
		"a discovery without reply": {group, errors.New("out of order")},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, projecttest.Options{Stopped: true, Configure: atOnce})
			p, used := s.project(withFinalizer), s.project(withFinalizer)
			s.create("Shoot", *used.Spec.Namespace, "s", nil)
			s.age(p, 1000*day)
			var asked atomic.Bool
			s.Requests.SetHook(failsAt(tc.path, tc.err, &asked))
			s.Start()
			s.stays(p, "undecided", unmarked())
			s.expectPlan(used, "used by Shoot")
			s.Eventually(asked.Load).Should(BeTrue())
			s.Requests.SetHook(nil)
			s.Eventually(func() bool { return s.deleted(p) }, recovery).Should(BeTrue())
		})
	}
}

func TestClusterWithoutCredentialsBindingsJudgesProjects(t *testing.T) {
	s := newScene(t, projecttest.Options{CRDs: []string{"shoots"}})
	p := s.project()
	s.age(p, 40*day)
	s.expectPlan(p, "unused")
	s.stays(p, "unused", since(40*day))
}

package extension_test

import (
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/test/binary"
)

// drive reconciles, and makes ManagedResources ready, until a run writes nothing, the Extension is gone, or the process is cut off.
func (s *scene) drive() {
	s.t.Helper()
	s.Expect(s.requests.Drive(20, func() error {
		e := &operatorv1alpha1.Extension{}
		if err := s.admin.Get(s.ctx, client.ObjectKey{Name: "shop"}, e); apierrors.IsNotFound(err) {
			return nil
		}
		for _, each := range s.sets() {
			s.apply(each)
		}
		_, err := s.reconciler.Reconcile(s.ctx, e)
		return err
	})).To(Succeed())
}

// state describes the Extension and its ManagedResources; it is empty if none of them exists.
func (s *scene) state() []string {
	s.t.Helper()
	state := []string{}
	e := &operatorv1alpha1.Extension{}
	if err := s.admin.Get(s.ctx, client.ObjectKey{Name: "shop"}, e); err == nil {
		state = append(state, fmt.Sprint("finalizers ", e.Finalizers), fmt.Sprintf("charts %+v", e.Status.Charts))
		for _, each := range e.Status.Conditions {
			state = append(state, fmt.Sprintf("condition %s %s %s: %s", each.Type, each.Status, each.Reason, each.Message))
		}
	} else {
		s.Expect(err).To(MatchError(apierrors.IsNotFound, "gone"))
	}
	for _, name := range s.sets() {
		for file, content := range s.contents(name) {
			state = append(state, fmt.Sprintf("ManagedResource %s, file %s: %s", name, file, content))
		}
	}
	access := s.object("{apiVersion: v1, kind: Secret, metadata: {name: shoot-access-extension-admission-shop}}")
	access.SetNamespace(s.namespace)
	if err := s.admin.Get(s.ctx, client.ObjectKeyFromObject(access), access); err == nil {
		state = append(state, fmt.Sprintf("access %v", access.GetAnnotations()))
	}
	slices.Sort(state)
	return state
}

// TestCrashPointsEndInTheSameState cuts the operator off at its requests while it installs, changes and deletes an Extension. The next
// process must reach the state of a run without a cut.
func TestCrashPointsEndInTheSameState(t *testing.T) {
	s := newScene(t)
	s.recorder = &events.FakeRecorder{} // it drops the Events
	s.reconciler = s.reconcilerAnew()
	s.garden(operatorv1alpha1.LastOperationSucceeded)
	s.secret("image", map[string]string{"name": "example.org/shop:1"})
	const reference = "    resources: [{name: image, resourceRef: {apiVersion: v1, kind: Secret, name: image}}]\n"
	first := resources + "  deployment:\n    extension: {helm: {rawChart: " + raw(t, configMapChart()) + "}}\n" +
		"    admission:\n      runtimeCluster: {helm: {rawChart: " + raw(t, runtimeChart()) + "}}\n" +
		"      virtualCluster: {helm: {rawChart: " + raw(t, virtualChart()) + "}}\n" +
		"      values: {image: '{{ .resources.image.data.name }}'}\n" + reference
	second := resources + "  deployment:\n    extension: {helm: {rawChart: " + raw(t, configMapChart()) + "}, values: {a: b}}\n" + reference
	create := func() {
		s.create(first)
		s.require("True") // so that the extension itself is deployed, too
	}
	change := func() {
		e := s.get()
		e.Spec = operatorv1alpha1.ExtensionSpec{}
		s.Expect(yaml.UnmarshalStrict([]byte("spec:\n"+second), e)).To(Succeed())
		s.Expect(s.admin.Update(s.ctx, e)).To(Succeed())
	}
	remove := func() { s.Expect(s.admin.Delete(s.ctx, s.get())).To(Succeed()) }
	for name, acts := range map[string][]func(){"installation": {create}, "change": {create, change}, "deletion": {create, remove}} {
		t.Run(name, func(t *testing.T) {
			var ends [][]string
			tried := binary.EveryCut(t, 15, func(t *testing.T, at binary.Cut) bool {
				t.Helper()
				for i, act := range acts {
					act()
					if i == len(acts)-1 {
						s.requests.CutOff(at)
					}
					s.drive()
				}
				happened := s.requests.Connect()
				s.reconciler = s.reconcilerAnew()
				s.drive()
				ends = append(ends, s.state())
				if name != "deletion" {
					remove()
					s.drive()
				}
				s.Expect(s.state()).To(BeEmpty())
				return happened
			})
			s.Expect(tried).To(BeNumerically(">=", 4))
			if name == "installation" {
				s.Expect(ends[0]).To(ContainElements(HavePrefix("access "), HavePrefix("ManagedResource extension-shop-garden, ")))
			}
			for _, each := range ends { // the last one is of the run without a cut
				s.Expect(each).To(Equal(ends[len(ends)-1]))
			}
		})
	}
}

package activity_test

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/projecttest"
	"github.com/espalier-dev/espalier/test/binary"
)

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServers(m)) }

// scene is a controller whose time stands still, with a Project whose namespace is not labelled.
type scene struct {
	*projecttest.Env
	clock     *clocktesting.FakeClock
	project   *corev1beta1.Project
	namespace string
}

func newScene(t *testing.T, o projecttest.Options) *scene {
	t.Helper()
	s := &scene{clock: clocktesting.NewFakeClock(time.Now().Truncate(time.Second))}
	o.Clock = s.clock
	s.Env = projecttest.New(t, o)
	s.SetDefaultEventuallyTimeout(binary.Patience)
	s.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	s.namespace = s.newNamespace()
	s.project = s.Project("active", func(p *corev1beta1.Project) { p.Spec.Namespace = &s.namespace })
	s.Expect(s.Admin.Create(s.Ctx, s.project)).To(Succeed())
	return s
}

func (s *scene) newNamespace() string {
	s.T.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "garden-"}}
	s.Expect(s.Admin.Create(s.Ctx, namespace)).To(Succeed())
	return namespace.Name
}

func (s *scene) last() *time.Time {
	s.T.Helper()
	if last := s.Get(s.project).Status.LastActivityTimestamp; last != nil {
		return &last.Time
	}
	return nil
}

// advances does something a minute later, and requires that it is noted as activity.
func (s *scene) advances(what string, do func()) {
	s.T.Helper()
	s.clock.Step(time.Minute)
	do()
	s.Eventually(s.last).Should(HaveValue(BeTemporally("==", s.clock.Now())), what)
}

// unnoticed does something a minute later, and requires that it is not noted. What is done after it is, so that it was seen.
func (s *scene) unnoticed(what string, do func()) {
	s.T.Helper()
	before := s.last()
	s.clock.Step(time.Minute)
	do()
	s.Consistently(s.last, 300*time.Millisecond, 50*time.Millisecond).Should(Equal(before), what)
}

func (s *scene) object(kind string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"bucketName": "b", "secretRef": map[string]any{"name": "s"}, "scope": map[string]any{"apiVersion": "v1", "kind": "Secret"},
	}}}
	object.SetAPIVersion("core.gardener.cloud/v1beta1")
	object.SetKind(kind)
	if kind == "Secret" {
		object.Object = map[string]any{}
		object.SetAPIVersion("v1")
		object.SetKind(kind)
	}
	object.SetNamespace(s.namespace)
	object.SetName("thing")
	return object
}

func (s *scene) patch(object *unstructured.Unstructured, patch string) {
	s.T.Helper()
	s.Expect(s.Admin.Patch(s.Ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

func TestAcceptance49And50ChangesOfWhatIsWantedAreActivityAndOthersAreNot(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	for _, kind := range []string{"Shoot", "BackupEntry", "Plant"} {
		object := s.object(kind)
		s.advances(kind+" created", func() { s.Expect(s.Admin.Create(s.Ctx, object)).To(Succeed()) })
		s.unnoticed(kind+" labelled", func() { s.patch(object, `{"metadata":{"labels":{"a":"b"}}}`) })
		s.unnoticed(kind+" status", func() {
			s.Expect(s.Admin.Status().Patch(s.Ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"status":{"observedGeneration":1}}`)))).To(Succeed())
		})
		s.advances(kind+" changed", func() { s.patch(object, `{"spec":{"seedName":"other"}}`) })
		s.advances(kind+" deleted", func() { s.Expect(s.Admin.Delete(s.Ctx, object)).To(Succeed()) })
	}
}

func TestAcceptance51SecretsAndQuotasCountWhileTheyAreLabelled(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	for _, kind := range []string{"Secret", "Quota"} {
		object := s.object(kind)
		s.unnoticed(kind+" created", func() { s.Expect(s.Admin.Create(s.Ctx, object)).To(Succeed()) })
		s.unnoticed(kind+" changed", func() { s.patch(object, `{"metadata":{"annotations":{"a":"b"}}}`) })
		s.advances(kind+" labelled", func() {
			s.patch(object, `{"metadata":{"labels":{"reference.gardener.cloud/secretbinding":"true"}}}`)
		})
		s.advances(kind+" changed with label", func() { s.patch(object, `{"metadata":{"annotations":{"a":"c"}}}`) })
		s.advances(kind+" not labelled any longer", func() {
			s.patch(object, `{"metadata":{"labels":{"reference.gardener.cloud/secretbinding":null}}}`)
		})
		s.unnoticed(kind+" deleted", func() { s.Expect(s.Admin.Delete(s.Ctx, object)).To(Succeed()) })
		object = s.object(kind)
		object.SetLabels(map[string]string{"reference.gardener.cloud/secretbinding": "any"})
		s.advances(kind+" created with label", func() { s.Expect(s.Admin.Create(s.Ctx, object)).To(Succeed()) })
		s.advances(kind+" deleted with label", func() { s.Expect(s.Admin.Delete(s.Ctx, object)).To(Succeed()) })
	}
}

func TestAcceptance52WhatIsOlderThanAnHourIsNotNew(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true})
	shoot := s.object("Shoot")
	s.Expect(s.Admin.Create(s.Ctx, shoot)).To(Succeed())
	s.clock.SetTime(shoot.GetCreationTimestamp().Add(time.Hour + time.Second))
	s.Start()
	s.unnoticed("restart", func() {})
	s.Restart(func() { s.clock.SetTime(shoot.GetCreationTimestamp().Add(time.Hour)) })
	s.Eventually(s.last).Should(HaveValue(BeTemporally("==", shoot.GetCreationTimestamp().Add(time.Hour))))
}

func TestAcceptance53NamespacesOfNoProjectAreNoConcern(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	own := s.namespace
	s.namespace = s.newNamespace()
	stray := s.object("Shoot")
	s.unnoticed("stray", func() { s.Expect(s.Admin.Create(s.Ctx, stray)).To(Succeed()) })
	s.namespace = own
	s.advances("its own", func() { s.Expect(s.Admin.Create(s.Ctx, s.object("Shoot"))).To(Succeed()) })
}

package activity_test

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
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

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }

// fixture is a controller with a fake clock, and a Project whose namespace has no labels.
type fixture struct {
	*projecttest.Env
	clock     *clocktesting.FakeClock
	project   *corev1beta1.Project
	namespace string
	log       *failures
	// other is a Project whose activity shows that earlier events have been processed.
	other          *corev1beta1.Project
	otherNamespace string
}

// failures is a log sink that keeps errors.
type failures struct {
	mu   sync.Mutex
	seen []string
}

func (*failures) Init(logr.RuntimeInfo)            {}
func (*failures) Enabled(int) bool                 { return true }
func (*failures) Info(int, string, ...any)         {}
func (f *failures) WithName(string) logr.LogSink   { return f }
func (f *failures) WithValues(...any) logr.LogSink { return f }
func (f *failures) Error(err error, message string, _ ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, fmt.Sprintf("%s: %v", message, err))
}

func (f *failures) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seen)
}

func newScene(t *testing.T, o projecttest.Options) *fixture {
	t.Helper()
	s := &fixture{clock: clocktesting.NewFakeClock(time.Now().Truncate(time.Second))}
	s.log = &failures{}
	o.Clock, o.Log = s.clock, logr.New(s.log)
	s.Env = projecttest.New(t, o)
	s.SetDefaultEventuallyTimeout(binary.Patience)
	s.namespace = s.newNamespace()
	s.project = s.Project("active", func(p *corev1beta1.Project) { p.Spec.Namespace = &s.namespace })
	s.Expect(s.Admin.Create(s.Ctx, s.project)).To(Succeed())
	s.otherNamespace = s.newNamespace()
	s.other = s.Project("other", func(p *corev1beta1.Project) { p.Spec.Namespace = &s.otherNamespace })
	s.Expect(s.Admin.Create(s.Ctx, s.other)).To(Succeed())
	return s
}

func (s *fixture) newNamespace() string {
	s.T.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "garden-"}}
	s.Expect(s.Admin.Create(s.Ctx, namespace)).To(Succeed())
	return namespace.Name
}

func (s *fixture) last() *time.Time { return s.lastOf(s.project) }

func (s *fixture) lastOf(p *corev1beta1.Project) *time.Time {
	s.T.Helper()
	if last := s.Get(p).Status.LastActivityTimestamp; last != nil {
		return &last.Time
	}
	return nil
}

// advances sets the clock a minute ahead, runs a function, and requires that the controller records it as activity.
func (s *fixture) advances(what string, do func()) {
	s.T.Helper()
	s.clock.Step(time.Minute)
	do()
	s.Eventually(s.last).Should(HaveValue(BeTemporally("==", s.clock.Now())), what)
}

// unnoticed sets the clock a minute ahead, changes an object of a kind, and requires that the controller does not record this change. It
// waits until a later change of another object of the kind is recorded: the events of a kind arrive in the order of their changes.
func (s *fixture) unnoticed(kind, what string, do func()) {
	s.T.Helper()
	before := s.last()
	s.clock.Step(time.Minute)
	do()
	s.sentinel(kind)
	s.Consistently(s.last, 100*time.Millisecond, 20*time.Millisecond).Should(Equal(before), kind+" "+what)
}

// sentinel creates an object of a kind in the other Project, and waits until it is recorded there.
func (s *fixture) sentinel(kind string) {
	s.T.Helper()
	sentinel := s.object(kind)
	sentinel.SetNamespace(s.otherNamespace)
	sentinel.SetName("")
	sentinel.SetGenerateName("sentinel-")
	sentinel.SetLabels(map[string]string{"reference.gardener.cloud/secretbinding": "true"})
	s.Expect(s.Admin.Create(s.Ctx, sentinel)).To(Succeed())
	s.Eventually(func() *time.Time { return s.lastOf(s.other) }).Should(HaveValue(BeTemporally("==", s.clock.Now())), kind)
}

func (s *fixture) object(kind string) *unstructured.Unstructured {
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

func (s *fixture) patch(object *unstructured.Unstructured, patch string) {
	s.T.Helper()
	s.Expect(s.Admin.Patch(s.Ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

func TestOnlyChangesOfTheSpecAreActivity(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	for _, kind := range []string{"Shoot", "BackupEntry", "Plant"} {
		object := s.object(kind)
		s.advances(kind+" created", func() { s.Expect(s.Admin.Create(s.Ctx, object)).To(Succeed()) })
		s.unnoticed(kind, "labelled", func() { s.patch(object, `{"metadata":{"labels":{"a":"b"}}}`) })
		s.unnoticed(kind, "status", func() {
			s.Expect(s.Admin.Status().Patch(s.Ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"status":{"observedGeneration":1}}`)))).
				To(Succeed())
		})
		s.advances(kind+" changed", func() { s.patch(object, `{"spec":{"seedName":"other"}}`) })
		s.advances(kind+" deleted", func() { s.Expect(s.Admin.Delete(s.Ctx, object)).To(Succeed()) })
	}
}

func TestSecretsAndQuotasCountWhileTheyAreLabelled(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	for _, kind := range []string{"Secret", "Quota"} {
		object := s.object(kind)
		s.unnoticed(kind, "created", func() { s.Expect(s.Admin.Create(s.Ctx, object)).To(Succeed()) })
		s.unnoticed(kind, "changed", func() { s.patch(object, `{"metadata":{"annotations":{"a":"b"}}}`) })
		s.advances(kind+" labelled", func() {
			s.patch(object, `{"metadata":{"labels":{"reference.gardener.cloud/secretbinding":"true"}}}`)
		})
		s.advances(kind+" changed with label", func() { s.patch(object, `{"metadata":{"annotations":{"a":"c"}}}`) })
		s.advances(kind+" not labelled any longer", func() {
			s.patch(object, `{"metadata":{"labels":{"reference.gardener.cloud/secretbinding":null}}}`)
		})
		s.unnoticed(kind, "deleted", func() { s.Expect(s.Admin.Delete(s.Ctx, object)).To(Succeed()) })
		object = s.object(kind)
		object.SetLabels(map[string]string{"reference.gardener.cloud/secretbinding": "any"})
		s.advances(kind+" created with label", func() { s.Expect(s.Admin.Create(s.Ctx, object)).To(Succeed()) })
		s.advances(kind+" deleted with label", func() { s.Expect(s.Admin.Delete(s.Ctx, object)).To(Succeed()) })
	}
}

func TestObjectsOlderThanAnHourAreNotActivity(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true})
	shoot := s.object("Shoot")
	s.Expect(s.Admin.Create(s.Ctx, shoot)).To(Succeed())
	old := shoot.GetCreationTimestamp().Time
	time.Sleep(time.Until(old.Add(1100 * time.Millisecond))) // the next is younger by a second or two
	young := s.object("Shoot")
	young.SetNamespace(s.otherNamespace)
	s.Expect(s.Admin.Create(s.Ctx, young)).To(Succeed())
	s.Expect(young.GetCreationTimestamp().Time).To(BeTemporally(">", old))
	s.clock.SetTime(young.GetCreationTimestamp().Add(time.Hour))
	s.Start()
	s.Eventually(func() *time.Time { return s.lastOf(s.other) }).
		Should(HaveValue(BeTemporally("==", s.clock.Now())), "exactly an hour, in the same list")
	s.Consistently(s.last, 100*time.Millisecond, 20*time.Millisecond).Should(BeNil(), "older than an hour")
	s.Restart(func() { s.clock.SetTime(old.Add(time.Hour)) })
	s.Eventually(s.last).Should(HaveValue(BeTemporally("==", old.Add(time.Hour))))
}

func TestNamespacesWithoutProjectAreIgnored(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	s.sentinel("Shoot")
	own, known := s.namespace, len(s.log.all()) // errors that other loops may have logged
	s.namespace = s.newNamespace()
	stray := s.object("Shoot")
	s.unnoticed("Shoot", "stray", func() { s.Expect(s.Admin.Create(s.Ctx, stray)).To(Succeed()) })
	s.namespace = own
	s.advances("its own", func() { s.Expect(s.Admin.Create(s.Ctx, s.object("Shoot"))).To(Succeed()) })
	s.Expect(s.log.all()[known:]).NotTo(ContainElement(ContainSubstring(stray.GetNamespace())))
	s.Expect(s.Requests.Writes()).
		NotTo(ContainElement(ContainSubstring("PATCH /apis/core.gardener.cloud/v1beta1/projects/" + stray.GetNamespace())))
}

// The event of a Shoot may arrive before the Project that it belongs to.
func TestActivityWaitsForItsProject(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	s.namespace = s.newNamespace()
	s.Expect(s.Admin.Create(s.Ctx, s.object("Shoot"))).To(Succeed())
	s.sentinel("Shoot")
	late := s.Project("late", func(p *corev1beta1.Project) { p.Spec.Namespace = &s.namespace })
	s.Expect(s.Admin.Create(s.Ctx, late)).To(Succeed())
	s.Eventually(func() *time.Time { return s.lastOf(late) }).Should(HaveValue(BeTemporally("==", s.clock.Now())))
}

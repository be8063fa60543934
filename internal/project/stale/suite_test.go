package stale_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/projecttest"
	"github.com/espalier-dev/espalier/test/binary"
)

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServers(m)) }

const day = 24 * time.Hour

// verdicts records the verdict of the stale loop for each Project, with the version that was judged.
type verdicts struct {
	mu       sync.Mutex
	last     map[string]verdict
	failures []string
}

type verdict struct {
	version int
	text    string
	count   int
}

// sink is a log sink that records verdicts.
type sink struct {
	*verdicts
	values map[string]any
}

func (s sink) Init(logr.RuntimeInfo)               {}
func (s sink) Enabled(int) bool                    { return true }
func (s sink) Error(err error, _ string, _ ...any) { s.noteError(err) }
func (s sink) WithName(string) logr.LogSink        { return s }
func (s sink) WithValues(kv ...any) logr.LogSink {
	values := map[string]any{}
	maps.Copy(values, s.values)
	for i := 0; i+1 < len(kv); i += 2 {
		values[fmt.Sprint(kv[i])] = kv[i+1]
	}
	return sink{s.verdicts, values}
}

func (s sink) Info(_ int, message string, kv ...any) {
	if message != "Judged project" {
		return
	}
	version, _ := strconv.Atoi(fmt.Sprint(s.values["resourceVersion"]))
	name := fmt.Sprint(s.values["name"])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[name] = verdict{version, fmt.Sprint(kv[1]), s.last[name].count + 1}
}

func (v *verdicts) of(p *corev1beta1.Project) verdict {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last[p.Name]
}

func (v *verdicts) noteError(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failures = append(v.failures, fmt.Sprint(err))
}

// errors returns the errors that have been logged so far.
func (v *verdicts) errors() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.failures)
}

// fixture is a controller with a fake clock.
type fixture struct {
	*projecttest.Env
	clock    *clocktesting.FakeClock
	verdicts *verdicts
	number   int
	began    time.Time
}

func newScene(t *testing.T, o projecttest.Options) *fixture {
	t.Helper()
	s := &fixture{began: time.Now(), clock: clocktesting.NewFakeClock(time.Now()), verdicts: &verdicts{last: map[string]verdict{}}}
	if o.Clock == nil {
		o.Clock = s.clock
	}
	o.Log = logr.New(sink{s.verdicts, nil})
	s.Env = projecttest.New(t, o)
	s.SetDefaultEventuallyTimeout(binary.Patience)
	return s
}

// project creates a Project with its namespace.
func (s *fixture) project(change ...func(*corev1beta1.Project)) *corev1beta1.Project {
	s.T.Helper()
	s.number++
	p := s.Project(fmt.Sprintf("p%d", s.number))
	namespace := s.namespace(p.Name)
	p.Spec.Namespace = &namespace
	for _, each := range change {
		each(p)
	}
	s.Expect(s.Admin.Create(s.Ctx, p)).To(Succeed())
	return p
}

// namespace creates a namespace that the Project of the given name may adopt.
func (s *fixture) namespace(project string) string {
	s.T.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "garden-" + project + "-", Labels: map[string]string{
		"gardener.cloud/role": "project", "project.gardener.cloud/name": project,
	}}}
	s.Expect(s.Admin.Create(s.Ctx, namespace)).To(Succeed())
	return namespace.Name
}

// create creates an object of a kind of Gardener; content is everything except the metadata.
func (s *fixture) create(kind, namespace, name string, content map[string]any) *unstructured.Unstructured {
	s.T.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	maps.Copy(object.Object, content)
	object.SetAPIVersion("core.gardener.cloud/v1beta1")
	object.SetKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	s.Eventually(func() error { return s.Admin.Create(s.Ctx, object) }).Should(Succeed())
	return object
}

func (s *fixture) secret(namespace string, change ...func(*corev1.Secret)) {
	s.T.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "credentials"}}
	for _, each := range change {
		each(secret)
	}
	s.Expect(s.Admin.Create(s.Ctx, secret)).To(Succeed())
}

// shootWith is the content of a Shoot that uses a SecretBinding.
func shootWith(binding string) map[string]any {
	return map[string]any{"spec": map[string]any{"secretBindingName": binding}}
}

func bindingOf(namespace, secret string) map[string]any {
	return map[string]any{"secretRef": map[string]any{"namespace": namespace, "name": secret}}
}

// age sets the clock to the given time after the Project's creation.
func (s *fixture) age(p *corev1beta1.Project, age time.Duration) {
	s.clock.SetTime(p.CreationTimestamp.Add(age))
}

// status writes the ages as timestamps; 0 omits one.
func (s *fixture) status(p *corev1beta1.Project, staleSince, autoDelete, lastActivity time.Duration) {
	s.T.Helper()
	text := func(age time.Duration) string {
		if age == 0 {
			return "null"
		}
		return strconv.Quote(p.CreationTimestamp.Add(age).UTC().Format(time.RFC3339))
	}
	s.Expect(s.Admin.Status().Patch(s.Ctx, p.DeepCopy(), client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
		`{"status":{"staleSinceTimestamp":%s,"staleAutoDeleteTimestamp":%s,"lastActivityTimestamp":%s}}`, text(staleSince), text(autoDelete),
		text(lastActivity))))).To(Succeed())
}

// touchProject triggers a reconciliation of a Project, and updates the given object.
func (s *fixture) touchProject(p *corev1beta1.Project) error {
	return s.Admin.Patch(s.Ctx, p,
		client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"poked":"%d"}}}`, time.Now().UnixNano())))
}

// pass triggers a reconciliation of a Project, and returns its verdict. A verdict that waits for caches does not count.
func (s *fixture) pass(p *corev1beta1.Project) string {
	s.T.Helper()
	poked := p.DeepCopy()
	s.Expect(s.touchProject(poked)).To(Succeed())
	version, err := strconv.Atoi(poked.ResourceVersion)
	s.Expect(err).NotTo(HaveOccurred())
	s.Eventually(func() int { return s.verdicts.of(p).version }).Should(BeNumerically(">=", version))
	return s.verdicts.of(p).text
}

// expectPlan waits until a pass has the given verdict.
func (s *fixture) expectPlan(p *corev1beta1.Project, want string) {
	s.T.Helper()
	s.Eventually(func() string { return s.pass(p) }).Should(Equal(want))
}

// marks are the two timestamps of a Project as ages; nil stands for none.
type marks struct{ StaleSince, AutoDelete *time.Duration }

func unmarked() marks                         { return marks{} }
func since(age time.Duration) marks           { return marks{StaleSince: &age} }
func (m marks) until(age time.Duration) marks { m.AutoDelete = &age; return m }

func (s *fixture) marks(p *corev1beta1.Project) marks {
	s.T.Helper()
	status := s.Get(p).Status
	age := func(t *metav1.Time) *time.Duration {
		if t == nil {
			return nil
		}
		return ptr.To(t.Sub(p.CreationTimestamp.Time))
	}
	return marks{age(status.StaleSinceTimestamp), age(status.StaleAutoDeleteTimestamp)}
}

// becomes waits until a Project has the given marks.
func (s *fixture) becomes(p *corev1beta1.Project, want marks) {
	s.T.Helper()
	s.Eventually(func() marks { return s.marks(p) }).Should(BeComparableTo(want))
}

// stays waits for a verdict, and then requires that nothing changes.
func (s *fixture) stays(p *corev1beta1.Project, verdict string, want marks) {
	s.T.Helper()
	s.expectPlan(p, verdict)
	s.becomes(p, want)                     // a write may conflict and be repeated
	s.Expect(s.pass(p)).To(Equal(verdict)) // each pass has finished its writes before the next begins
	s.Expect(s.pass(p)).To(Equal(verdict))
	s.Expect(s.marks(p)).To(BeComparableTo(want))
	s.Expect(s.Get(p).DeletionTimestamp).To(BeNil())
}

// deleted reports whether a Project is deleted or being deleted.
func (s *fixture) deleted(p *corev1beta1.Project) bool {
	found := &corev1beta1.Project{}
	err := s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(p), found)
	return err != nil || found.DeletionTimestamp != nil
}

// withFinalizer adds a finalizer, so that a deleted Project can still be read.
func withFinalizer(p *corev1beta1.Project) { p.Finalizers = []string{"example.org/held"} }

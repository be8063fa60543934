package stale_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/projecttest"
)

func deletes(r *http.Request) bool {
	return r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, "/apis/core.gardener.cloud/v1beta1/projects/")
}

// patches reports whether a request patches an object with a name.
func patches(r *http.Request, name string) bool {
	if r.Method != http.MethodPatch || r.GetBody == nil {
		return false
	}
	body, err := r.GetBody()
	if err != nil {
		return false
	}
	content, err := io.ReadAll(body)
	return err == nil && strings.Contains(string(content), name)
}

func (s *fixture) annotations(p *corev1beta1.Project) map[string]string {
	s.T.Helper()
	annotations := s.Get(p).Annotations
	delete(annotations, "poked")
	return annotations
}

func (s *fixture) exempt(p *corev1beta1.Project, value string) {
	s.T.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: *p.Spec.Namespace}}
	patch := `{"metadata":{"annotations":{"project.gardener.cloud/skip-stale-check":"` + value + `"}}}`
	s.Expect(s.Admin.Patch(s.Ctx, namespace, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

func (s *fixture) forecasts(p *corev1beta1.Project) []string {
	s.T.Helper()
	found := []string{}
	for _, each := range s.Events(p) {
		if strings.Contains(each, "DeletionForecast") {
			found = append(found, each)
		}
	}
	return found
}

func forecastFor(p *corev1beta1.Project, age time.Duration) string {
	return "Warning DeletionForecast: This project seems to be unused; unless that changes, it is deleted after " +
		p.CreationTimestamp.Add(age).UTC().Format(time.RFC3339) + " with everything in its namespace"
}

// With a notice period, deletions that DryRun has only reported are announced before they happen, also if the process restarts.
func TestDeletionAfterADryRunIsAnnouncedFirst(t *testing.T) {
	s := newScene(t, projecttest.Options{Settings: "{staleDeletion: DryRun, staleDeletionNotice: 168h}"})
	p := s.project(withFinalizer)
	s.age(p, 200*day)
	s.status(p, 30*day, 120*day, 0)
	s.stays(p, "unused", since(30*day).until(120*day))
	s.Expect(s.annotations(p)).To(BeEmpty())
	s.Eventually(s.wouldDelete).Should(BeEquivalentTo(1))
	s.Restart(nil)
	s.stays(p, "unused", since(30*day).until(120*day))
	s.Eventually(s.wouldDelete).Should(BeEquivalentTo(1), "the Event exists, the count begins anew")
	s.Restart(func() { s.Config.Espalier.Project.StaleDeletion = "Delete" })
	s.stays(p, "unused", since(30*day).until(120*day))
	announced := map[string]string{"project.espalier.dev/deletion-announced": p.CreationTimestamp.Add(207 * day).UTC().Format(time.RFC3339)}
	s.Eventually(func() map[string]string { return s.annotations(p) }).Should(Equal(announced)) // two passes may conflict
	s.Eventually(func() []string { return s.forecasts(p) }).Should(ConsistOf(forecastFor(p, 207*day)))
	s.Restart(func() { s.age(p, 207*day-time.Second) })
	s.stays(p, "unused", since(30*day).until(120*day))
	s.Expect(s.annotations(p)).To(Equal(announced))
	s.age(p, 207*day)
	s.pass(p)
	s.Eventually(func() bool { return s.deleted(p) }).Should(BeTrue())
}

// wouldDelete returns the value of a metric.
func (s *fixture) wouldDelete() float64 {
	s.T.Helper()
	families, err := s.Registry.Gather()
	s.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == "espalier_project_would_delete_total" {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return -1
}

// A project whose deletion cannot be announced is not deleted, and the log names the missing right.
func TestWithoutEventsNothingIsDeleted(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.project(withFinalizer)
	s.age(p, 119*day)
	s.Requests.SetHook(func(r *http.Request) error {
		if r.Method == http.MethodPost && r.URL.Path == "/api/v1/namespaces/default/events" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no right"))
		}
		return nil
	})
	s.status(p, 30*day, 0, 0)
	s.Eventually(s.verdicts.errors).
		Should(ContainElement(ContainSubstring(`create Event DeletionForecast: nothing is deleted that cannot be announced; grant create on ` +
			`events in namespace "default": `)))
	s.Expect(s.deleted(p)).To(BeFalse())
	s.Requests.SetHook(nil)
	s.Eventually(func() []string { return s.forecasts(p) }).Should(ConsistOf(forecastFor(p, 120*day)))
}

func TestAnnouncementIsRemovedWhenTheProjectIsUsed(t *testing.T) {
	s := newScene(t, projecttest.Options{Settings: "{staleDeletionNotice: 168h}"})
	p := s.project()
	s.age(p, 115*day)
	s.status(p, 30*day, 120*day, 0)
	s.expectPlan(p, "unused")
	s.Eventually(func() map[string]string { return s.annotations(p) }).Should(HaveKey("project.espalier.dev/deletion-announced"))
	s.exempt(p, "true")
	s.becomes(p, unmarked())
	s.Eventually(func() map[string]string { return s.annotations(p) }).Should(BeEmpty())
}

func TestForecastsAreReportedEveryDay(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.project()
	s.age(p, 113*day) // before that it is young, and the marks would be removed
	s.status(p, 30*day, 120*day, 0)
	for i, age := range []time.Duration{113 * day, 114*day - time.Second, 114 * day, 115 * day} {
		s.age(p, age)
		s.stays(p, "unused", since(30*day).until(120*day))
		s.Eventually(func() []string { return s.forecasts(p) }).Should(HaveLen([]int{1, 1, 2, 3}[i]), age.String())
	}
}

// If the API server refuses a deletion, the retries write nothing.
func TestRefusedDeletionIsRetriedWithoutWriting(t *testing.T) {
	s := newScene(t, projecttest.Options{Configure: atOnce})
	p := s.project(withFinalizer)
	var tries atomic.Int32
	s.Requests.SetHook(func(r *http.Request) error {
		if deletes(r) {
			tries.Add(1)
			return errors.New("refused")
		}
		return nil
	})
	s.age(p, day)
	s.expectPlan(p, "unused")
	s.Eventually(func() corev1beta1.ProjectPhase { return s.Get(p).Status.Phase }).Should(BeEquivalentTo("Ready"))
	s.Eventually(func() map[string]string { return s.annotations(p) }).Should(HaveKeyWithValue("confirmation.gardener.cloud/deletion", "true"))
	version, before := s.Get(p).ResourceVersion, tries.Load()
	s.Eventually(tries.Load, recovery).Should(BeNumerically(">", before+1)) // each pause is twice as long as the previous one
	s.Expect(s.Get(p).ResourceVersion).To(Equal(version))
	s.Requests.SetHook(nil)
	s.Eventually(func() bool { return s.deleted(p) }, recovery).Should(BeTrue())
}

// A confirmation without a deletion is withdrawn when the project is no longer due, also after a restart.
func TestAConfirmationOfOursIsWithdrawn(t *testing.T) {
	for name, after := range map[string]func(s *fixture, p *corev1beta1.Project) map[string]string{
		"no other user confirmed": func(*fixture, *corev1beta1.Project) map[string]string { return nil },
		"another user confirmed too": func(s *fixture, p *corev1beta1.Project) map[string]string {
			patch := `{"metadata":{"annotations":{"gardener.cloud/timestamp":"2030-01-01T00:00:00Z"}}}`
			s.Expect(s.Admin.Patch(s.Ctx, p.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
			return map[string]string{"confirmation.gardener.cloud/deletion": "true", "gardener.cloud/timestamp": "2030-01-01T00:00:00Z"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, projecttest.Options{Configure: atOnce})
			p := s.project(withFinalizer)
			var tries atomic.Int32
			s.Requests.SetHook(func(r *http.Request) error {
				if deletes(r) {
					tries.Add(1)
					return errors.New("cut off")
				}
				return nil
			})
			s.age(p, day)
			s.expectPlan(p, "unused")
			s.Eventually(tries.Load).Should(BeNumerically(">", 0))
			var left map[string]string
			s.Restart(func() {
				s.Expect(s.annotations(p)).To(HaveKeyWithValue("confirmation.gardener.cloud/deletion", "true"))
				left = after(s, p)
				s.exempt(p, "true")
				s.Requests.SetHook(nil)
			})
			s.becomes(p, unmarked())
			s.Eventually(func() map[string]string { return s.annotations(p) }).Should(Or(BeEmpty(), Equal(left)))
			s.Expect(s.annotations(p)).To(HaveLen(len(left)))
			s.Expect(s.deleted(p)).To(BeFalse())
		})
	}
}

// A project that is recreated under the same name inherits no dates.
func TestRecreatedProjectStartsWithoutState(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true})
	p := s.project()
	s.age(p, 100*day)
	s.status(p, 30*day, 0, 0)
	anew := s.Project(p.Name, func(other *corev1beta1.Project) { other.Spec = *p.Spec.DeepCopy() })
	var once sync.Once
	made := make(chan error, 1)
	s.Requests.SetHook(func(r *http.Request) error {
		if patches(r, "staleAutoDeleteTimestamp") {
			once.Do(func() { made <- s.replace(p, anew) })
		}
		return nil
	})
	dates := func() *time.Time {
		if at := s.Get(anew).Status.StaleAutoDeleteTimestamp; at != nil {
			return &at.Time
		}
		return nil
	}
	s.Start()
	s.Eventually(made).Should(Receive(BeNil()))
	s.expectPlan(anew, "unused")
	s.Eventually(func() *metav1.Time { return s.Get(anew).Status.StaleSinceTimestamp }).ShouldNot(BeNil())
	s.expectPlan(anew, "unused")
	s.Expect(dates()).To(BeNil())
	s.Expect(s.Get(anew).Status.StaleSinceTimestamp.Time).To(BeTemporally("~", s.clock.Now(), time.Second))
}

// replace deletes a Project and creates another with the same name.
func (s *fixture) replace(p, anew *corev1beta1.Project) error {
	release := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	for {
		err := errors.Join(client.IgnoreNotFound(s.Admin.Delete(s.Ctx, p.DeepCopy())),
			client.IgnoreNotFound(s.Admin.Patch(s.Ctx, p.DeepCopy(), release)))
		if err != nil {
			return err
		}
		if err := s.Admin.Create(s.Ctx, anew); !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
}

// A reconciliation is scheduled for each date, not only once per period.
func TestProjectIsReconciledWhenItIsDue(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.project(withFinalizer)
	for _, step := range []struct {
		age  time.Duration
		want marks
	}{{30 * day, since(30 * day)}, {44 * day, since(30 * day).until(120 * day)}} {
		s.age(p, step.age-time.Second)
		s.pass(p)
		s.age(p, step.age)
		s.becomes(p, step.want) // no change of the project triggers this
	}
	s.age(p, 120*day-time.Second)
	s.pass(p)
	s.age(p, 120*day)
	s.Eventually(func() bool { return s.deleted(p) }).Should(BeTrue())
}

func TestAnExemptionTakesEffectAtOnce(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.project()
	s.age(p, 40*day)
	s.expectPlan(p, "unused")
	s.becomes(p, since(40*day))
	s.exempt(p, "true")
	s.becomes(p, unmarked())
	s.exempt(p, "false")
	s.becomes(p, since(40*day))
}

// shifted is a clock that is wrong by a fixed duration.
type shifted struct {
	clock.RealClock
	by time.Duration
}

func (c shifted) Now() time.Time { return c.RealClock.Now().Add(c.by) }

func TestAWrongClockDeletesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		by   time.Duration
		want bool
	}{
		"a right clock":                   {want: true},
		"a clock that is an hour ahead":   {by: time.Hour},
		"a clock that is a century ahead": {by: 100 * 365 * day},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, projecttest.Options{Configure: atOnce, Clock: shifted{by: tc.by}})
			p := s.project(withFinalizer)
			if tc.want { // the project may be deleted before a verdict is seen
				s.Eventually(func() bool { return s.deleted(p) }).Should(BeTrue())
				return
			}
			s.expectPlan(p, "unused")
			s.Eventually(func() []string { return s.verdicts.errors() }).Should(ContainElement(ContainSubstring("set the clock that is wrong")))
			s.Expect(s.annotations(p)).To(BeEmpty())
			s.Expect(s.deleted(p)).To(BeFalse())
		})
	}
}

// The project of the namespace garden is marked, but never deleted.
func TestTheGardensOwnProjectIsNotDeleted(t *testing.T) {
	s := newScene(t, projecttest.Options{Configure: atOnce})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "garden", Labels: map[string]string{
		"gardener.cloud/role": "project", "project.gardener.cloud/name": "own",
	}}}
	s.Expect(client.IgnoreAlreadyExists(s.Admin.Create(s.Ctx, namespace))).To(Succeed())
	p := s.Project("own", func(p *corev1beta1.Project) { p.Spec.Namespace = ptr.To("garden") }, withFinalizer)
	s.Expect(s.Admin.Create(s.Ctx, p)).To(Succeed())
	s.age(p, 40*day)
	s.stays(p, "unused", since(40*day))
	s.age(p, 400*day)
	s.stays(p, "unused", since(40*day))
}

// A use that the API server has reported counts until the caches have it too: the project is not marked and cleared in turns.
func TestUseInTheAPIServerCountsWhileTheCachesLag(t *testing.T) {
	s := newScene(t, projecttest.Options{Configure: atOnce, Stopped: true})
	p := s.project(withFinalizer)
	s.age(p, day)
	empty := s.namespace("empty")
	// When the cache lists the Shoots of all namespaces, it gets the Shoots of an empty namespace; the check before the deletion lists the
	// Shoots of the project.
	s.Requests.SetHook(func(r *http.Request) error {
		if r.URL.Path == "/apis/core.gardener.cloud/v1beta1/shoots" {
			r.URL.Path = "/apis/core.gardener.cloud/v1beta1/namespaces/" + empty + "/shoots"
		}
		return nil
	})
	s.create("Shoot", *p.Spec.Namespace, "s", nil)
	s.Start()
	s.Eventually(func() corev1beta1.ProjectPhase { return s.Get(p).Status.Phase }).Should(BeEquivalentTo("Ready"))
	s.stays(p, "used by Shoot", unmarked())
	s.Requests.Reset()
	s.Expect(s.pass(p)).To(Equal("used by Shoot"))
	s.Expect(s.pass(p)).To(Equal("used by Shoot"))
	s.Expect(s.Requests.Seen()).To(BeEmpty())
}

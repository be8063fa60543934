package stale_test

import (
	"errors"
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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/project/projecttest"
	"github.com/espalier-dev/espalier/test/binary"
)

// atOnce sets all periods to zero: an unused project is deleted immediately.
func atOnce(c *config.ControllerManagerConfiguration) {
	own := &c.Controllers.Project
	own.MinimumLifetimeDays, own.StaleGracePeriodDays, own.StaleExpirationTimeDays = ptr.To(0), ptr.To(0), ptr.To(0)
}

func TestClusterWithoutShootsKeepsProjectsByDefault(t *testing.T) {
	s := newScene(t, projecttest.Options{CRDs: []string{}, Configure: atOnce})
	p := s.project(withFinalizer)
	s.age(p, 1000*day)
	s.stays(p, "unused", since(1000*day))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: *p.Spec.Namespace, Name: "pod"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: *p.Spec.Namespace, Name: "default"}}
	s.Expect(client.IgnoreAlreadyExists(s.Admin.Create(s.Ctx, account))).To(Succeed())
	s.Expect(s.Admin.Create(s.Ctx, pod)).To(Succeed())
	s.expectPlan(p, "used by pods")
	s.becomes(p, unmarked())
	s.Restart(func() { s.Config.Espalier.Project.StaleDeletionWithoutShoots = true })
	s.stays(p, "used by pods", unmarked())
	s.Expect(s.Admin.Delete(s.Ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
	s.pass(p)
	s.Eventually(func() bool { return s.deleted(p) }).Should(BeTrue())
}

func TestKindsComeAndGoWhileTheProcessRuns(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.project()
	s.age(p, 40*day)
	s.expectPlan(p, "unused")
	s.create("Shoot", *p.Spec.Namespace, "s", nil)
	s.Eventually(func() string { s.status(p, 0, 0, 0); return s.pass(p) }).Should(Equal("used by Shoot"))
	s.RemoveCRD("shoots.core.gardener.cloud")
	s.Eventually(func() string { s.status(p, 0, 0, 0); return s.pass(p) }).Should(Equal("unused"))
	_, err := binary.Install(s.Ctx, s.Admin, "deploy/project-controller/crds/core.gardener.cloud_shoots.yaml")
	s.Expect(err).NotTo(HaveOccurred())
	s.create("Shoot", *p.Spec.Namespace, "s", nil)
	s.Eventually(func() string { s.status(p, 0, 0, 0); return s.pass(p) }).Should(Equal("used by Shoot"))
}

// suspensions lists the Events about the suspension of judging.
func (s *fixture) suspensions() []string {
	s.T.Helper()
	list := &corev1.EventList{}
	s.Expect(s.Admin.List(s.Ctx, list, client.MatchingFields{"involvedObject.kind": "APIService"})).To(Succeed())
	var reasons []string
	for _, each := range list.Items {
		if each.CreationTimestamp.Time.After(s.began.Add(-time.Second)) {
			reasons = append(reasons, each.Reason)
		}
	}
	return reasons
}

// failsAt is a hook that answers requests for a path with an error, and records that it was called. Running watches continue.
func failsAt(path string, err error, asked *atomic.Bool) func(*http.Request) error {
	return func(r *http.Request) error {
		if r.URL.Path != path {
			return nil
		}
		asked.Store(true)
		return err
	}
}

// If a kind cannot be read, no project counts as unused: nothing is marked, deleted or cleared.
func TestUseThatCannotBeDeterminedDoesNotCountAsUnused(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true, Configure: atOnce})
	unmarkedOne, markedOne := s.project(withFinalizer), s.project(withFinalizer)
	s.age(markedOne, 1000*day)
	s.status(markedOne, 30*day, 120*day, 0)
	forbidden, missing := apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no right")),
		apierrors.NewNotFound(schema.GroupResource{}, "")
	unavailable := apierrors.NewServiceUnavailable("later")
	const group, services = "/apis/core.gardener.cloud/v1beta1", "/apis/apiregistration.k8s.io/v1/apiservices"
	for _, row := range []struct {
		path string
		err  error
	}{
		{group + "/shoots", errors.New("out of order")},
		{group + "/shoots", missing},
		{group + "/plants", forbidden},
		{group + "/backupentries", unavailable},
		{group + "/secretbindings", forbidden},
		{group, errors.New("out of order")},
		{group, missing},
		{group, unavailable},
		{services, forbidden},
		{services + "/v1beta1.core.gardener.cloud", unavailable},
		{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", missing},
	} {
		var asked atomic.Bool
		if row.path == group { // without it the process would not start: it fails only when the controller asks for the kinds
			s.Restart(func() { s.Requests.SetHook(failsAt(services, forbidden, &asked)) })
			s.expectPlan(markedOne, "undecided")
			asked.Store(false)
			s.Requests.SetHook(failsAt(group, row.err, &asked))
			s.Eventually(asked.Load, recovery).Should(BeTrue(), row.path)
		} else {
			s.Restart(func() { s.Requests.SetHook(failsAt(row.path, row.err, &asked)) })
		}
		s.stays(unmarkedOne, "undecided", unmarked())
		s.stays(markedOne, "undecided", since(30*day).until(120*day))
		s.Eventually(asked.Load).Should(BeTrue(), row.path)
		s.Eventually(s.suspensions).Should(ContainElement("StaleChecksSuspended"), row.path)
	}
	s.Requests.SetHook(nil)
	s.Eventually(func() bool { return s.deleted(unmarkedOne) && s.deleted(markedOne) }, recovery).Should(BeTrue())
	s.Eventually(s.suspensions).Should(ContainElement("StaleChecksResumed"))
}

// A project also stays if its use cannot be determined in the check before the deletion, even if no object in the caches uses the project.
func TestUseThatCannotBeDeterminedBeforeTheDeletionKeepsTheProject(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true, Configure: atOnce})
	p := s.project(withFinalizer)
	s.secret(*p.Spec.Namespace)
	s.age(p, 1000*day)
	own := func(plural string) string {
		return "/apis/core.gardener.cloud/v1beta1/namespaces/" + *p.Spec.Namespace + "/" + plural
	}
	forbidden, missing := apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no right")),
		apierrors.NewNotFound(schema.GroupResource{}, "")
	for path, err := range map[string]error{
		own("shoots"): missing, own("plants"): forbidden, own("backupentries"): errors.New("out of order"),
		own("quotas"): apierrors.NewServiceUnavailable("later"),
		"/api/v1/namespaces/" + *p.Spec.Namespace + "/secrets": forbidden,
	} {
		var asked atomic.Bool
		// If a check were already running, it could miss both failures: the new one at a path that it has passed, and the old one, which is
		// removed, at a later path.
		s.Restart(func() { s.Requests.SetHook(failsAt(path, err, &asked)) })
		s.Eventually(func() bool { s.pass(p); return asked.Load() }).Should(BeTrue(), path)
		s.Expect(s.deleted(p)).To(BeFalse(), path)
	}
	s.Requests.SetHook(nil)
	s.pass(p)
	s.Eventually(func() bool { return s.deleted(p) }).Should(BeTrue())
}

// ofShoot labels an object like a Secret that was made for a Shoot. It sets no owner: the garbage collector would delete the object.
func ofShoot(object *unstructured.Unstructured) {
	object.SetLabels(map[string]string{"gardener.cloud/role": "kubeconfig"})
}

func TestObjectsOfADeletedShootAreUse(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	for _, kind := range []string{"BackupEntry", "Plant"} {
		p := s.project()
		s.age(p, 40*day)
		object := &unstructured.Unstructured{}
		object.SetAPIVersion("core.gardener.cloud/v1beta1")
		object.SetKind(kind)
		object.SetNamespace(*p.Spec.Namespace)
		object.SetName("left")
		ofShoot(object)
		s.Eventually(func() error { return s.Admin.Create(s.Ctx, object) }).Should(Succeed())
		s.Eventually(func() string { s.status(p, 0, 0, 0); return s.pass(p) }).Should(Equal("used by " + kind))
	}
}

func TestUseCreatedBeforeTheDeletionKeepsTheProject(t *testing.T) {
	for kind, plural := range map[string]string{"Shoot": "shoots", "Plant": "plants", "BackupEntry": "backupentries"} {
		t.Run(kind, func(t *testing.T) {
			s := newScene(t, projecttest.Options{Stopped: true, Configure: atOnce})
			p := s.project(withFinalizer)
			s.age(p, 1000*day)
			var once sync.Once
			s.Requests.SetHook(func(r *http.Request) error {
				if r.URL.Path == "/apis/core.gardener.cloud/v1beta1/namespaces/"+*p.Spec.Namespace+"/"+plural {
					once.Do(func() {
						late := &unstructured.Unstructured{}
						late.SetAPIVersion("core.gardener.cloud/v1beta1")
						late.SetKind(kind)
						late.SetNamespace(*p.Spec.Namespace)
						late.SetName("late")
						ofShoot(late)
						_ = s.Admin.Create(s.Ctx, late)
					})
				}
				return nil
			})
			s.Start()
			s.stays(p, "used by "+kind, unmarked())
		})
	}
}

func TestForecastsAreReportedOnce(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.project()
	s.age(p, 23*day)
	s.expectPlan(p, "young")
	s.pass(p)
	reported := []string{
		"Warning StaleForecast: This project seems to be unused; unless that changes, it is marked as stale after " +
			p.CreationTimestamp.Add(30*day).UTC().Format(time.RFC3339),
	}
	forecasts := func() []string {
		var found []string
		for _, each := range s.Events(p) {
			if strings.Contains(each, "Forecast") || strings.Contains(each, "WouldDelete") {
				found = append(found, each)
			}
		}
		return found
	}
	s.Eventually(forecasts).Should(ConsistOf(reported))
	s.Restart(nil)
	s.expectPlan(p, "young")
	s.Expect(forecasts()).To(ConsistOf(reported))
	s.age(p, 113*day)
	s.status(p, 30*day, 120*day, 0)
	s.expectPlan(p, "unused")
	reported = append(reported,
		"Warning DeletionForecast: This project seems to be unused; unless that changes, it is deleted after "+
			p.CreationTimestamp.Add(120*day).UTC().Format(time.RFC3339)+" with everything in its namespace")
	s.Eventually(forecasts).Should(ConsistOf(reported))
	s.Restart(func() { s.Config.Espalier.Project.StaleDeletion = "DryRun" })
	s.age(p, 120*day)
	s.stays(p, "unused", since(30*day).until(120*day))
	reported = append(reported,
		"Normal WouldDelete: Would delete this project, whose date of deletion was "+p.CreationTimestamp.Add(120*day).UTC().Format(time.RFC3339)+
			"; it stays because espalier.project.staleDeletion is DryRun")
	s.Eventually(forecasts).Should(ConsistOf(reported))
}

// Wherever the process is interrupted, the next process marks and deletes, and marks with the same times.
func TestCrashPointsEndInTheSameState(t *testing.T) {
	cuts := binary.EveryCut(t, 8, func(t *testing.T, at binary.Cut) bool {
		t.Helper()
		s := newScene(t, projecttest.Options{})
		p := s.project(withFinalizer)
		s.expectPlan(p, "young")
		s.Requests.CutOff(at)
		s.age(p, 120*day)
		s.status(p, 30*day, 0, 0)
		s.Eventually(func() bool { return s.Requests.IsCutOff() || s.deleted(p) }).Should(BeTrue())
		happened := false
		s.Restart(func() { happened = s.Requests.Connect() })
		s.Eventually(func() bool { return s.deleted(p) }).Should(BeTrue())
		s.Expect(s.marks(p)).To(BeComparableTo(since(30 * day).until(120 * day)))
		return happened
	})
	NewWithT(t).Expect(cuts).To(BeNumerically(">", 0))
}

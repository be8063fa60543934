package stale_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/project/projecttest"
)

func TestProjectsYoungerThanTheMinimumAreNotStale(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.project()
	s.status(p, day, 2*day, 0)
	s.age(p, 30*day-time.Second)
	s.expectPlan(p, "young")
	s.becomes(p, unmarked())
	s.age(p, 30*day)
	s.expectPlan(p, "unused")
	s.becomes(p, since(30*day))
}

func TestRecentActivityClearsTheStaleMark(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.project()
	s.age(p, 40*day-time.Second)
	s.status(p, 31*day, 0, 10*day)
	s.expectPlan(p, "active")
	s.becomes(p, unmarked())
	s.age(p, 40*day)
	s.expectPlan(p, "unused")
	s.becomes(p, since(40*day))
}

func TestNamespacesMayBeExempted(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.project()
	s.age(p, 40*day)
	for value, exempted := range map[string]bool{"true": true, "1": true, "T": true, "false": false, "abc": false} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: *p.Spec.Namespace}}
		patch := `{"metadata":{"annotations":{"project.gardener.cloud/skip-stale-check":"` + value + `"}}}`
		s.Expect(s.Admin.Patch(s.Ctx, namespace, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
		want, after := "unused", since(31*day)
		if exempted {
			want, after = "exempted", unmarked()
		}
		s.expectPlan(p, want)
		s.status(p, 31*day, 0, 0)
		s.expectPlan(p, want)
		s.becomes(p, after)
	}
}

func testUse(t *testing.T, kind string) {
	t.Helper()
	s := newScene(t, projecttest.Options{})
	p := s.project()
	s.age(p, 40*day)
	s.status(p, 31*day, 0, 0)
	s.expectPlan(p, "unused")
	used := s.create(kind, *p.Spec.Namespace, "used", map[string]any{
		"spec": map[string]any{"bucketName": "b", "secretRef": map[string]any{"name": "s"}},
	})
	s.status(p, 31*day, 0, 0) // do not depend on the times that the activity loop has written
	s.Eventually(func() string { s.status(p, 31*day, 0, 0); return s.pass(p) }).Should(Equal("used by " + kind))
	s.becomes(p, unmarked())
	s.Expect(s.Admin.Delete(s.Ctx, used)).To(Succeed())
	s.Eventually(func() string { s.status(p, 0, 0, 0); return s.pass(p) }).Should(Equal("unused"))
}

func TestShootsAreUse(t *testing.T)        { testUse(t, "Shoot") }
func TestPlantsAreUse(t *testing.T)        { testUse(t, "Plant") }
func TestBackupEntriesAreUse(t *testing.T) { testUse(t, "BackupEntry") }

func TestSecretsThatShootsUseAreUse(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true})
	elsewhere, here, labelled := s.project(), s.project(), s.project()
	other := s.namespace("other")
	for i, p := range []*corev1beta1.Project{elsewhere, labelled} {
		s.secret(*p.Spec.Namespace, func(secret *corev1.Secret) {
			if i == 1 {
				secret.Labels = map[string]string{"reference.gardener.cloud/secretbinding": "true"}
			}
		})
		s.create("SecretBinding", other, "b-"+p.Name, bindingOf(*p.Spec.Namespace, "credentials"))
		s.create("Shoot", other, "s-"+p.Name, shootWith("b-"+p.Name))
	}
	s.secret(*here.Spec.Namespace)
	s.create("SecretBinding", *here.Spec.Namespace, "b", bindingOf(*here.Spec.Namespace, "credentials"))
	s.create("Shoot", *here.Spec.Namespace, "s", shootWith("b"))
	s.age(labelled, 40*day)
	s.Start()
	for p, want := range map[*corev1beta1.Project]string{elsewhere: "used by Secret", labelled: "used by Secret", here: "used by Shoot"} {
		s.Eventually(func() string { s.status(p, 0, 0, 0); return s.pass(p) }).Should(Equal(want))
		s.Expect(s.marks(p)).To(BeComparableTo(unmarked()))
	}
}

func TestSecretsWithoutShootAreNotUse(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true})
	other := s.namespace("other")
	cases := map[string]*corev1beta1.Project{
		"no shoot": nil, "shoot without binding": nil, "owned by a shoot": nil, "kubeconfig": nil, "binding of another namespace": nil,
	}
	for name := range cases {
		p := s.project()
		cases[name] = p
		s.secret(*p.Spec.Namespace, func(secret *corev1.Secret) {
			switch name {
			case "owned by a shoot":
				secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: "core.gardener.cloud/v1beta1", Kind: "Shoot", Name: "s", UID: "u"}}
			case "kubeconfig":
				secret.Labels = map[string]string{"gardener.cloud/role": "kubeconfig"}
			}
		})
		s.create("SecretBinding", other, "b-"+p.Name, bindingOf(*p.Spec.Namespace, "credentials"))
		switch name {
		case "shoot without binding":
			s.create("Shoot", other, "s-"+p.Name, map[string]any{"spec": map[string]any{}})
		case "owned by a shoot", "kubeconfig":
			s.create("Shoot", other, "s-"+p.Name, shootWith("b-"+p.Name))
		case "binding of another namespace":
			s.create("Shoot", s.namespace("third"), "s-"+p.Name, shootWith("b-"+p.Name))
		}
	}
	s.age(cases["no shoot"], 40*day)
	s.Start()
	for name, p := range cases {
		s.Eventually(func() string { s.status(p, 0, 0, 0); return s.pass(p) }).Should(Equal("unused"), name)
	}
}

func TestQuotasThatShootsAreBoundByAreUse(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true})
	other := s.namespace("other")
	used, unused := s.project(), s.project()
	for _, p := range []*corev1beta1.Project{used, unused} {
		s.create("Quota", *p.Spec.Namespace, "q", map[string]any{
			"spec": map[string]any{"scope": map[string]any{"apiVersion": "v1", "kind": "Secret"}},
		})
		s.create("SecretBinding", other, "b-"+p.Name, map[string]any{
			"secretRef": map[string]any{"namespace": other, "name": "none"},
			"quotas":    []any{map[string]any{}, map[string]any{"namespace": *p.Spec.Namespace, "name": "q"}},
		})
	}
	s.create("Shoot", other, "s", shootWith("b-"+used.Name))
	s.age(unused, 40*day)
	s.Start()
	for p, want := range map[*corev1beta1.Project]string{used: "used by Quota", unused: "unused"} {
		s.Eventually(func() string { s.status(p, 0, 0, 0); return s.pass(p) }).Should(Equal(want))
	}
}

func TestAnEmptyNamespaceOfASecretIsThatOfTheBinding(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true})
	other := s.namespace("other")
	here, elsewhere := s.project(), s.project()
	s.secret(*here.Spec.Namespace)
	s.create("SecretBinding", *here.Spec.Namespace, "b", bindingOf("", "credentials"))
	s.create("Shoot", *here.Spec.Namespace, "s", shootWith("b"))
	s.secret(*elsewhere.Spec.Namespace)
	s.create("SecretBinding", other, "b", bindingOf("", "credentials"))
	s.create("Shoot", other, "s", shootWith("b"))
	s.age(elsewhere, 40*day)
	s.Start()
	for p, want := range map[*corev1beta1.Project]string{here: "used by Shoot", elsewhere: "unused"} {
		s.Eventually(func() string { s.status(p, 0, 0, 0); return s.pass(p) }).Should(Equal(want))
	}
}

func TestFirstReconciliationMarksUnusedProjects(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.project()
	s.age(p, 33*day)
	s.expectPlan(p, "unused")
	s.becomes(p, since(33*day))
	s.age(p, 34*day)
	s.stays(p, "unused", since(33*day))
}

func TestTheDateOfDeletionIsSetWhenTheGracePeriodIsOver(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.project()
	s.age(p, 44*day-time.Second) // before that it is young, and the mark would be removed
	s.status(p, 30*day, 0, 0)
	s.stays(p, "unused", since(30*day))
	s.age(p, 44*day)
	s.expectPlan(p, "unused")
	s.becomes(p, since(30*day).until(120*day))
}

func TestALongerGracePeriodUnsetsTheDate(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.project()
	s.age(p, 45*day)
	s.status(p, 30*day, 0, 0)
	s.becomes(p, since(30*day).until(120*day))
	s.Restart(func() { s.Config.Controllers.Project.StaleGracePeriodDays = ptr.To(16) })
	s.becomes(p, since(30*day))
}

func TestTheDateMovesOnlyToLater(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.project()
	s.age(p, 45*day)
	s.status(p, 30*day, 0, 0)
	s.becomes(p, since(30*day).until(120*day))
	s.Restart(func() { s.Config.Controllers.Project.StaleExpirationTimeDays = ptr.To(100) })
	s.becomes(p, since(30*day).until(130*day))
	s.Restart(func() { s.Config.Controllers.Project.StaleExpirationTimeDays = ptr.To(20) })
	s.stays(p, "unused", since(30*day).until(130*day))
}

func TestWhenTheDateHasComeTheProjectIsDeletedWithConfirmation(t *testing.T) {
	s := newScene(t, projecttest.Options{Webhooks: true}) // among them the webhook that demands a confirmation
	p := s.project(withFinalizer)
	s.age(p, 120*day-time.Second)
	s.status(p, 30*day, 120*day, 0)
	s.stays(p, "unused", since(30*day).until(120*day))
	s.age(p, 120*day)
	s.pass(p) // the project may be deleted before its verdict is logged
	s.Eventually(func() bool { return s.deleted(p) }).Should(BeTrue())
	date := p.CreationTimestamp.Add(120 * day).UTC()
	s.Expect(s.annotations(p)).To(Equal(map[string]string{
		"confirmation.gardener.cloud/deletion":       "true",
		"gardener.cloud/timestamp":                   date.Format(time.RFC3339Nano),
		"project.espalier.dev/deletion-confirmed-at": date.Format(time.RFC3339Nano),
	}))
}

func TestAStaleProjectThatIsUsedAgainIsNoLongerStale(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.project()
	s.age(p, 119*day)
	s.status(p, 30*day, 120*day, 0)
	s.stays(p, "unused", since(30*day).until(120*day))
	s.create("Shoot", *p.Spec.Namespace, "s", nil)
	s.Eventually(func() string { return s.pass(p) }).Should(Or(Equal("used by Shoot"), Equal("active")))
	s.becomes(p, unmarked())
}

func TestWithoutAnyPeriodAnUnusedProjectIsDeletedAtOnce(t *testing.T) {
	s := newScene(t, projecttest.Options{Configure: func(c *config.ControllerManagerConfiguration) {
		own := &c.Controllers.Project
		own.MinimumLifetimeDays, own.StaleGracePeriodDays, own.StaleExpirationTimeDays = ptr.To(0), ptr.To(0), ptr.To(0)
	}})
	p := s.project(withFinalizer)
	s.age(p, time.Second)
	s.pass(p)
	s.Eventually(func() bool { return s.deleted(p) }).Should(BeTrue())
	s.Expect(s.marks(p)).To(BeComparableTo(since(time.Second).until(time.Second)))
}

func TestProjectsInDeletionOrWithoutNamespaceAreNotChanged(t *testing.T) {
	s := newScene(t, projecttest.Options{Stopped: true})
	going := s.project(withFinalizer)
	s.Expect(s.Admin.Delete(s.Ctx, going)).To(Succeed())
	without := s.Project("with.dot") // no namespace can have this name
	s.Expect(s.Admin.Create(s.Ctx, without)).To(Succeed())
	s.age(without, 10*day)
	for _, p := range []*corev1beta1.Project{going, without} {
		s.status(p, 5*day, 6*day, 0)
	}
	s.Start()
	for _, p := range []*corev1beta1.Project{going, without} {
		s.expectPlan(p, "not to be judged")
		s.Expect(s.pass(p)).To(Equal("not to be judged"))
		s.Expect(s.marks(p)).To(BeComparableTo(since(5 * day).until(6 * day)))
	}
}

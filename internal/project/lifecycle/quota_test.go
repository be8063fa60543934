package lifecycle_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/project/projecttest"
)

func quotaFor(selector map[string]string, hard map[corev1.ResourceName]string) config.ProjectQuota {
	q := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"foo": "l"}, Annotations: map[string]string{"foo": "a"}},
	}
	q.Spec.Hard = limits(hard)
	return config.ProjectQuota{Config: q, ProjectSelector: &metav1.LabelSelector{MatchLabels: selector}}
}

func limits(hard map[corev1.ResourceName]string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, value := range hard {
		list[name] = resource.MustParse(value)
	}
	return list
}

func withQuotas(quotas ...config.ProjectQuota) projecttest.Options {
	return projecttest.Options{Configure: func(c *config.ControllerManagerConfiguration) { c.Controllers.Project.Quotas = quotas }}
}

func (s *fixture) quota(p *corev1beta1.Project) *corev1.ResourceQuota {
	s.T.Helper()
	q := &corev1.ResourceQuota{}
	s.Expect(s.Admin.Get(s.Ctx, client.ObjectKey{Namespace: *s.Get(p).Spec.Namespace, Name: "gardener"}, q)).To(Succeed())
	return q
}

// again triggers another reconciliation of the Project.
func (s *fixture) again(p *corev1beta1.Project) {
	s.T.Helper()
	s.edit(p, func(p *corev1beta1.Project) { p.Spec.Purpose = ptr.To("again" + s.name()) })
	s.eventually(p, "Ready")
}

func expectHard(g Gomega, q *corev1.ResourceQuota, hard map[corev1.ResourceName]string) {
	have := map[corev1.ResourceName]string{}
	for name, value := range q.Spec.Hard {
		have[name] = value.String()
	}
	g.Expect(have).To(Equal(hard))
}

func TestProjectGetsItsResourceQuota(t *testing.T) {
	s := newScene(t, withQuotas(quotaFor(nil, map[corev1.ResourceName]string{"count/shoots.core.gardener.cloud": "100"})))
	p := s.ready()
	q := s.quota(p)
	s.Expect(q.Labels).To(Equal(map[string]string{"foo": "l"}))
	s.Expect(q.Annotations).To(Equal(map[string]string{"foo": "a"}))
	s.Expect(q.OwnerReferences).To(Equal([]metav1.OwnerReference{ownerReference(p, true)}))
	expectHard(s, q, map[corev1.ResourceName]string{"count/shoots.core.gardener.cloud": "100"})
}

func TestWhatOperatorsChangeOfAResourceQuotaStays(t *testing.T) {
	s := newScene(t, withQuotas(quotaFor(nil, map[corev1.ResourceName]string{"count/shoots.core.gardener.cloud": "100", "secrets": "10"})))
	p := s.ready()
	s.patch(s.quota(p), `{"metadata":{"labels":{"foreign":"l"},"annotations":{"foreign":"a"}},`+
		`"spec":{"hard":{"count/shoots.core.gardener.cloud":"200","secrets":"5"}}}`)
	s.Eventually(func(g Gomega) {
		s.again(p)
		q := s.quota(p)
		g.Expect(q.Labels).To(Equal(map[string]string{"foo": "l", "foreign": "l"}))
		g.Expect(q.Annotations).To(Equal(map[string]string{"foo": "a", "foreign": "a"}))
		expectHard(g, q, map[corev1.ResourceName]string{"count/shoots.core.gardener.cloud": "200", "secrets": "5"})
	}).Should(Succeed())
}

func TestResourceQuotaFollowsTheConfiguredKeys(t *testing.T) {
	s := newScene(t, withQuotas(quotaFor(nil, map[corev1.ResourceName]string{"secrets": "10", "pods": "3"})))
	p := s.ready()
	s.patch(s.quota(p), `{"spec":{"hard":{"secrets":"20"}}}`)
	s.Restart(func() {
		s.Config.Controllers.Project.Quotas = []config.ProjectQuota{
			quotaFor(nil, map[corev1.ResourceName]string{"secrets": "10", "services": "7"}),
		}
	})
	s.Eventually(func(g Gomega) {
		expectHard(g, s.quota(p), map[corev1.ResourceName]string{"secrets": "20", "services": "7"})
	}).WithTimeout(patience).Should(Succeed())
}

func TestFirstMatchingQuotaCounts(t *testing.T) {
	s := newScene(t, withQuotas(
		quotaFor(map[string]string{"size": "big"}, map[corev1.ResourceName]string{"pods": "100"}),
		quotaFor(map[string]string{"sort": "team"}, map[corev1.ResourceName]string{"pods": "10"}),
	))
	labelled := func(labels map[string]string) change { return func(p *corev1beta1.Project) { p.Labels = labels } }
	both, second, none := s.create(labelled(map[string]string{"size": "big", "sort": "team"})),
		s.create(labelled(map[string]string{"sort": "team"})), s.create()
	for _, each := range []*corev1beta1.Project{both, second, none} {
		s.eventually(each, "Ready")
	}
	expectHard(s, s.quota(both), map[corev1.ResourceName]string{"pods": "100"})
	expectHard(s, s.quota(second), map[corev1.ResourceName]string{"pods": "10"})
	quotas := &corev1.ResourceQuotaList{}
	s.Expect(s.Admin.List(s.Ctx, quotas, client.InNamespace(*s.Get(none).Spec.Namespace))).To(Succeed())
	s.Expect(quotas.Items).To(BeEmpty())

	s.edit(second, labelled(map[string]string{"sort": "gone"}))
	s.again(second)
	s.Consistently(func(g Gomega) {
		expectHard(g, s.quota(second), map[corev1.ResourceName]string{"pods": "10"})
	}).WithTimeout(300 * time.Millisecond).Should(Succeed())
}

func TestForeignResourceQuotaIsNotTaken(t *testing.T) {
	s := newScene(t, withQuotas(quotaFor(nil, map[corev1.ResourceName]string{"pods": "3"})))
	p := s.Project(s.name(), in("garden-e03"))
	s.createNamespace("garden-e03", labelsFor(p.Name), nil)
	foreign := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-e03", Name: "gardener", OwnerReferences: []metav1.OwnerReference{s.otherOwner()}},
	}
	s.Expect(s.Admin.Create(s.Ctx, foreign)).To(Succeed())
	s.Expect(s.Admin.Create(s.Ctx, p)).To(Succeed())
	s.eventually(p, "Failed")
	s.eventuallyReports(p, HavePrefix("Warning NamespaceReconcileFailed: Error while setting up ResourceQuota: "))
	s.Expect(s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(foreign), foreign)).To(Succeed())
	s.Expect(foreign.Spec.Hard).To(BeEmpty())
}

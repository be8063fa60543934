package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

func TestReconciledProjects(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		until   time.Time
		happens func(*reconciledProjects, *corev1beta1.Project)
		want    bool
	}{
		"nothing happened": {want: true, happens: func(*reconciledProjects, *corev1beta1.Project) {}},
		"the finalizer was removed": {
			happens: func(_ *reconciledProjects, p *corev1beta1.Project) { p.Finalizers = []string{"example.com/other"} },
		},
		"the spec was changed": {happens: func(_ *reconciledProjects, p *corev1beta1.Project) { p.Generation++ }},
		"it was created again": {happens: func(_ *reconciledProjects, p *corev1beta1.Project) { p.UID = "2" }},
		"memberships were changed": {happens: func(_ *reconciledProjects, p *corev1beta1.Project) {
			p.Annotations = map[string]string{"project.espalier.dev/membership-expiry": "{}"}
		}},
		"something was tampered":   {happens: func(s *reconciledProjects, p *corev1beta1.Project) { s.markChanged(p.Name) }},
		"another was tampered":     {want: true, happens: func(s *reconciledProjects, _ *corev1beta1.Project) { s.markChanged("beta") }},
		"a membership ends later":  {until: now.Add(time.Second), want: true, happens: func(*reconciledProjects, *corev1beta1.Project) {}},
		"a membership has ended":   {until: now, happens: func(*reconciledProjects, *corev1beta1.Project) {}},
		"it began anew and failed": {happens: func(s *reconciledProjects, p *corev1beta1.Project) { s.begin(p.Name) }},
		"tampered with meanwhile": {happens: func(s *reconciledProjects, p *corev1beta1.Project) {
			s.begin(p.Name)
			s.markChanged(p.Name)
			s.finish(p, time.Time{})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g, s, p := NewWithT(t), &reconciledProjects{}, alpha()
			p.Finalizers = []string{"gardener"}
			s.begin(p.Name)
			s.finish(p, tc.until)
			tc.happens(s, p)
			until, ok := s.isReconciled(p, now)
			g.Expect(ok).To(Equal(tc.want))
			if ok {
				g.Expect(until).To(Equal(tc.until))
			}
		})
	}
}

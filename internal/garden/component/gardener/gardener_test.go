package gardener_test

import (
	"testing"

	. "github.com/onsi/gomega"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

func TestReadinessOfManagedResources(t *testing.T) {
	const (
		isTrue  = corev1beta1.ConditionTrue
		isFalse = corev1beta1.ConditionFalse
	)
	for sentence, tc := range map[string]struct {
		applied, healthy, progressing corev1beta1.ConditionStatus
		ready, rolledOut              bool
	}{
		"rolled out":   {applied: isTrue, healthy: isTrue, progressing: isFalse, ready: true, rolledOut: true},
		"rolling out":  {applied: isTrue, healthy: isTrue, progressing: isTrue, ready: true},
		"unhealthy":    {applied: isTrue, healthy: isFalse, progressing: isFalse},
		"not applied":  {applied: isFalse, healthy: isTrue, progressing: isFalse},
		"not reported": {},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			set := &resourcesv1alpha1.ManagedResource{}
			for of, status := range map[corev1beta1.ConditionType]corev1beta1.ConditionStatus{
				resourcesv1alpha1.ResourcesApplied: tc.applied, resourcesv1alpha1.ResourcesHealthy: tc.healthy,
				resourcesv1alpha1.ResourcesProgressing: tc.progressing,
			} {
				if status != "" {
					set.Status.Conditions = append(set.Status.Conditions, corev1beta1.Condition{Type: of, Status: status})
				}
			}
			g.Expect(gardener.Ready(set) == nil).To(Equal(tc.ready))
			g.Expect(gardener.RolledOut(set) == nil).To(Equal(tc.rolledOut))
		})
	}
}

func TestFeatureGatesOfAProgram(t *testing.T) {
	g := NewWithT(t)
	wanted := map[string]bool{"CloudProfileCapabilities": false, "APIServerTracing": false, "HVPA": true}
	g.Expect(gardener.FeatureGates(versions.GardenerAPIServer, wanted)).To(Equal(map[string]bool{"CloudProfileCapabilities": false}))
	g.Expect(gardener.IgnoredGates(versions.GardenerAPIServer, wanted)).To(ConsistOf("feature gate APIServerTracing", "feature gate HVPA"))
	g.Expect(wanted).To(HaveLen(3))
}

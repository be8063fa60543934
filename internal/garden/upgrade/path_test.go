package upgrade_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/upgrade"
)

func TestPathHasOneVersionOfEachMinorVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		from, to string
		via      []string
		want     []string
		err      string
	}{
		"one minor version":          {from: "1.35.2", to: "1.36.1", want: []string{"1.36.1"}},
		"several":                    {from: "1.32.4", to: "1.36", want: []string{"1.33.0", "1.34.0", "1.35.0", "1.36.0"}},
		"named stops":                {from: "1.32", to: "1.35.3", via: []string{"1.34.5"}, want: []string{"1.33.0", "1.34.5", "1.35.3"}},
		"a patch version":            {from: "1.36.0", to: "1.36.2", want: []string{"1.36.2"}},
		"any patch version":          {from: "1.36.1", to: "1.36"},
		"nothing":                    {from: "v1.36.1", to: "v1.36.1"},
		"back":                       {from: "1.35.0", to: "1.34.0", err: "which is later than 1.34.0"},
		"back to a patch version":    {from: "1.35.2", to: "1.35.1", err: "which is later than 1.35.1"},
		"a version that is unknown":  {from: "1.35.0", to: "1.99", err: "version 1.99 of Kubernetes is not supported"},
		"no version":                 {from: "1.35.0", to: "latest", err: "parse version"},
		"two stops of a minor":       {from: "1.32.0", to: "1.36", via: []string{"1.34.1", "1.34.2"}, err: "have the same minor version"},
		"a stop behind the last one": {from: "1.32.0", to: "1.34", via: []string{"1.34.1"}, err: "is not on the way to 1.34"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			path, err := upgrade.NewPath(tc.to, tc.via)
			var found []string
			for current := tc.from; err == nil; {
				next, failure := path.After(current)
				if err = failure; err != nil || next == nil {
					break
				}
				current = next.String()
				found = append(found, current)
			}
			if tc.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tc.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found).To(Equal(tc.want))
		})
	}
}

func TestGardenIsSettledWhenItIsReconciledAndHealthy(t *testing.T) {
	settled := func() *operatorv1alpha1.Garden {
		g := &operatorv1alpha1.Garden{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		g.Status.ObservedGeneration = 2
		g.Status.LastOperation = &operatorv1alpha1.LastOperation{Type: "Reconcile", State: "Succeeded"}
		for _, each := range []corev1beta1.ConditionType{
			"VirtualGardenAPIServerAvailable", "RuntimeComponentsHealthy", "VirtualComponentsHealthy",
		} {
			g.Status.Conditions = append(g.Status.Conditions, corev1beta1.Condition{Type: each, Status: "True"})
		}
		g.Status.Conditions = append(g.Status.Conditions, corev1beta1.Condition{Type: "ObservabilityComponentsHealthy", Status: "False"})
		return g
	}
	NewWithT(t).Expect(upgrade.Problem(settled())).To(BeEmpty())
	for want, change := range map[string]func(*operatorv1alpha1.Garden){
		"has not begun": func(g *operatorv1alpha1.Garden) { g.Generation = 3 },
		"Reconcile is Error: first": func(g *operatorv1alpha1.Garden) {
			*g.Status.LastOperation = operatorv1alpha1.LastOperation{Type: "Reconcile", State: "Error", Description: "first\nsecond"}
		},
		"condition VirtualComponentsHealthy is Unknown: why": func(g *operatorv1alpha1.Garden) {
			g.Status.Conditions[2].Status, g.Status.Conditions[2].Message = "Unknown", "why"
		},
		"condition VirtualGardenAPIServerAvailable is not known": func(g *operatorv1alpha1.Garden) {
			g.Status.Conditions = g.Status.Conditions[1:]
		},
		"the Garden is paused: until tomorrow": func(g *operatorv1alpha1.Garden) {
			g.Status.Conditions = append(g.Status.Conditions,
				corev1beta1.Condition{Type: "ReconciliationPaused", Status: "True", Message: "until tomorrow"})
		},
	} {
		g := settled()
		change(g)
		NewWithT(t).Expect(upgrade.Problem(g)).To(ContainSubstring(want))
	}
}

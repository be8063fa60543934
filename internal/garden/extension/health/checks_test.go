package health

import (
	"testing"

	. "github.com/onsi/gomega"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/extension/installations"
)

func conditions(pairs ...string) []corev1beta1.Condition {
	var all []corev1beta1.Condition
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, corev1beta1.Condition{
			Type: corev1beta1.ConditionType(pairs[i]), Status: corev1beta1.ConditionStatus(pairs[i+1]), Reason: "Test", Message: "as it is",
		})
	}
	return all
}

func set(healthy, progressing string) *resourcesv1alpha1.ManagedResource {
	return &resourcesv1alpha1.ManagedResource{Status: resourcesv1alpha1.ManagedResourceStatus{
		Conditions: conditions("ResourcesApplied", "True", "ResourcesHealthy", healthy, "ResourcesProgressing", progressing),
	}}
}

func TestCheck(t *testing.T) {
	admission := &operatorv1alpha1.AdmissionDeploymentSpec{
		RuntimeCluster: &operatorv1alpha1.DeploymentSpec{Helm: &operatorv1alpha1.ExtensionHelm{}},
	}
	healthy := conditions("Valid", "True", "Installed", "True", "Healthy", "True", "Progressing", "False")
	for name, tc := range map[string]struct {
		conditions []corev1beta1.Condition
		admission  *operatorv1alpha1.AdmissionDeploymentSpec
		facts      facts
		want       []string // status and message of the conditions; "" removes it
	}{
		"an Extension that is not required": {want: []string{"", "", ""}},
		"a healthy Extension": {
			conditions: conditions("RequiredRuntime", "True", "RequiredVirtual", "True"), admission: admission,
			facts: facts{
				known: true, installations: []installations.Installation{{Name: "a", Conditions: healthy}},
				sets: map[string]*resourcesv1alpha1.ManagedResource{
					"extension-shop-garden": set("True", "False"), "extension-admission-runtime-shop": set("True", "False"),
				},
			},
			want: []string{
				"True All ControllerInstallations are healthy", "True All ManagedResources are healthy", "True All ManagedResources are healthy",
			},
		},
		"nothing is known": {
			conditions: conditions("RequiredRuntime", "True", "RequiredVirtual", "True"), admission: admission,
			want: []string{
				"Unknown ControllerInstallations cannot be read, because the virtual cluster does not answer",
				`False ManagedResource "extension-shop-garden" does not exist`,
				`False ManagedResource "extension-admission-runtime-shop" does not exist`,
			},
		},
		"parts that are not healthy": {
			conditions: conditions("RequiredRuntime", "True", "RequiredVirtual", "True"), admission: admission,
			facts: facts{known: true, installations: []installations.Installation{
				{Name: "a", Conditions: healthy}, {Name: "b", Seed: "s", Conditions: conditions("Valid", "True", "Installed", "False")},
			}, sets: map[string]*resourcesv1alpha1.ManagedResource{
				"extension-shop-garden": set("False", "False"), "extension-admission-runtime-shop": set("True", "True"),
			}},
			want: []string{
				`False condition Installed of ControllerInstallation "b" for Seed "s" is False: as it is`,
				`False ManagedResource "extension-shop-garden": condition ResourcesHealthy`,
				`Progressing ManagedResource "extension-admission-runtime-shop": condition ResourcesProgressing`,
			},
		},
		"an installation that progresses": {
			conditions: conditions("RequiredVirtual", "True"),
			facts: facts{known: true, installations: []installations.Installation{
				{Name: "b", Seed: "s", Conditions: append(healthy[:3:3], conditions("Progressing", "True")...)},
			}},
			want: []string{`Progressing condition Progressing of ControllerInstallation "b" for Seed "s" is True: as it is`, "", ""},
		},
		"an installation without conditions": {
			conditions: conditions("RequiredVirtual", "True"),
			facts:      facts{known: true, installations: []installations.Installation{{Name: "b", Seed: "s"}}},
			want:       []string{`False condition Valid of ControllerInstallation "b" for Seed "s" is not known yet`, "", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			e := &operatorv1alpha1.Extension{}
			e.Name, e.Status.Conditions = "shop", tc.conditions
			e.Spec.Deployment = &operatorv1alpha1.ExtensionDeployment{AdmissionDeployment: tc.admission}
			found := check(e, tc.facts)
			g.Expect(found).To(HaveLen(len(tc.want)))
			for i, each := range found {
				if tc.want[i] == "" {
					g.Expect(each.status).To(BeEmpty())
					continue
				}
				g.Expect(string(each.status) + " " + each.message).To(HavePrefix(tc.want[i]))
			}
		})
	}
}

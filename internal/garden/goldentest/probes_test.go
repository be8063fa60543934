package goldentest

import (
	"encoding/json"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// containersWithReadiness returns the containers of all golden files that have a readiness probe, by file and Deployment.
func containersWithReadiness(g Gomega) map[string]corev1.Container {
	files, err := filepath.Glob("../component/*/testdata/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	found := map[string]corev1.Container{}
	for _, file := range files {
		for _, each := range decode(g, file) {
			if each.GetKind() != "Deployment" {
				continue
			}
			text, err := each.MarshalJSON()
			g.Expect(err).NotTo(HaveOccurred())
			deployment := &appsv1.Deployment{}
			g.Expect(json.Unmarshal(text, deployment)).To(Succeed())
			for _, container := range deployment.Spec.Template.Spec.Containers {
				if container.ReadinessProbe != nil {
					found[file+" "+each.GetName()+" "+container.Name] = container
				}
			}
		}
	}
	return found
}

// With a delay, a Garden would wait for a program that has started already. A startup probe ends as soon as the program is ready.
func TestNoReadinessProbeIsDelayed(t *testing.T) {
	g := NewWithT(t)
	containers := containersWithReadiness(g)
	g.Expect(containers).NotTo(BeEmpty())
	for name, container := range containers {
		g.Expect(container.ReadinessProbe.InitialDelaySeconds).To(BeNumerically("<=", 1), name)
		if startup := container.StartupProbe; startup != nil {
			g.Expect(startup.InitialDelaySeconds).To(BeZero(), name)
			g.Expect(startup.PeriodSeconds).To(BeEquivalentTo(1), name)
			g.Expect(startup.FailureThreshold).To(BeNumerically(">=", 100), "on a slow machine, the kubelet would restart "+name)
		}
	}
}

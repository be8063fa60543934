//go:build e2e

package managedresourcecontroller_test

import (
	"context"
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("health and progress", func() {
	var s scene
	BeforeEach(func(ctx SpecContext) { s = newScene(ctx) })

	It("follow a rollout to its end, and the Pods thereafter", Label("smoke"), func(ctx SpecContext) {
		s.apply(ctx, "set", s.deployment("web", 1))
		s.reports(ctx, "set", settled())

		By("telling the only Pod to be not ready")
		s.ready(ctx, "web", "false")
		s.reports(ctx, "set", map[string]string{"ResourcesHealthy": "False DeploymentUnhealthy"})
		s.ready(ctx, "web", "true")
		s.reports(ctx, "set", settled())
	})

	It("tell a rollout whose image does not exist, and its repair", func(ctx SpecContext) {
		s.apply(ctx, "set", s.deployment("web", 1))
		s.reports(ctx, "set", settled())

		broken := s.deployment("web", 1)
		broken.Spec.Template.Spec.Containers[0].Image = c.Repository + "/workload:there-is-no-such-version"
		s.write(ctx, "set", broken)
		s.reports(ctx, "set", map[string]string{"ResourcesApplied": "True ApplySucceeded", "ResourcesProgressing": "True DeploymentProgressing"})
		By("waiting for the Deployment to give up, while its old Pod serves on")
		s.reports(ctx, "set", map[string]string{"ResourcesHealthy": "False DeploymentUnhealthy"})
		Expect(s.message(ctx, "set", "ResourcesHealthy")).To(ContainSubstring(s.namespace + "/web"))

		s.write(ctx, "set", s.deployment("web", 1))
		s.reports(ctx, "set", settled())
	})

	It("tell Pods that end again and again", func(ctx SpecContext) {
		crashing := s.deployment("web", 1)
		crashing.Spec.Template.Spec.Containers[0].Args = []string{"fail"}
		s.apply(ctx, "set", crashing)
		s.reports(ctx, "set", map[string]string{
			"ResourcesApplied": "True ApplySucceeded", "ResourcesHealthy": "False DeploymentUnhealthy",
			"ResourcesProgressing": "True DeploymentProgressing",
		})
		Eventually(s.exitCode).WithContext(ctx).WithArguments("web").Should(BeEquivalentTo(7))

		s.write(ctx, "set", s.deployment("web", 1))
		s.reports(ctx, "set", settled())
	})
})

// pod returns a Pod of an app.
func (s scene) pod(ctx context.Context, app string) (*corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := c.Client.List(ctx, pods, client.InNamespace(s.namespace), client.MatchingLabels{"app": app}); err != nil {
		return nil, err
	}
	if len(pods.Items) == 0 {
		return nil, errors.New("there is no Pod")
	}
	return &pods.Items[0], nil
}

// ready makes a Pod of the app ready, or not ready if the value is "false".
func (s scene) ready(ctx context.Context, app, ready string) {
	GinkgoHelper()
	pod, err := s.pod(ctx, app)
	Expect(err).NotTo(HaveOccurred())
	answer, err := c.Clients.CoreV1().Pods(s.namespace).ProxyGet("http", pod.Name, "8080", "/readyz", map[string]string{"ready": ready}).
		DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(string(answer)).To(Equal("ready: " + ready))
}

// exitCode returns the exit code with which the container of a Pod last ended.
func (s scene) exitCode(ctx context.Context, app string) (int32, error) {
	pod, err := s.pod(ctx, app)
	if err != nil {
		return 0, err
	}
	for _, container := range pod.Status.ContainerStatuses {
		if ended := container.LastTerminationState.Terminated; ended != nil {
			return ended.ExitCode, nil
		}
	}
	return 0, errors.New("its container has not ended yet")
}

package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// patience is how long to wait for an event that takes a moment on an idle machine.
const patience = 2 * time.Minute

const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
`

// assets returns the folder of the control plane's binaries. The test does not build them, because a build takes longer than a test may.
func assets(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	dir, err := Assets(t.Context(), os.Stderr)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return dir
}

func TestTheWholeControlPlane(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	var log syncBuffer
	options := Options{
		Dir: t.TempDir(), Assets: assets(t), ControllerManager: true, Scheduler: true, KWOK: true,
		AuditPolicy: []byte(auditPolicy), Log: &log,
	}
	begin := time.Now()
	c, err := Start(ctx, options)
	g.Expect(err).NotTo(HaveOccurred())
	t.Logf("ready after %s", time.Since(begin).Round(time.Millisecond))
	t.Cleanup(func() { _ = c.Stop() })
	clients, err := kubernetes.NewForConfig(c.AdminConfig())
	g.Expect(err).NotTo(HaveOccurred())

	t.Run("a Deployment becomes available on the fake node, is written to the audit log, and its garbage is collected", func(t *testing.T) {
		g := NewWithT(t)
		deployments := clients.AppsV1().Deployments("default")
		_, err := deployments.Create(ctx, deployment("web", 2), metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Eventually(func() (int32, error) {
			d, err := deployments.Get(ctx, "web", metav1.GetOptions{})
			return d.Status.AvailableReplicas, err
		}, patience, "50ms").Should(BeEquivalentTo(2))
		g.Expect(os.ReadFile(c.AuditLog())).To(ContainSubstring(`"requestURI":"/apis/apps/v1/namespaces/default/deployments","verb":"create"`))

		background := metav1.DeletePropagationBackground
		g.Expect(deployments.Delete(ctx, "web", metav1.DeleteOptions{PropagationPolicy: &background})).To(Succeed())
		g.Eventually(func() ([]corev1.Pod, error) {
			pods, err := clients.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			return pods.Items, err
		}, patience, "50ms").Should(BeEmpty())
	})

	t.Run("a ServiceAccount's kubeconfig is that ServiceAccount", func(t *testing.T) {
		g := NewWithT(t)
		kubeconfig, err := ServiceAccountKubeconfig(ctx, c.AdminConfig(), "default", "default", time.Hour)
		g.Expect(err).NotTo(HaveOccurred())
		config, err := restConfig(kubeconfig)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(userOf(ctx, config)).To(Equal("system:serviceaccount:default:default"))
	})

	t.Run("a user who knows the folder can be administrator, or any other user", func(t *testing.T) {
		g := NewWithT(t)
		server, err := openServer(options.Dir)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(server.Kubeconfig).To(Equal(c.Kubeconfig))
		g.Expect(userOf(ctx, server.Config)).To(Equal("system:admin"))
		config, err := server.UserConfig("system:node:n1", "system:nodes")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(userOf(ctx, config)).To(Equal("system:node:n1"))
	})

	t.Run("a second start leaves what runs alone and replaces what has died", func(t *testing.T) {
		g := NewWithT(t)
		before := c.PIDs()
		g.Expect(syscall.Kill(before["kube-scheduler"], syscall.SIGKILL)).To(Succeed())
		g.Eventually(func() error { return c.Failure() }, patience).
			Should(MatchError(ContainSubstring("kube-scheduler (pid %d) has stopped: signal: killed", before["kube-scheduler"])))
		log.Reset()

		again, err := Start(ctx, options)
		g.Expect(err).NotTo(HaveOccurred())
		after := again.PIDs()
		g.Expect(log.String()).To(And(
			ContainSubstring("etcd runs already (pid %d)", before["etcd"]),
			ContainSubstring("kube-scheduler has died since it was started"),
			ContainSubstring("kube-scheduler started (pid %d)", after["kube-scheduler"])))
		delete(before, "kube-scheduler")
		delete(after, "kube-scheduler")
		g.Expect(after).To(Equal(before))
		g.Expect(again.ports).To(Equal(c.ports))
		c = again
	})

	t.Run("the API server can be taken away and comes back with what it had", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(c.StopAPIServer()).To(Succeed())
		g.Eventually(func() error { // retried, because an open connection breaks first
			_, err := clients.CoreV1().Nodes().Get(ctx, FakeNode, metav1.GetOptions{})
			return err
		}, patience).Should(MatchError(ContainSubstring("connection refused")))
		g.Expect(c.StartAPIServer(ctx)).To(Succeed())
		g.Expect(clients.CoreV1().Nodes().Get(ctx, FakeNode, metav1.GetOptions{})).To(HaveField("Name", "fake-0"))
	})

	t.Run("after a stop no process and no port is left", func(t *testing.T) {
		g := NewWithT(t)
		ids, ports := c.PIDs(), c.ports
		g.Expect(ids).To(HaveLen(5))
		begin := time.Now()
		g.Expect(c.Stop()).To(Succeed())
		t.Logf("stopped after %s", time.Since(begin).Round(time.Millisecond))
		for part, id := range ids { // an ended process keeps its id until the process that started it has reaped it
			g.Eventually(func() error { return syscall.Kill(id, 0) }, patience, "5ms").Should(MatchError(syscall.ESRCH), part)
		}
		g.Expect(ports.check()).To(Succeed())
		g.Expect(filepath.Glob(filepath.Join(options.Dir, "pids", "*"))).To(BeEmpty())
	})
}

func TestStartNamesThePartThatDies(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	_, err := Start(t.Context(), Options{Dir: dir, Assets: assets(t), APIServerArgs: []string{"--no-such-flag"}})
	g.Expect(err).To(MatchError(And(
		ContainSubstring("start control plane: wait for the API server to be ready: kube-apiserver (pid "),
		ContainSubstring("unknown flag: --no-such-flag"))))
	g.Expect(filepath.Glob(filepath.Join(dir, "pids", "*"))).To(BeEmpty())
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					InitContainers: []corev1.Container{{Name: "first", Image: "first"}},
					Containers:     []corev1.Container{{Name: "web", Image: "web"}},
				},
			},
		},
	}
}

func userOf(ctx context.Context, config *rest.Config) (string, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	review, err := clients.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("review own user: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

//go:build e2e

package webhookserver_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tokenFolder is the folder in which a container finds the Pod's token, which the API server or the webhook mounts.
const tokenFolder = "/var/run/secrets/kubernetes.io/serviceaccount/"

var _ = Describe("Pods", Label("smoke"), func() {
	var namespace string

	BeforeEach(func(ctx SpecContext) {
		namespace = namespaceOfSpec(ctx, nil, nil)
		asked(ctx, namespace)
	}, NodeTimeout(2*time.Minute))

	It("really run under the seccomp profile RuntimeDefault, unless they say otherwise or opt out", func(ctx SpecContext) {
		unconfined := c.Pod(namespace, "unconfined", "print", "/proc/self/status")
		unconfined.Spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		skipped := lax(namespace, "skipped", "print", "/proc/self/status")
		skipped.Labels["seccompprofile.resources.gardener.cloud/skip"] = ""
		filters := map[string]int{}
		for _, each := range []struct {
			pod     *corev1.Pod
			profile *corev1.SeccompProfile
		}{
			{lax(namespace, "lax", "print", "/proc/self/status"), &corev1.SeccompProfile{Type: "RuntimeDefault"}},
			{unconfined, &corev1.SeccompProfile{Type: "Unconfined"}},
			{skipped, nil},
		} {
			Expect(c.Client.Create(ctx, each.pod)).To(Succeed())
			Expect(each.pod.Spec.SecurityContext.SeccompProfile).To(Equal(each.profile), each.pod.Name)
			code, status, err := c.PodEnded(ctx, namespace, each.pod.Name)
			Expect(err).NotTo(HaveOccurred())
			Expect(code).To(BeZero(), each.pod.Name)
			filters[each.pod.Name] = seccompFilters(status)
		}
		// The machine itself may add filters to every Pod.
		Expect(filters["lax"]).To(Equal(filters["unconfined"] + 1))
		Expect(filters["skipped"]).To(Equal(filters["unconfined"]))
	}, SpecTimeout(4*time.Minute))

	It("have a token that the API server accepts, where their ServiceAccount forbids automounting", func(ctx SpecContext) {
		robot(ctx, namespace)
		path := "/api/v1/namespaces/" + namespace + "/configmaps/greeting"
		fetch := []string{"fetch", "-token", tokenFolder + "token", "-ca", tokenFolder + "ca.crt", "-for", "20s", path}
		pod := withRobot(c.Pod(namespace, "mounted", fetch...))
		Expect(c.Client.Create(ctx, pod)).To(Succeed())
		Expect(pod.Spec.Volumes).To(Equal([]corev1.Volume{tokenVolume(43200)}))
		Expect(pod.Spec.Containers[0].VolumeMounts).To(Equal([]corev1.VolumeMount{{
			Name: "kube-api-access-gardener", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount",
		}}))
		code, output, err := c.PodEnded(ctx, namespace, "mounted")
		Expect(err).NotTo(HaveOccurred())
		Expect(code).To(BeZero(), output)
		Expect(output).To(ContainSubstring("hello, robot"))

		By("a Pod that opts out, which has no token")
		skipped := withRobot(c.Pod(namespace, "skipped", fetch...))
		skipped.Spec.Containers[0].Args[6] = "1s"
		skipped.Labels["projected-token-mount.resources.gardener.cloud/skip"] = "true"
		Expect(c.Client.Create(ctx, skipped)).To(Succeed())
		Expect(skipped.Spec.Volumes).To(BeEmpty())
		code, output, err = c.PodEnded(ctx, namespace, "skipped")
		Expect(err).NotTo(HaveOccurred())
		Expect(code).To(BeEquivalentTo(1))
		Expect(output).To(ContainSubstring("no such file"))
	}, SpecTimeout(4*time.Minute))

	It("have a token of their own ServiceAccount and Pod, for as long as they ask", func(ctx SpecContext) {
		robot(ctx, namespace)
		printer := withRobot(c.Pod(namespace, "printer", "print", tokenFolder+"token"))
		printer.Annotations = map[string]string{"projected-token-mount.resources.gardener.cloud/expiration-seconds": "900"}
		Expect(c.Client.Create(ctx, printer)).To(Succeed())
		Expect(printer.Spec.Volumes).To(Equal([]corev1.Volume{tokenVolume(900)}))
		code, token, err := c.PodEnded(ctx, namespace, "printer")
		Expect(err).NotTo(HaveOccurred())
		Expect(code).To(BeZero())

		review, err := c.Clients.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: strings.TrimSpace(token)},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(review.Status.Error).To(BeEmpty())
		Expect(review.Status.Authenticated).To(BeTrue())
		Expect(review.Status.User.Username).To(Equal("system:serviceaccount:" + namespace + ":robot"))
		Expect(review.Status.User.Extra["authentication.kubernetes.io/pod-name"]).To(ConsistOf("printer"))
	}, SpecTimeout(3*time.Minute))

	It("of a Deployment spread over hosts anew with each rollout", func(ctx SpecContext) {
		press := deployment(namespace, 1, nil)
		press.Spec.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "kubernetes.io/hostname", WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "press"}},
		}}
		Expect(c.Client.Create(ctx, press)).To(Succeed())
		Expect(press.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels).To(Equal(map[string]string{"app": "press"}))

		var pod corev1.Pod
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			pods, err := podsOf(ctx, namespace)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(pods).To(HaveLen(1))
			pod = pods[0]
		}).Should(Succeed())
		hash := pod.Labels["pod-template-hash"]
		Expect(hash).NotTo(BeEmpty())
		Expect(pod.Spec.TopologySpreadConstraints).To(Equal([]corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "kubernetes.io/hostname", WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "press", "pod-template-hash": hash}},
		}}))
		_, err := c.PodReady(ctx, namespace, pod.Name)
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(3*time.Minute))

	It("of kube-system and of the server's own namespace are left as they are", func(ctx SpecContext) {
		for _, each := range []string{"kube-system", system} {
			pod := lax(each, fmt.Sprintf("e2e-%d", GinkgoRandomSeed()), "sleep")
			// The server's own namespace refuses Pods without a profile, so the container sets one. The webhook would set it in the Pod.
			pod.Spec.Containers[0].SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
			Expect(c.Client.Create(ctx, pod, client.DryRunAll)).To(Succeed())
			Expect(pod.Spec.SecurityContext.SeccompProfile).To(BeNil(), each)
		}
	})
})

// seccompFilters returns the number of seccomp filters of a process, from its status in /proc.
func seccompFilters(status string) int {
	GinkgoHelper()
	_, rest, found := strings.Cut(status, "\nSeccomp_filters:\t")
	Expect(found).To(BeTrue(), status)
	line, _, _ := strings.Cut(rest, "\n")
	number, err := strconv.Atoi(line)
	Expect(err).NotTo(HaveOccurred())
	return number
}

// robot creates a ServiceAccount that disables automounting and has the right to read one ConfigMap.
func robot(ctx SpecContext, namespace string) {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "robot"}
	for _, each := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "greeting"}, Data: map[string]string{"text": "hello, robot"}},
		&corev1.ServiceAccount{ObjectMeta: meta, AutomountServiceAccountToken: ptr.To(false)},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"},
			Verbs: []string{"get"},
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "robot"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "robot"}},
		},
	} {
		Expect(c.Client.Create(ctx, each)).To(Succeed())
	}
}

// withRobot makes a Pod use ServiceAccount robot. The webhook mounts the token.
func withRobot(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.ServiceAccountName = "robot"
	pod.Spec.AutomountServiceAccountToken = nil
	return pod
}

// tokenVolume returns the volume that the webhook adds.
func tokenVolume(seconds int64) corev1.Volume {
	return corev1.Volume{Name: "kube-api-access-gardener", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: ptr.To[int32](420),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To(seconds)}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}}}},
		},
	}}}
}

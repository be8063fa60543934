//go:build e2e

package csrapprover_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/node"
)

// program is the path of the only file in the workload image.
const program = "/ko-app/workload"

var _ = Describe("the kubelet", Serial, func() {
	var namespace string

	BeforeEach(func(ctx SpecContext) {
		var remove func(context.Context) error
		var err error
		namespace, remove, err = c.Namespace(ctx, "csr", nil)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) { Expect(remove(ctx)).To(Succeed()) }, NodeTimeout(3*time.Minute))
		Expect(c.Client.Create(ctx, c.Pod(namespace, "speaker", "print", "/proc/self/status"))).To(Succeed())
		Expect(c.Client.Create(ctx, c.Pod(namespace, "listener", "serve"))).To(Succeed())
		_, err = c.PodReady(ctx, namespace, "listener")
		Expect(err).NotTo(HaveOccurred())
		_, _, err = c.PodEnded(ctx, namespace, "speaker")
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(3*time.Minute))

	// speak sends requests to the kubelet. They succeed only if the kubelet has a certificate that the API server accepts.
	speak := func(ctx context.Context) error {
		for _, args := range [][]string{
			{"logs", "-n", namespace, "speaker"},
			{"exec", "-n", namespace, "listener", "--", program, "print", "/proc/self/status"},
		} {
			said, err := c.Kubectl(ctx, args...)
			if err != nil {
				return err
			}
			if !strings.Contains(said, "Name:\tworkload\n") {
				return fmt.Errorf("kubectl %s says something else: %q", args[0], said)
			}
		}
		return nil
	}

	It("has a certificate by which kubectl logs and kubectl exec work", Label("smoke"), func(ctx SpecContext) {
		// A kubelet that has waited long for a certificate sends a new request only after a pause.
		Eventually(ctx, speak).WithTimeout(3 * time.Minute).Should(Succeed())
		// The cluster deletes old requests after some time; the existing ones were approved by our binary.
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			for _, asked := range ofKubelets(ctx) {
				g.Expect(decision(&asked)).To(Equal(approval()), "CertificateSigningRequest %s of %s", asked.Name, asked.Spec.Username)
				g.Expect(asked.Status.Certificate).NotTo(BeEmpty())
			}
		}).Should(Succeed())
	}, SpecTimeout(5*time.Minute))

	It("cannot serve before its request is approved, and serves thereafter", func(ctx SpecContext) {
		dir := filepath.Dir(c.Kubeconfig)
		if someNode(ctx).Name != node.Name || !isFolder(filepath.Join(dir, "kubelet-pki")) {
			Skip("SKIPPED: only the kubelet of the local node (make up-node) can be restarted and its certificate be taken away")
		}
		Eventually(ctx, speak).Should(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			upnode(ctx, "start")
			Expect(c.Ensure(ctx, binary)).To(Succeed())
		}, NodeTimeout(5*time.Minute))
		scaleTo(ctx, 0)

		upnode(ctx, "stop", "kubelet")
		before := ofKubelets(ctx)
		forgetCertificate(filepath.Join(dir, "kubelet-pki"))
		upnode(ctx, "start")

		By("waiting for the kubelet to ask anew")
		var asked certificatesv1.CertificateSigningRequest
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			// The cluster deletes old requests meanwhile, so their number cannot be compared.
			now := slices.DeleteFunc(ofKubelets(ctx), func(each certificatesv1.CertificateSigningRequest) bool {
				return slices.ContainsFunc(before, func(old certificatesv1.CertificateSigningRequest) bool { return old.UID == each.UID })
			})
			g.Expect(now).NotTo(BeEmpty())
			asked = now[len(now)-1]
		}).Should(Succeed())
		// The kubelet sends the request before it listens.
		Eventually(ctx, speak).Should(MatchError(ContainSubstring("tls: ")))
		Consistently(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(answered(ctx, asked.Name)).To(Equal(answer{}))
			g.Expect(speak(ctx)).To(MatchError(ContainSubstring("tls: ")))
		}).WithTimeout(quiet).WithPolling(time.Second).Should(Succeed())

		By("starting csr-approver")
		Expect(c.Ensure(ctx, binary)).To(Succeed())
		Eventually(ctx, answered).WithArguments(asked.Name).Should(Equal(approval()))
		Eventually(ctx, speak).Should(Succeed())
	}, SpecTimeout(6*time.Minute))
})

var _ = Describe("replicas", Serial, func() {
	It("decide what was asked while none of them ran", func(ctx SpecContext) {
		DeferCleanup(func(ctx SpecContext) { Expect(c.Ensure(ctx, binary)).To(Succeed()) }, NodeTimeout(5*time.Minute))
		scaleTo(ctx, 0)
		good, _ := send(ctx, fromKubelet(someNode(ctx)))
		bad := forged(someNode(ctx))
		bad.user = "mallory"
		forgery, _ := send(ctx, bad)
		Consistently(ctx, answered).WithArguments(good.Name).WithTimeout(quiet).Should(Equal(answer{}))

		Expect(c.Ensure(ctx, binary)).To(Succeed())

		Eventually(ctx, answered).WithArguments(good.Name).Should(Equal(approval()))
		Eventually(ctx, answered).WithArguments(forgery.Name).Should(Equal(denial(`username "mallory" is not prefixed with "system:node:"`)))
	}, SpecTimeout(5*time.Minute))

	It("take over from the one that works when its Pod is deleted", func(ctx SpecContext) {
		DeferCleanup(func(ctx SpecContext) { Expect(c.RolledOut(ctx, binary)).To(Succeed()) }, NodeTimeout(4*time.Minute))
		Expect(c.HandOver(ctx, binary, lease)).To(Succeed())

		sent, _ := send(ctx, fromKubelet(someNode(ctx)))
		Eventually(ctx, answered).WithArguments(sent.Name).Should(Equal(approval()))
	}, SpecTimeout(5*time.Minute))
})

// ofKubelets returns the requests for serving certificates that kubelets themselves have sent, oldest first.
func ofKubelets(ctx context.Context) []certificatesv1.CertificateSigningRequest {
	GinkgoHelper()
	all, err := c.Clients.CertificatesV1().CertificateSigningRequests().
		List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=" + servingSigner})
	Expect(err).NotTo(HaveOccurred())
	var found []certificatesv1.CertificateSigningRequest
	for _, each := range all.Items {
		if strings.HasPrefix(each.Name, "csr-") {
			found = append(found, each)
		}
	}
	slices.SortFunc(found, func(a, b certificatesv1.CertificateSigningRequest) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return found
}

// scaleTo sets the number of replicas, and waits until there are that many Pods.
func scaleTo(ctx context.Context, replicas int) {
	GinkgoHelper()
	Expect(c.Scale(ctx, binary, int32(replicas))).To(Succeed())
	Eventually(ctx, func(ctx context.Context) (int, error) {
		pods, err := c.Pods(ctx, binary)
		return len(pods), err
	}).Should(Equal(replicas))
}

// upnode runs the program that manages the local node.
func upnode(ctx context.Context, args ...string) {
	GinkgoHelper()
	root, err := local.RepositoryRoot()
	Expect(err).NotTo(HaveOccurred())
	cmd := exec.CommandContext(ctx, "go", append([]string{"run", "./hack/upnode"}, args...)...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
}

// forgetCertificate removes a kubelet's serving certificate, but not its client certificate.
func forgetCertificate(dir string) {
	GinkgoHelper()
	files, err := filepath.Glob(filepath.Join(dir, "kubelet-server-*"))
	Expect(err).NotTo(HaveOccurred())
	Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		Expect(os.Remove(file)).To(Succeed())
	}
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

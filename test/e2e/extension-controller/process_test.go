//go:build e2e

package extensioncontroller_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

// limit is longer than the pauses between restarts of a Pod that ends again and again for a minute.
const limit = 6 * time.Minute

func secret(ctx context.Context, name string) (*corev1.Secret, error) {
	found := &corev1.Secret{}
	return found, c.Client.Get(ctx, client.ObjectKey{Namespace: cluster.SystemNamespace, Name: name}, found)
}

// approved approves requests until the spec ends.
func approved() {
	ctx, stop := context.WithCancel(context.Background())
	DeferCleanup(stop)
	go c.ApproveSeed(ctx)
}

var _ = Describe("its own Pods", Ordered, ContinueOnFailure, func() {
	cluster.Process{Binary: binary, Lease: "gardenlet-leader-election-extension-controller"}.Specs(&c)

	It("have got a certificate, and have deleted the credentials that requested it", Label("smoke"), func(ctx SpecContext) {
		stored, err := secret(ctx, cluster.SeedKubeconfig)
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Data).To(HaveKey("kubeconfig"))
		Eventually(ctx, func(ctx context.Context) bool {
			_, err := secret(ctx, cluster.SeedBootstrap)
			return apierrors.IsNotFound(err)
		}).Should(BeTrue())
	})

	It("renew the certificate when its Secret is annotated", func(ctx SpecContext) {
		approved()
		before, err := secret(ctx, cluster.SeedKubeconfig)
		Expect(err).NotTo(HaveOccurred())
		changed := before.DeepCopy()
		changed.Annotations = map[string]string{"gardener.cloud/operation": "renew"}
		Expect(c.Client.Patch(ctx, changed, client.MergeFrom(before))).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			now, err := secret(ctx, cluster.SeedKubeconfig)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.Data["kubeconfig"]).NotTo(Equal(before.Data["kubeconfig"]))
			g.Expect(now.Annotations).NotTo(HaveKey("gardener.cloud/operation"))
		}).WithTimeout(limit).Should(Succeed())
		Eventually(ctx, c.RolledOut).WithArguments(binary).WithTimeout(limit).Should(Succeed())
	}, SpecTimeout(2*limit))

	It("request another certificate when the Secret is deleted", func(ctx SpecContext) {
		approved()
		Expect(c.BootstrapSeed(ctx)).To(Succeed())
		before, err := secret(ctx, cluster.SeedKubeconfig)
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Client.Delete(ctx, before)).To(Succeed())
		Eventually(ctx, func(ctx context.Context) error {
			_, err := secret(ctx, cluster.SeedKubeconfig)
			return err
		}).WithTimeout(limit).Should(Succeed())
		Eventually(ctx, c.RolledOut).WithArguments(binary).WithTimeout(limit).Should(Succeed())
	}, SpecTimeout(2*limit))

	It("do not work while a gardenlet holds its lease", func(ctx SpecContext) {
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "gardenlet-leader-election"},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("gardenlet-1"), LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: ptr.To(metav1.NowMicro()),
			},
		}
		Expect(c.Client.Create(ctx, lease)).To(Succeed())
		remove := func(ctx context.Context) error { return client.IgnoreNotFound(c.Client.Delete(ctx, lease)) }
		DeferCleanup(remove)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			pods, err := c.Pods(ctx, binary)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(pods).NotTo(BeEmpty())
			for _, pod := range pods {
				logs, err := c.Clients.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(string(logs)).To(ContainSubstring("Error: a gardenlet is running: lease garden/gardenlet-leader-election"))
			}
		}).WithTimeout(limit).Should(Succeed())
		Expect(remove(ctx)).To(Succeed())
		Eventually(ctx, c.RolledOut).WithArguments(binary).WithTimeout(limit).Should(Succeed())
	}, SpecTimeout(2*limit))
})

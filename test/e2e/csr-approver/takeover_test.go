//go:build e2e

package csrapprover_test

import (
	"context"
	"encoding/json"
	"net"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// stolen is the name of a Node that an attacker controls, with the credentials of its kubelet. It has no kubelet and no Pods.
const stolen = "e2e-stolen"

// The attacker controls one node. The API server allows a kubelet to write any address into the status of its own Node.
var _ = Describe("a node that claims to be the API server", func() {
	DescribeTable("gets no certificate", Label("smoke"), func(ctx SpecContext, claim func(context.Context) (corev1.NodeAddress, string)) {
		address, reason := claim(ctx)
		kubelet := kubeletOf(stolen)
		_, err := kubelet.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: stolen}, Spec: corev1.NodeSpec{Unschedulable: true},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(c.Clients.CoreV1().Nodes().Delete(ctx, stolen, metav1.DeleteOptions{})).To(Succeed())
		})
		// A patch, because the controller manager changes a new Node at the same time, so that an update could conflict.
		status, err := json.Marshal(map[string]any{"status": map[string]any{"addresses": []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: stolen}, {Type: corev1.NodeInternalIP, Address: "192.0.2.200"}, address,
		}}})
		Expect(err).NotTo(HaveOccurred())
		node, err := kubelet.CoreV1().Nodes().Patch(ctx, stolen, types.MergePatchType, status, metav1.PatchOptions{}, "status")
		Expect(err).NotTo(HaveOccurred())
		Expect(node.Status.Addresses).To(ContainElement(address), "the API server must accept the address, or nothing is tested")

		// The cache of csr-approver may not contain the new Node yet. Then it denies the request for that reason, and a kubelet would send
		// another one.
		var last answer
		for attempts := 10; attempts > 0 && last != denial(reason); attempts-- {
			sent, _ := send(ctx, fromKubelet(node))
			Eventually(ctx, answered).WithArguments(sent.Name).Should(HaveField("Decision", "Denied"))
			Expect(issued(ctx, sent.Name)).To(BeEmpty())
			last, err = answered(ctx, sent.Name)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(last).To(Equal(denial(reason)))
	},
		Entry("by its short name", apiServerName("kubernetes")),
		Entry("by its name", apiServerName("kubernetes.default.svc")),
		Entry("by its name in the domain of the cluster", apiServerName("kubernetes.default.svc.cluster.local")),
		Entry("by a wildcard that covers its name", apiServerName("*.default.svc.cluster.local")),
		Entry("by its cluster IP", func(ctx context.Context) (corev1.NodeAddress, string) {
			service, err := c.Clients.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			ip := service.Spec.ClusterIP
			return corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: ip}, `IP address "` + ip + `" is an identity that is denied to nodes`
		}),
		Entry("by the address at which it listens", func(ctx context.Context) (corev1.NodeAddress, string) {
			slice, err := c.Clients.DiscoveryV1().EndpointSlices("default").Get(ctx, "kubernetes", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			ip := slice.Endpoints[0].Addresses[0]
			return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip},
				`IP address "` + net.ParseIP(ip).String() +
					`" belongs to the API server, and the node has no label node-role.kubernetes.io/control-plane`
		}),
	)

	It("cannot label itself as a control plane node", func(ctx SpecContext) {
		labelled := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name:   stolen,
			Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""},
		}}
		_, err := kubeletOf(stolen).CoreV1().Nodes().Create(ctx, labelled, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		Expect(err).To(MatchError(ContainSubstring("is not allowed to set the following labels: node-role.kubernetes.io/control-plane")))
	})
})

func apiServerName(name string) func(context.Context) (corev1.NodeAddress, string) {
	return func(context.Context) (corev1.NodeAddress, string) {
		return corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: name},
			`DNS name "` + name + `" is or covers an identity that is denied to nodes`
	}
}

// kubeletOf returns a client with the rights of a node's kubelet, and no others.
func kubeletOf(node string) kubernetes.Interface {
	GinkgoHelper()
	cfg := rest.CopyConfig(c.Config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"}}
	clients, err := kubernetes.NewForConfig(cfg)
	Expect(err).NotTo(HaveOccurred())
	return clients
}

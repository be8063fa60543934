package cluster

import (
	"context"
	"fmt"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podPatience is how long a Pod of a spec may take to start, or to do its work.
const podPatience = 2 * time.Minute

// Pod returns a Pod of the workload image that runs one of its subcommands. The Pod satisfies the restricted Pod security standard, is not
// restarted when it ends, and mounts no token. Specs change other fields as needed.
func (c *Cluster) Pod(namespace, name string, args ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec:       c.PodSpec(corev1.RestartPolicyNever, args...),
	}
}

// PodSpec returns the spec of a Pod like the result of Pod, with another restart policy, for templates of workloads.
func (c *Cluster) PodSpec(restart corev1.RestartPolicy, args ...string) corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy:                 restart,
		AutomountServiceAccountToken:  ptr.To(false),
		TerminationGracePeriodSeconds: ptr.To[int64](1),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65532), RunAsGroup: ptr.To[int64](65532), FSGroup: ptr.To[int64](65532),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: "workload", Image: c.Image("workload"), ImagePullPolicy: corev1.PullIfNotPresent, Args: args,
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}
}

// PodReady waits until a Pod is ready and returns it.
func (c *Cluster) PodReady(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return c.awaitPod(ctx, namespace, name, "is not ready", isReady)
}

// PodEnded waits until the container of a Pod has ended, and returns its exit code and its output.
func (c *Cluster) PodEnded(ctx context.Context, namespace, name string) (code int32, output string, err error) {
	pod, err := c.awaitPod(ctx, namespace, name, "has not ended", func(pod corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Terminated != nil
	})
	if err != nil {
		return 0, "", err
	}
	// The output is the termination message: to read logs, the API server connects to the kubelet, whose certificate may not be approved
	// yet.
	ended := pod.Status.ContainerStatuses[0].State.Terminated
	return ended.ExitCode, ended.Message, nil
}

// awaitPod waits until reached returns true for a Pod, and returns the Pod. The text problem describes the Pod in the error until then.
func (c *Cluster) awaitPod(ctx context.Context, namespace, name, problem string, reached func(corev1.Pod) bool) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := await(ctx, podPatience, "Pod "+namespace+"/"+name, func(ctx context.Context) error {
		if err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
			return err
		}
		if !reached(*pod) {
			return fmt.Errorf("it %s: %s", problem, describe(*pod))
		}
		return nil
	})
	return pod, err
}

// ServingIdentities returns the names and addresses for which a Node's kubelet requests a serving certificate.
func ServingIdentities(node *corev1.Node) (names []string, addresses []net.IP) {
	for _, address := range node.Status.Addresses {
		switch address.Type {
		case corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeExternalDNS:
			names = append(names, address.Address)
		case corev1.NodeInternalIP, corev1.NodeExternalIP:
			addresses = append(addresses, net.ParseIP(address.Address))
		}
	}
	return names, addresses
}

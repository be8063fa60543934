//go:build e2e

package netpolcontroller_test

import (
	"context"
	"fmt"
	"maps"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// prefix is the prefix of the controller's labels and annotations.
const prefix = "networking.resources.gardener.cloud/"

// quiet is how long nothing may happen before a spec assumes that nothing will. Policies are written within milliseconds.
const quiet = 3 * time.Second

// optIn is the label by which an administrator enables netpol-controller in a namespace.
const optIn = "espalier.dev/network-policies"

// namespaceOfSpec creates a namespace with the label optIn. It is deleted after the spec.
func namespaceOfSpec(ctx context.Context, labels map[string]string) string {
	GinkgoHelper()
	all := map[string]string{optIn: "enabled"}
	maps.Copy(all, labels)
	return plainNamespace(ctx, all)
}

// plainNamespace creates a namespace that has only these labels. It is deleted after the spec.
func plainNamespace(ctx context.Context, labels map[string]string) string {
	GinkgoHelper()
	name, remove, err := c.Namespace(ctx, "netpol", labels)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { Expect(remove(ctx)).To(Succeed()) }, NodeTimeout(3*time.Minute))
	return name
}

// stall returns a Service with the name stall and one port.
func stall(namespace string, annotations map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "stall", Annotations: annotations},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "stall"},
			Ports:    []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
}

// policiesOf returns the policies for the Service stall of a namespace, by namespace/name. They may be in any namespace.
func policiesOf(ctx context.Context, namespace string) (map[string]networkingv1.NetworkPolicySpec, error) {
	list := &networkingv1.NetworkPolicyList{}
	err := c.Client.List(ctx, list, client.MatchingLabels{prefix + "service-name": "stall", prefix + "service-namespace": namespace})
	found := map[string]networkingv1.NetworkPolicySpec{}
	for _, policy := range list.Items {
		found[policy.Namespace+"/"+policy.Name] = policy.Spec
	}
	return found, err
}

// namesOf returns the names of the policies for the Service stall.
func namesOf(ctx context.Context, namespace string) ([]string, error) {
	policies, err := policiesOf(ctx, namespace)
	names := make([]string, 0, len(policies))
	for name := range policies {
		names = append(names, name)
	}
	return names, err
}

func labelled(labels ...string) *metav1.LabelSelector {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := 0; i < len(labels); i += 2 {
		selector.MatchLabels[labels[i]] = labels[i+1]
	}
	return selector
}

func inNamespace(name string) *metav1.LabelSelector {
	return labelled("kubernetes.io/metadata.name", name)
}

func tcp(port int32) []networkingv1.NetworkPolicyPort {
	return []networkingv1.NetworkPolicyPort{{Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(intstr.FromInt32(port))}}
}

// letsIn returns the policy that allows ingress to the Pods of stall; namespaces is nil if the clients are in the same namespace.
func letsIn(client string, namespaces *metav1.LabelSelector, port int32) networkingv1.NetworkPolicySpec {
	return networkingv1.NetworkPolicySpec{
		PodSelector: *labelled("app", "stall"), PolicyTypes: []networkingv1.PolicyType{"Ingress"},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{
			From:  []networkingv1.NetworkPolicyPeer{{PodSelector: labelled(client, "allowed"), NamespaceSelector: namespaces}},
			Ports: tcp(port),
		}},
	}
}

// letsOut returns the policy that allows egress of the clients of stall.
func letsOut(client string, namespaces *metav1.LabelSelector, port int32) networkingv1.NetworkPolicySpec {
	return networkingv1.NetworkPolicySpec{
		PodSelector: *labelled(client, "allowed"), PolicyTypes: []networkingv1.PolicyType{"Egress"},
		Egress: []networkingv1.NetworkPolicyEgressRule{{
			To:    []networkingv1.NetworkPolicyPeer{{PodSelector: labelled("app", "stall"), NamespaceSelector: namespaces}},
			Ports: tcp(port),
		}},
	}
}

// edit changes the Service stall.
func edit(ctx context.Context, namespace string, change func(*corev1.Service)) {
	GinkgoHelper()
	service := &corev1.Service{}
	Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "stall"}, service)).To(Succeed())
	before := service.DeepCopy()
	change(service)
	Expect(c.Client.Patch(ctx, service, client.MergeFrom(before))).To(Succeed())
}

// eventsOfStall returns the Events about the Service stall, as "Reason: note".
func eventsOfStall(ctx context.Context, namespace string) ([]string, error) {
	list, err := c.Clients.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	found := make([]string, 0, len(list.Items))
	for _, event := range list.Items {
		if event.Regarding.Kind == "Service" && event.Regarding.Name == "stall" {
			found = append(found, fmt.Sprintf("%s: %s", event.Reason, event.Note))
		}
	}
	return found, nil
}

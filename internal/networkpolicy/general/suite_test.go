package general_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/networkpolicy"
	"github.com/espalier-dev/espalier/test/binary"
)

// closeLabel is the label with which the tests select namespaces. Its value consists of the namespace of the scene and the scope.
const closeLabel = "test.espalier.dev/close"

// inClosed returns the names of the policies of a closed namespace, in the order of their creation.
func inClosed() []string { return []string{"allow-to-runtime-apiserver", "allow-to-dns", "deny-all"} }

func inFull() []string {
	return []string{
		"allow-to-runtime-apiserver", "allow-to-dns",
		"allow-to-public-networks", "allow-to-private-networks", "allow-to-blocked-cidrs", "deny-all",
	}
}

// Controllers watch the whole cluster, and the tests change the endpoints of its API server.
func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }

// scene is a running controller that selects the namespaces of the scene.
type scene struct{ *binary.Env }

// newScene starts the controller, unless stopped is true, in a cluster whose API server has an endpoint.
func newScene(t *testing.T, stopped bool, change func(*config.GeneralNetworkPolicies)) *scene {
	t.Helper()
	s := &scene{binary.New(t, binary.Binary{Name: "netpol-controller", Needs: networkpolicy.Needs, Add: networkpolicy.Add}, binary.Options{
		Config: "controllers: {networkPolicy: {enabled: true}}", Stopped: true, EverySourceNamespace: true,
	})}
	selecting := func(scope string) []metav1.LabelSelector {
		return []metav1.LabelSelector{{MatchLabels: map[string]string{closeLabel: s.Namespace + "-" + scope}}}
	}
	general := &config.GeneralNetworkPolicies{NamespaceSelectors: selecting("full"), ClosedNamespaceSelectors: selecting("closed")}
	if change != nil {
		change(general)
	}
	s.Config.Espalier.NetworkPolicy.General = general
	s.Config.Controllers.NetworkPolicy.NamespaceSelectors = selecting("services")
	s.serve("192.0.2.1")
	if !stopped {
		s.Start()
	}
	return s
}

// serve replaces the endpoints of the API server by these addresses. The API server of the tests has none of its own.
func (s *scene) serve(addresses ...string) {
	s.T.Helper()
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}}
	s.Expect(client.IgnoreNotFound(s.Target.Delete(s.Ctx, slice.DeepCopy()))).To(Succeed())
	if len(addresses) == 0 {
		return
	}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: "kubernetes"}
	slice.AddressType = discoveryv1.AddressTypeIPv4
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: addresses}}
	slice.Ports = []discoveryv1.EndpointPort{{Port: new(int32(6443)), Protocol: ptr.To(corev1.ProtocolTCP)}}
	s.Expect(s.Target.Create(s.Ctx, slice)).To(Succeed())
}

// namespace creates a namespace with a scope, and returns its name.
func (s *scene) namespace(suffix, scope string) string {
	s.T.Helper()
	name := s.Namespace + "-" + suffix
	s.Expect(s.Target.Create(s.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: s.scope(scope)}})).To(Succeed())
	return name
}

func (s *scene) scope(scope string) map[string]string {
	return map[string]string{closeLabel: s.Namespace + "-" + scope}
}

func (s *scene) setScope(namespace, scope string) {
	s.T.Helper()
	s.change(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, func(o client.Object) {
		labels := o.GetLabels()
		labels[closeLabel] = s.Namespace + "-" + scope
		o.SetLabels(labels)
	})
}

// change reads an object, changes it and writes it.
func (s *scene) change(object client.Object, change func(client.Object)) {
	s.T.Helper()
	s.Expect(s.Target.Get(s.Ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	before, ok := object.DeepCopyObject().(client.Object)
	s.Expect(ok).To(BeTrue())
	change(object)
	s.Expect(s.Target.Patch(s.Ctx, object, client.MergeFrom(before))).To(Succeed())
}

func (s *scene) policy(namespace, name string) *networkingv1.NetworkPolicy {
	s.T.Helper()
	policy := &networkingv1.NetworkPolicy{}
	s.Expect(s.Target.Get(s.Ctx, types.NamespacedName{Namespace: namespace, Name: name}, policy)).To(Succeed())
	return policy
}

// names returns the names of the policies in a namespace.
func (s *scene) names(namespace string) []string {
	list := &networkingv1.NetworkPolicyList{}
	if err := s.Target.List(s.Ctx, list, client.InNamespace(namespace)); err != nil {
		return []string{err.Error()}
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// awaits waits until exactly these policies exist in a namespace.
func (s *scene) awaits(namespace string, names ...string) {
	s.T.Helper()
	s.Eventually(func() []string { return s.names(namespace) }).WithTimeout(binary.Patience).Should(ConsistOf(names))
}

// writes returns the requests of the controller that write policies, without the paths.
func (s *scene) writes() []string {
	var all []string
	for _, each := range s.Requests.Writes() {
		if verb, path, _ := strings.Cut(each, " "); strings.Contains(path, "/networkpolicies") {
			all = append(all, verb+" "+path[strings.LastIndex(path, "/")+1:])
		}
	}
	return all
}

// destinations returns the networks that a policy allows, with the first port.
func destinations(policy *networkingv1.NetworkPolicy) []string {
	var all []string
	for _, rule := range policy.Spec.Egress {
		for _, peer := range rule.To {
			text := peer.IPBlock.CIDR
			if len(peer.IPBlock.Except) > 0 {
				text += " without " + strings.Join(peer.IPBlock.Except, ", ")
			}
			if len(rule.Ports) > 0 {
				text += ":" + rule.Ports[0].Port.String()
			}
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return all
}

// awaitsDestinations waits until a policy allows these networks and ports.
func (s *scene) awaitsDestinations(namespace, name string, want OmegaMatcher) {
	s.T.Helper()
	s.Eventually(func() []string { return destinations(s.policy(namespace, name)) }).WithTimeout(binary.Patience).Should(want)
}

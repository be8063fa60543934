package networkpolicies_test

import (
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/garden/component/networkpolicies"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func networks(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	goldentest.Compare(t, "", map[string][]client.Object{
		"plain": networkpolicies.Objects(values.Values{Operator: values.Operator{Namespace: "garden"}, APIServerPorts: []int32{443, 6443}}),
		"prometheus-health-checks": networkpolicies.Objects(values.Values{
			Operator: values.Operator{Namespace: "garden", PrometheusHealthChecks: true}, APIServerPorts: []int32{443},
		}),
		"metadata-service": networkpolicies.Objects(values.Values{
			Operator: values.Operator{Namespace: "garden", BackupMetadataService: true}, APIServerPorts: []int32{443},
			Networks: values.Networks{Blocked: networks("169.254.1.1/32", "192.0.0.0/8")},
		}),
	})
}

// The metadata service of a cloud has the credentials of the node. Users of the virtual cluster decide where kube-apiserver connects to.
func TestLinkLocalAddressesAreForBackupsOnly(t *testing.T) {
	for name, setting := range map[string]bool{"by default": false, "for backups": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var allowed []string
			for _, each := range networkpolicies.Objects(values.Values{Operator: values.Operator{BackupMetadataService: setting}}) {
				policy, ok := each.(*networkingv1.NetworkPolicy)
				g.Expect(ok).To(BeTrue())
				for _, address := range []string{"169.254.169.254", "fe80::a9fe:a9fe"} {
					if allows(policy, netip.MustParseAddr(address)) {
						allowed = append(allowed, policy.Name+" "+address)
					}
				}
			}
			if setting {
				const policy = "garden-etcd-main-to-metadata-service "
				g.Expect(allowed).To(Equal([]string{policy + "169.254.169.254", policy + "fe80::a9fe:a9fe"}))
			} else {
				g.Expect(allowed).To(BeEmpty())
			}
		})
	}
}

// allows reports whether a policy names a network with an address.
func allows(policy *networkingv1.NetworkPolicy, address netip.Addr) bool {
	contains := func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(address) }
	for _, rule := range policy.Spec.Egress {
		for _, peer := range rule.To {
			if contains(peer.IPBlock.CIDR) && !slices.ContainsFunc(peer.IPBlock.Except, contains) {
				return true
			}
		}
	}
	return false
}

// A rule without peers, or without ports, allows all of them.
func TestNothingLeftIsNothingAllowed(t *testing.T) {
	g := NewWithT(t)
	of := values.Values{
		Operator: values.Operator{BackupMetadataService: true}, Networks: values.Networks{Blocked: networks("0.0.0.0/0", "::/0")},
	}
	for _, each := range networkpolicies.Objects(of) {
		policy, ok := each.(*networkingv1.NetworkPolicy)
		g.Expect(ok).To(BeTrue())
		if strings.HasPrefix(policy.Name, "garden-operator-to-virtual-") { // they have no networks
			continue
		}
		g.Expect(policy.Spec.PolicyTypes).To(Equal([]networkingv1.PolicyType{"Egress"}))
		g.Expect(policy.Spec.Egress).To(BeEmpty(), policy.Name)
	}
}

// The policy for netpol-controller must select the Pods of netpol-controller, and no other Pods.
func TestPodsOfTheControllerHaveItsPolicy(t *testing.T) {
	g := NewWithT(t)
	objects, err := resourcemanager.Objects(values.Values{Operator: values.Operator{
		Namespace: "garden", Image: func(string) string { return "registry.example.com/image" },
	}})
	g.Expect(err).NotTo(HaveOccurred())
	selector := labels.SelectorFromSet(resourcemanager.NetworkPolicyController())
	var selected []string
	for _, each := range objects {
		if d, ok := each.(*appsv1.Deployment); ok && selector.Matches(labels.Set(d.Spec.Template.Labels)) {
			selected = append(selected, d.Name)
		}
	}
	g.Expect(selected).To(Equal([]string{"gardener-resource-manager-networkpolicies"}))
}

func TestSuccessors(t *testing.T) {
	for name, want := range map[string]string{
		"garden-to-dns": "allow-to-dns", "garden-to-runtime-apiserver": "allow-to-runtime-apiserver",
		"garden-to-public-networks": "allow-to-public-networks", "garden-to-private-networks": "allow-to-private-networks",
		"garden-to-elsewhere": "", "to-dns": "", "dns": "", "garden-networkpolicies-to-runtime-apiserver": "",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			successor, former := networkpolicies.Successor(name)
			g.Expect(former).To(Equal(want != ""))
			if former {
				g.Expect(successor).To(Equal(want))
			}
		})
	}
}

// netpol-controller denies connections by default. So each label needs its general policy in the namespace of the Pod. The namespaces of
// Istio have only two of these policies.
func TestNamespacesOfLabelledPodsHaveThePolicy(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob("../*/testdata/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	label := regexp.MustCompile(`\snetworking\.gardener\.cloud/(to-[a-z-]+): allowed`)
	needed := map[string]map[string]bool{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		for document := range strings.SplitSeq("\n"+string(content), "\n---\n") {
			object := metav1.PartialObjectMetadata{}
			g.Expect(yaml.Unmarshal([]byte(document), &object)).To(Succeed(), file)
			for _, match := range label.FindAllStringSubmatch(document, -1) {
				if needed[object.Namespace] == nil {
					needed[object.Namespace] = map[string]bool{}
				}
				needed[object.Namespace][match[1]] = true
			}
		}
	}
	closed := []string{"to-dns", "to-runtime-apiserver"}
	for namespace, want := range map[string][]string{
		"garden":       append([]string{"to-private-networks", "to-public-networks"}, closed...),
		"istio-system": closed, "virtual-garden-istio-ingress": closed,
	} {
		g.Expect(needed).To(HaveKey(namespace))
		g.Expect(want).To(ContainElements(slices.Collect(maps.Keys(needed[namespace]))), namespace)
	}
	g.Expect(needed).To(HaveLen(3))
}

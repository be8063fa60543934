package networkpolicies_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/garden/component/networkpolicies"
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
		"plain": networkpolicies.Objects(values.Values{
			Operator: values.Operator{Namespace: "garden"}, APIServerPorts: []int32{443}, Networks: values.Networks{
				Cluster: networks("10.1.0.0/16", "10.2.0.0/16", "100.64.0.0/13"),
			},
		}),
		"metadata-service": networkpolicies.Objects(values.Values{
			Operator: values.Operator{Namespace: "garden", BackupMetadataService: true},
		}),
		"blocked": networkpolicies.Objects(values.Values{
			Operator: values.Operator{Namespace: "garden"}, APIServerPorts: []int32{443, 6443}, Networks: values.Networks{
				Cluster: networks("10.1.0.0/16", "2001:db8::/32", "fd00::/64"),
				Blocked: networks("169.254.169.254/32", "192.0.0.0/8", "10.1.2.3/24", "2001:db8:1::/48"),
			},
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
	for _, each := range networkpolicies.Objects(values.Values{Networks: values.Networks{Blocked: networks("0.0.0.0/0", "::/0")}}) {
		policy, ok := each.(*networkingv1.NetworkPolicy)
		g.Expect(ok).To(BeTrue())
		if strings.HasPrefix(policy.Name, "garden-operator-to-virtual-") { // they have no networks
			continue
		}
		g.Expect(policy.Spec.PolicyTypes).To(Equal([]networkingv1.PolicyType{"Egress"}))
		if policy.Name != "garden-to-dns" {
			g.Expect(policy.Spec.Egress).To(BeEmpty(), policy.Name)
		}
	}
}

// Once a policy selects a Pod, the Pod has no other connections. So each label needs its policy in the namespace of the Pod.
func TestNamespacesOfLabelledPodsHaveThePolicy(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob("../*/testdata/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	label := regexp.MustCompile(`\snetworking\.gardener\.cloud/(to-[a-z-]+): allowed`)
	needed, present := map[string]string{}, map[string]bool{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		for document := range strings.SplitSeq("\n"+string(content), "\n---\n") {
			object := metav1.PartialObjectMetadata{}
			g.Expect(yaml.Unmarshal([]byte(document), &object)).To(Succeed(), file)
			for _, match := range label.FindAllStringSubmatch(document, -1) {
				key := object.Namespace + "/garden-" + match[1]
				if object.Kind == "NetworkPolicy" {
					present[key] = true
				} else {
					needed[key] = file + ": " + object.Name
				}
			}
		}
	}
	g.Expect(needed).To(And(HaveKey("istio-system/garden-to-runtime-apiserver"), HaveKey("virtual-garden-istio-ingress/garden-to-dns")))
	for policy, pod := range needed {
		g.Expect(present).To(HaveKey(policy), pod)
	}
}

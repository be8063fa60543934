// Package connectivity_test compares the connections that the NetworkPolicies of a Garden's runtime cluster, which is also a Seed, allow
// with an expected list. The operator deploys the Garden, the Garden's resource manager applies the components, and netpol-controller
// creates policies. Both run with the configuration and the rights that the operator gives them. Pods exist, but run no programs.
package connectivity_test

import (
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/managedresource"
	"github.com/espalier-dev/espalier/internal/networkpolicy"
	"github.com/espalier-dev/espalier/internal/networkpolicy/connectivity"
	"github.com/espalier-dev/espalier/test/binary"
)

var update = flag.Bool("update", false, "write the expectation anew")

// With this argument, the API server calls the webhooks of components at the addresses of their Pods. There are none, because the
// components do not run, so each call fails at once. Otherwise the API server would call the addresses of Services, to which there is no
// route, and would wait for a response each time.
func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m, "--enable-aggregator-routing=true")) }

const (
	// anywhere is the name in the report for all Pods and all addresses outside of the cluster.
	anywhere = "(anywhere)"
	// runtimeAPIServer is the name in the expected list for the API server of the runtime cluster.
	runtimeAPIServer = "runtime API server"
)

const head = `# Which component of a highly available Garden, and of a Seed and a Shoot in its runtime cluster, may connect to which: the
# report of netpol-controller connectivity, with one line for each source. Ports are those of the Pods. This command writes the file:
# go run ./test/local/testservers run -- go test ./test/connectivity -update

`

// reasons returns, for each source whose connections are not obvious, the reason for them.
func reasons() map[string]string {
	return map[string]string{
		anywhere: `API servers call webhooks, those of the resource manager at 9449, from addresses that no policy can name.
Clients of the virtual cluster and of the ingress domains connect to 9443 of the gateway. Its ports 8132 and 8443 are
for Shoots, in a seed that is also the runtime cluster.`,
		"garden/plutono": `It reads metrics and logs, in a runtime cluster that is a Seed also from the Prometheus of the
Seed.`,
		"garden/alertmanager-garden": `Its Pods tell each other which alerts they have sent. Receivers of alerts are in public and private
networks.`,
		"garden/blackbox-exporter": `It reaches the API server of the virtual cluster as clients do: through the gateway.`,
		"garden/prometheus-garden": `It scrapes all of them. The Prometheus of a Seed is in a public or a private network.`,
		"garden/etcd-druid":        `It reads metrics of the compaction of backups, which only etcd main has.`,
		"garden/gardener-resource-manager-networkpolicies": `It corrects the policies when the addresses of the API server change, so it may
not depend on them.`,
		"garden/gardener-apiserver": `It calls webhooks, those of the virtual cluster and that for audit events, in public and private
networks.`,
		"garden/nginx-ingress-controller": `It passes requests that no Ingress is for to the default backend. netpol-controller
also allows the backends of Ingresses, of which there are none yet.`,
		"garden/nginx-ingress-k8s-backend": `It only answers requests.`,
		"garden/virtual-garden-etcd-events": `Its members connect to each other: 2379 for clients, 2380 for peers.
It has no backup, so it needs no other networks.`,
		"garden/virtual-garden-etcd-main": `Its members connect to each other: 2379 for clients, 2380 for peers, 8080 for sidecars.
The backup store is in a public or a private network.`,
		"garden/virtual-garden-kube-apiserver": `It calls webhooks, which the Garden or objects of the virtual cluster name, in public and
private networks.`,
		"virtual-garden-istio-ingress/istio-ingressgateway": `istiod configures it. It passes connections for the ingress domains to the
ingress controller, and those for the virtual cluster to its API server.`,
	}
}

// denied returns connections that would let an attacker go from one part of a landscape into another one, by their sources.
func denied() map[string]string {
	const shoot, extension = "shoot--cellar--tiny/", "extension-provider-local/gardener-extension-provider-local"
	return map[string]string{
		shoot + "kube-apiserver":             "garden/virtual-garden-etcd-main",
		shoot + "gardener-resource-manager":  shoot + "etcd-main",
		shoot + "etcd-main":                  "shoot--cellar--other/etcd-main",
		extension:                            shoot + "etcd-main",
		"istio-ingress/istio-ingressgateway": "garden/gardener-apiserver",
	}
}

// allows reports whether a workload may connect to another one.
func allows(report *connectivity.Report, from, to string) bool {
	return slices.Contains(report.OpenEgress, from) || slices.Contains(report.OpenIngress, to) ||
		slices.ContainsFunc(report.Edges, func(edge connectivity.Edge) bool { return edge.From == from && edge.To == to })
}

func TestComponentsOfAGardenMayConnectOnlyToWhatTheyNeed(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an API server")
	}
	c := newCluster(t)
	done := c.reconcile(c.createGarden())
	c.run("gardener-resource-manager", binary.Binary{
		Name: "managedresource-controller", Needs: managedresource.Needs, Add: managedresource.Add,
	})
	c.run("gardener-resource-manager-networkpolicies", binary.Binary{
		Name: "netpol-controller", Needs: networkpolicy.Needs, Add: networkpolicy.Add,
	})
	c.Eventually(done, patience).Should(Receive(BeNil()))
	c.deployEtcds()
	c.deploySeed()

	file := filepath.Join("testdata", "garden.txt")
	if *update {
		last := ""
		c.Eventually(func() bool {
			before := last
			last = c.matrix()
			return last == before
		}, patience, 5*time.Second).Should(BeTrue(), "policies still change")
		c.Expect(os.WriteFile(file, []byte(last), 0o600)).To(Succeed())
	}
	want, err := os.ReadFile(file)
	c.Expect(err).NotTo(HaveOccurred())
	c.Eventually(c.matrix, binary.Patience, interval).Should(BeComparableTo(string(want)))
	c.Consistently(c.matrix, 2*time.Second, interval).Should(BeComparableTo(string(want)))
	for from, to := range denied() {
		c.Expect(allows(c.report(), from, to)).To(BeFalse(), "%s must not connect to %s", from, to)
	}
	for source := range reasons() {
		c.Expect(string(want)).To(ContainSubstring("\n"+source+": "), "a reason without its source")
	}
}

// matrix returns the report in the format of the expected list.
func (c *cluster) matrix() string {
	report := c.report()
	server := c.apiServer()
	to := map[string][]string{}
	for _, each := range report.OpenIngress {
		to[each] = nil
		to[anywhere] = append(to[anywhere], each)
	}
	for _, edge := range report.Edges {
		if _, known := to[edge.To]; !known && edge.To != anywhere && !isNetwork(edge.To) {
			to[edge.To] = nil // listed even if it is not a source
		}
		to[edge.From] = append(to[edge.From], destinations(edge, server)...)
	}
	for _, each := range report.OpenEgress {
		to[each] = append(to[each], "everything that accepts it")
	}
	why := reasons()
	var text strings.Builder
	text.WriteString(head)
	for _, source := range slices.Sorted(maps.Keys(to)) {
		if why[source] != "" {
			fmt.Fprintf(&text, "# %s\n", strings.ReplaceAll(why[source], "\n", "\n# "))
		}
		slices.Sort(to[source])
		all := strings.Join(slices.Compact(to[source]), "; ")
		if all == "" {
			all = "nothing"
		}
		fmt.Fprintf(&text, "%s: %s\n", source, all)
	}
	return text.String()
}

// report returns the report of netpol-controller about all connections in the cluster.
func (c *cluster) report() *connectivity.Report {
	namespaces, pods, policies := &corev1.NamespaceList{}, &corev1.PodList{}, &networkingv1.NetworkPolicyList{}
	for _, each := range []client.ObjectList{namespaces, pods, policies} {
		c.Expect(c.admin.List(c.t.Context(), each)).To(Succeed())
	}
	found := connectivity.Cluster{Namespaces: map[string]labels.Set{}, Pods: pods.Items, Policies: policies.Items}
	for i := range namespaces.Items {
		found.Namespaces[namespaces.Items[i].Name] = namespaces.Items[i].Labels
	}
	report, err := connectivity.Evaluate(found, "")
	c.Expect(err).NotTo(HaveOccurred())
	return report
}

// runtimeServer has the destinations of the API server of the runtime cluster in the report.
type runtimeServer struct {
	// addresses are the addresses of its Service and of its endpoints, as networks.
	addresses []string
	// ports are its ports, one of which differs in each run of the test.
	ports []string
}

func (c *cluster) apiServer() runtimeServer {
	service := &corev1.Service{}
	c.Expect(c.admin.Get(c.t.Context(), client.ObjectKey{Namespace: "default", Name: "kubernetes"}, service)).To(Succeed())
	port := service.Spec.Ports[0]
	return runtimeServer{
		addresses: []string{service.Spec.ClusterIP + "/32", endpoint + "/32"},
		ports:     []string{fmt.Sprintf("TCP/%d", port.Port), fmt.Sprintf("TCP/%d", port.TargetPort.IntVal)},
	}
}

// destinations returns the destinations of an edge in the report. Networks have names, because the golden files of the policies already
// contain their addresses.
func destinations(edge connectivity.Edge, server runtimeServer) []string {
	name := edge.To
	switch {
	case edge.To == anywhere:
		return atAnyAddress(strings.Split(edge.Ports, ", "), server.ports)
	case slices.Contains(server.addresses, edge.To):
		return []string{runtimeAPIServer}
	case isNetwork(edge.To) && strings.Contains(edge.To, "/0 "):
		name = "public networks"
	case isNetwork(edge.To):
		name = "private networks"
	}
	return []string{strings.TrimSuffix(name+" "+edge.Ports, " all")}
}

// isNetwork reports whether an end of an edge is a network, which the report may print with exceptions.
func isNetwork(end string) bool {
	_, err := netip.ParsePrefix(strings.Fields(end)[0])
	return err == nil
}

// atAnyAddress returns names for the destinations behind ports that are allowed at any address.
func atAnyAddress(ports, apiServerPorts []string) []string {
	var names []string
	for _, known := range []struct {
		name  string
		ports []string
	}{{"DNS", []string{"TCP/53", "TCP/8053", "UDP/53", "UDP/8053"}}, {runtimeAPIServer + " at any address", apiServerPorts}} {
		rest := slices.DeleteFunc(slices.Clone(ports), func(port string) bool { return slices.Contains(known.ports, port) })
		if len(ports)-len(rest) == len(known.ports) {
			names, ports = append(names, known.name), rest
		}
	}
	if len(ports) > 0 {
		names = append(names, anywhere+" "+strings.Join(ports, ", "))
	}
	return names
}

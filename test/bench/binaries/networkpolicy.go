package binaries

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/local"
)

// networkPolicy measures netpol-controller: the time from its start until all policies exist, compared with a bare client that creates
// policies with the same bodies, the same permissions and the same number of concurrent requests; and the number of requests that a new
// namespace costs an idle controller. It does so for three variants of "n namespaces × m Services with a selector that matches all".
type networkPolicy struct {
	bench
	namespaces, services, crowd, rounds int

	bare client.Client
}

const (
	networkPolicyBinary = "netpol-controller"
	// networkPolicyWorkers is the controller's default of concurrent requests.
	networkPolicyWorkers = 32
	// member is the key of the label of the namespaces of a variant.
	member = "bench.espalier.dev/member-of"
	// fewestPolicies is the minimum for which the ratio of the times is meaningful; with fewer, the start of the process takes most
	// of the time.
	fewestPolicies = 2000
)

func networkPolicyBenchmark() harness.Benchmark {
	n := &networkPolicy{}
	return harness.Benchmark{
		Name: "networkpolicy", Summary: "first convergence and new namespaces, by netpol-controller",
		Sizes: []harness.Size{
			harness.Sized(&n.namespaces, "namespaces", 300, 10, "`number` of namespaces"),
			harness.Sized(&n.services, "services", 5, 2, "`number` of Services in each"),
			harness.Sized(&n.crowd, "crowd", 10, 4, "`number` of namespaces where every Service selects every namespace"),
			harness.Sized(&n.rounds, "rounds", 2, 1, "how often each time is measured, in turn; the means are compared"),
		},
		Jobs: harness.One(n.measure),
	}
}

// variant is a workload: namespaces with Services.
type variant struct {
	name, text           string
	namespaces, services int
	// oneHome creates the Services in the first namespace only.
	oneHome bool
	// selecting makes every Service select all namespaces of the variant as clients.
	selecting bool
}

func (n *networkPolicy) variants() []variant {
	return []variant{
		{
			name: "handled", namespaces: n.namespaces, services: n.services,
			text: fmt.Sprintf("%d namespaces × %d Services, all handled because of one selector in the configuration", n.namespaces, n.services),
		},
		{
			name: "clients", namespaces: n.namespaces, services: n.services, oneHome: true, selecting: true,
			text: fmt.Sprintf("%d namespaces × %d Services that are all in one of them and select all %[1]d as clients", n.namespaces, n.services),
		},
		{
			name: "crowd", namespaces: n.crowd, services: n.services, selecting: true,
			text: fmt.Sprintf("%d namespaces × %d Services each, of which every one selects all namespaces as clients (scaled down: %d namespaces "+
				"would need %d policies)", n.crowd, n.services, n.namespaces, n.namespaces*n.services*n.namespaces*2),
		},
	}
}

// policies returns the number of policies that the specification requires: two for each port and each client namespace.
func (v variant) policies() int {
	homes, clients := v.namespaces, 1
	if v.oneHome {
		homes = 1
	}
	if v.selecting {
		clients = v.namespaces
	}
	return homes * v.services * clients * 2
}

// growth returns the number of additional policies if there is one more namespace, with its Services unless oneHome is true.
func (v variant) growth() int {
	larger := v
	larger.namespaces++
	return larger.policies() - v.policies()
}

func (n *networkPolicy) measure(r *harness.Run) {
	n.bench = open(r, networkPolicyBinary, local.Options{})
	n.bare = r.NewClient(r.ClientConfig(n.program.Kubeconfig))
	for _, v := range n.variants() {
		n.measureVariant(v)
	}
}

func (n *networkPolicy) measureVariant(v variant) {
	defer n.Within("measure %s", v.name)
	n.Step("%s: %s", v.name, v.text)
	n.Parallel(v.namespaces, networkPolicyWorkers, func(i int) { n.create(v, i) })
	ours, floors := make([]time.Duration, 0, n.rounds), make([]time.Duration, 0, n.rounds)
	for range n.rounds {
		took := n.start(v)
		bodies := n.bodies(v.policies())
		n.program.Stop()
		floor := n.floor(bodies)
		n.Step("controller, from the start of its process: %s; bare client: %s", harness.Seconds(took), harness.Seconds(floor))
		ours, floors = append(ours, took), append(floors, floor)
	}
	target := 1.5
	if v.policies() < fewestPolicies {
		target = 0
	}
	workload := fmt.Sprintf("%s, %d policies", v.name, v.policies())
	n.Add(harness.On(workload, harness.Ratio("first convergence ÷ bare client", target, harness.Mean(ours), floors...).
		WithNote("%s; mean of %s ÷ mean of %s", v.text, harness.Spread(ours), harness.Spread(floors))))
	n.newNamespaces(v, workload)
}

// create creates a namespace and its Services.
func (n *networkPolicy) create(v variant, i int) {
	name := fmt.Sprintf("%s-%04d", v.name, i)
	n.cluster.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{member: v.name}}})
	if v.oneHome && i > 0 {
		return
	}
	for j := range v.services {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: fmt.Sprintf("s%d", j)}}
		service.Spec = corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": service.Name}, Ports: []corev1.ServicePort{{Port: 8080}},
		}
		if v.selecting {
			service.Annotations = map[string]string{
				"networking.resources.gardener.cloud/namespace-selectors": fmt.Sprintf(`[{"matchLabels":{%q:%q}}]`, member, v.name),
			}
		}
		n.cluster.Create(service)
	}
}

// start starts the controller with its default settings, except for the namespaces whose Services it handles, and returns the time until
// it has created all policies.
func (n *networkPolicy) start(v variant) time.Duration {
	n.program.Configure(harness.Config +
		fmt.Sprintf("controllers: {networkPolicy: {enabled: true, namespaceSelectors: [{matchLabels: {%s: %s}}]}}\n", member, v.name))
	n.program.Start()
	n.program.AwaitMetrics(fmt.Sprintf("%d policies", v.policies()), func(metrics harness.Metrics) error {
		if created := int(metrics.Sum("espalier_networkpolicy_writes_total", "action", "create")); created < v.policies() {
			return fmt.Errorf("there are %d", created)
		}
		return nil
	})
	return time.Since(n.program.Started)
}

// floor deletes all policies, creates them with the bare client, and deletes them again.
func (n *networkPolicy) floor(bodies []networkingv1.NetworkPolicy) time.Duration {
	n.clear(bodies)
	took := n.Timed(len(bodies), networkPolicyWorkers, func(i int) { n.Check(n.bare.Create(n.Ctx, bodies[i].DeepCopy())) })
	n.clear(bodies)
	return took
}

// bodies returns all existing policies, so that the bare client knows them in advance. If their number is not want, the job fails.
func (n *networkPolicy) bodies(want int) []networkingv1.NetworkPolicy {
	list := &networkingv1.NetworkPolicyList{}
	n.Check(n.cluster.Client.List(n.Ctx, list))
	if len(list.Items) != want {
		n.Check(fmt.Errorf("there are %d policies and not %d", len(list.Items), want))
	}
	for i, each := range list.Items {
		list.Items[i].ObjectMeta = metav1.ObjectMeta{
			Namespace: each.Namespace, Name: each.Name, Labels: each.Labels, Annotations: each.Annotations,
		}
	}
	return list.Items
}

// clear deletes all policies.
func (n *networkPolicy) clear(bodies []networkingv1.NetworkPolicy) {
	n.Parallel(len(bodies), networkPolicyWorkers, func(i int) { n.Check(n.cluster.Client.Delete(n.Ctx, &bodies[i])) })
}

// newNamespaces measures the cost of new namespaces for an idle controller.
func (n *networkPolicy) newNamespaces(v variant, workload string) {
	n.start(v)
	unrelated := n.cost(func() { n.cluster.CreateNamespace(v.name + "-unrelated") })
	matching := n.cost(func() { n.create(v, v.namespaces) })
	n.Add(harness.On(workload,
		harness.Exactly("requests for one unrelated namespace", unrelated, 0),
		harness.Exactly("requests for one more matching namespace, beside as many new policies", matching, v.growth()),
	))
	bodies := n.bodies(v.policies() + v.growth())
	n.program.Stop()
	n.clear(bodies)
}

// cost calls do and returns how many requests the controller sends because of it.
func (n *networkPolicy) cost(do func()) int {
	sent := func() float64 {
		n.Pause(2 * time.Second)
		return n.program.Metrics().Sum("rest_client_requests_total")
	}
	before := sent()
	do()
	return int(sent() - before)
}

package binaries

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/local"
)

// networkPolicy measures netpol-controller: the time from its start until all policies exist, compared with a bare client that creates
// policies with the same bodies, the same rights and the same number of concurrent requests; and the number of requests that a new
// namespace costs an idle controller. It does so for three variants of "n namespaces × m Services with a selector that matches all".
type networkPolicy struct {
	namespaces, services, crowd, rounds int

	*harness.Run
	cluster *harness.Cluster
	bare    client.Client
	program *harness.Program
}

const (
	networkPolicyBinary = "netpol-controller"
	// networkPolicyWorkers is the controller's default of concurrent requests.
	networkPolicyWorkers = 32
	// member labels the namespaces of a variant.
	member = "bench.espalier.dev/member-of"
	// fewestPolicies is the minimum for which the ratio of the times is meaningful; with fewer, the start of the process is what counts.
	fewestPolicies = 2000
)

func networkPolicyBenchmark() harness.Benchmark {
	n := &networkPolicy{}
	return harness.Benchmark{
		Name: "networkpolicy", Summary: "first convergence and new namespaces, by netpol-controller",
		Flags: func(flags *flag.FlagSet) {
			flags.IntVar(&n.namespaces, "namespaces", 300, "`number` of namespaces")
			flags.IntVar(&n.services, "services", 5, "`number` of Services in each")
			flags.IntVar(&n.crowd, "crowd", 10, "`number` of namespaces where every Service selects every namespace")
			flags.IntVar(&n.rounds, "rounds", 2, "how often each time is measured, in turn; the means are compared")
		},
		Smoke: func() { n.namespaces, n.services, n.crowd, n.rounds = 10, 2, 4, 1 },
		Jobs:  job(n.measure, &n.namespaces, &n.services, &n.crowd, &n.rounds),
	}
}

// variant is a workload.
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

// policies returns the number that the specification requires: two for each port and each client namespace.
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

// growth returns how many more there are with one more namespace and, if namespaces have Services, its Services.
func (v variant) growth() int {
	larger := v
	larger.namespaces++
	return larger.policies() - v.policies()
}

func (n *networkPolicy) measure(ctx context.Context, r *harness.Run) (rows []harness.Row, err error) {
	n.Run = r
	if n.cluster, n.program, err = r.StartClusterFor(ctx, networkPolicyBinary, harness.Setup{}); err != nil {
		return nil, err
	}
	if n.bare, err = client.New(n.program.ClientConfig, client.Options{}); err != nil {
		return nil, err
	}
	for _, v := range n.variants() {
		some, err := n.measureVariant(ctx, v)
		rows = append(rows, harness.On(fmt.Sprintf("%s, %d policies", v.name, v.policies()), some...)...)
		if err != nil {
			return rows, fmt.Errorf("measure %s: %w", v.name, err)
		}
	}
	return rows, nil
}

func (n *networkPolicy) measureVariant(ctx context.Context, v variant) ([]harness.Row, error) {
	n.Step("%s: %s", v.name, v.text)
	create := func(ctx context.Context, i int) error { return n.create(ctx, v, i) }
	if err := harness.Parallel(ctx, v.namespaces, networkPolicyWorkers, create); err != nil {
		return nil, err
	}
	var ours, floors []time.Duration
	for range n.rounds {
		took, bodies, err := n.converge(ctx, v)
		if err != nil {
			return nil, err
		}
		floor, err := n.floor(ctx, bodies)
		if err != nil {
			return nil, err
		}
		n.Step("controller, from the start of its process: %s; bare client: %s", harness.Seconds(took), harness.Seconds(floor))
		ours, floors = append(ours, took), append(floors, floor)
	}
	target := 1.5
	if v.policies() < fewestPolicies {
		target = 0
	}
	ratio := harness.Ratio("first convergence ÷ bare client", target, harness.Mean(ours), floors...).
		WithNote("%s; mean of %s ÷ mean of %s", v.text, harness.Spread(ours), harness.Spread(floors))
	rows, err := n.newNamespaces(ctx, v)
	return append([]harness.Row{ratio}, rows...), err
}

// create creates a namespace and its Services.
func (n *networkPolicy) create(ctx context.Context, v variant, i int) error {
	name := fmt.Sprintf("%s-%04d", v.name, i)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{member: v.name}}}
	if err := n.cluster.Client.Create(ctx, namespace); err != nil || v.oneHome && i > 0 {
		return err
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
		if err := n.cluster.Client.Create(ctx, service); err != nil {
			return err
		}
	}
	return nil
}

// start starts the controller with its default settings, except for the namespaces whose Services it handles, and returns the time until
// it has created all policies.
func (n *networkPolicy) start(ctx context.Context, v variant) (time.Duration, error) {
	config := harness.Config +
		fmt.Sprintf("controllers: {networkPolicy: {enabled: true, namespaceSelectors: [{matchLabels: {%s: %s}}]}}\n", member, v.name)
	if err := errors.Join(n.program.Configure(config, n.Profiles != ""), n.program.Start()); err != nil {
		return 0, err
	}
	err := n.program.Await(ctx, fmt.Sprintf("%d policies", v.policies()), func(ctx context.Context) error {
		metrics, err := n.program.Metrics(ctx)
		if created := int(metrics.Sum("espalier_networkpolicy_writes_total", "action", "create")); err == nil && created < v.policies() {
			err = fmt.Errorf("there are %d", created)
		}
		return err
	})
	return time.Since(n.program.Started), err
}

// converge starts the controller, waits until it has created everything, and stops it again.
func (n *networkPolicy) converge(ctx context.Context, v variant) (took time.Duration, bodies []*networkingv1.NetworkPolicy, err error) {
	if took, err = n.start(ctx, v); err != nil {
		return 0, nil, err
	}
	bodies, err = n.bodies(ctx, v.policies())
	return took, bodies, errors.Join(err, n.program.Stop())
}

// floor deletes all policies, creates them with the bare client, and deletes them again.
func (n *networkPolicy) floor(ctx context.Context, bodies []*networkingv1.NetworkPolicy) (time.Duration, error) {
	if err := n.clear(ctx, bodies); err != nil {
		return 0, err
	}
	create := func(ctx context.Context, i int) error { return n.bare.Create(ctx, bodies[i].DeepCopy()) }
	took, err := harness.Timed(ctx, len(bodies), networkPolicyWorkers, create)
	if err != nil {
		return 0, err
	}
	return took, n.clear(ctx, bodies)
}

// bodies returns all policies, for a client that knows them in advance. Another number is an error.
func (n *networkPolicy) bodies(ctx context.Context, want int) ([]*networkingv1.NetworkPolicy, error) {
	list := &networkingv1.NetworkPolicyList{}
	if err := n.cluster.Client.List(ctx, list); err != nil {
		return nil, err
	}
	if len(list.Items) != want {
		return nil, fmt.Errorf("there are %d policies and not %d", len(list.Items), want)
	}
	bodies := make([]*networkingv1.NetworkPolicy, 0, want)
	for _, each := range list.Items {
		meta := metav1.ObjectMeta{Namespace: each.Namespace, Name: each.Name, Labels: each.Labels, Annotations: each.Annotations}
		bodies = append(bodies, &networkingv1.NetworkPolicy{ObjectMeta: meta, Spec: each.Spec})
	}
	return bodies, nil
}

// clear deletes all policies.
func (n *networkPolicy) clear(ctx context.Context, bodies []*networkingv1.NetworkPolicy) error {
	byNamespace := map[string]bool{}
	for _, each := range bodies {
		byNamespace[each.Namespace] = true
	}
	namespaces := slices.Collect(maps.Keys(byNamespace))
	return harness.Parallel(ctx, len(namespaces), networkPolicyWorkers, func(ctx context.Context, i int) error {
		return n.cluster.Client.DeleteAllOf(ctx, &networkingv1.NetworkPolicy{}, client.InNamespace(namespaces[i]))
	})
}

// newNamespaces measures what new namespaces cost an idle controller.
func (n *networkPolicy) newNamespaces(ctx context.Context, v variant) ([]harness.Row, error) {
	if _, err := n.start(ctx, v); err != nil {
		return nil, err
	}
	unrelated, err := n.cost(ctx, func() error { return n.cluster.CreateNamespace(ctx, v.name+"-unrelated") })
	if err != nil {
		return nil, err
	}
	matching, err := n.cost(ctx, func() error { return n.create(ctx, v, v.namespaces) })
	if err != nil {
		return nil, err
	}
	rows := []harness.Row{
		harness.Exactly("requests for one unrelated namespace", unrelated, 0),
		harness.Exactly("requests for one more matching namespace, beside as many new policies", matching, v.growth()),
		peakMemory(n.program),
	}
	bodies, err := n.bodies(ctx, v.policies()+v.growth())
	return rows, errors.Join(err, n.program.Stop(), n.clear(ctx, bodies))
}

// cost returns how many requests the controller sends because of do.
func (n *networkPolicy) cost(ctx context.Context, do func() error) (int, error) {
	var sent [2]float64
	for i, step := range []func() error{func() error { return nil }, do} {
		if err := errors.Join(step(), local.Pause(ctx, 2*time.Second)); err != nil {
			return 0, err
		}
		metrics, err := n.program.Metrics(ctx)
		if err != nil {
			return 0, err
		}
		sent[i] = metrics.Sum("rest_client_requests_total")
	}
	return int(sent[1] - sent[0]), nil
}

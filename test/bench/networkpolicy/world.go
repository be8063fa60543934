package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

const (
	binaryName = "netpol-controller"
	namespace  = "bench"
	// inFlight is the controller's default of concurrent requests.
	inFlight = 32
	// member labels the namespaces of a scenario.
	member = "bench.espalier.dev/member-of"
)

// scenario is a workload.
type scenario struct {
	name, text           string
	namespaces, services int
	// oneHome creates the Services in the first namespace only.
	oneHome bool
	// selecting makes every Service select all namespaces of the scenario as clients.
	selecting bool
}

// homes returns how many namespaces have Services.
func (s scenario) homes() int {
	if s.oneHome {
		return 1
	}
	return s.namespaces
}

// policies returns the number that the specification requires: two for each port and each client namespace.
func (s scenario) policies() int {
	clients := 1
	if s.selecting {
		clients = s.namespaces
	}
	return s.homes() * s.services * clients * 2
}

// growth returns how many more there are with one more namespace and, if namespaces have Services, its Services.
func (s scenario) growth() int {
	larger := s
	larger.namespaces++
	return larger.policies() - s.policies()
}

// world is a control plane with two clients: one with all rights, and one with those of the controller.
type world struct {
	dir, program string
	admin, bare  client.Client
	out          io.Writer
}

func newWorld(ctx context.Context, plane *local.ControlPlane, dir, program string, out io.Writer) (*world, error) {
	config := plane.AdminConfig()
	config.QPS = -1
	admin, err := client.New(config, client.Options{})
	if err != nil {
		return nil, err
	}
	err = admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	if err != nil {
		return nil, err
	}
	kubeconfig, err := binary.Identity(ctx, admin, plane.AdminConfig(), binaryName, namespace, binary.Source, binary.Target)
	if err != nil {
		return nil, err
	}
	w := &world{dir: dir, program: program, admin: admin, out: out}
	err = os.WriteFile(w.file("kubeconfig"), kubeconfig, 0o600)
	if err != nil {
		return nil, err
	}
	own, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	own.QPS = -1
	w.bare, err = client.New(own, client.Options{})
	return w, err
}

func (w *world) file(name string) string { return filepath.Join(w.dir, name) }

func (w *world) say(format string, values ...any) { fmt.Fprintf(w.out, format+"\n", values...) }

// parallel calls do for every number below n.
func parallel(ctx context.Context, n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

func (s scenario) namespace(i int) string { return fmt.Sprintf("%s-%04d", s.name, i) }

// create creates all namespaces and Services.
func (w *world) create(ctx context.Context, s scenario) error {
	return parallel(ctx, s.namespaces, func(ctx context.Context, i int) error { return w.createOne(ctx, s, i) })
}

func (w *world) createOne(ctx context.Context, s scenario, i int) error {
	err := w.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace(i), Labels: map[string]string{member: s.name}}})
	if err != nil || s.oneHome && i > 0 {
		return err
	}
	for j := range s.services {
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(i), Name: fmt.Sprintf("s%d", j)},
			Spec: corev1.ServiceSpec{
				ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": fmt.Sprintf("s%d", j)}, Ports: []corev1.ServicePort{{Port: 8080}},
			},
		}
		if s.selecting {
			service.Annotations = map[string]string{
				"networking.resources.gardener.cloud/namespace-selectors": fmt.Sprintf(`[{"matchLabels":{%q:%q}}]`, member, s.name),
			}
		}
		if err := w.admin.Create(ctx, service); err != nil {
			return err
		}
	}
	return nil
}

// bodies returns all policies, for a client that knows them in advance.
func (w *world) bodies(ctx context.Context) ([]*networkingv1.NetworkPolicy, error) {
	list := &networkingv1.NetworkPolicyList{}
	if err := w.admin.List(ctx, list); err != nil {
		return nil, err
	}
	bodies := make([]*networkingv1.NetworkPolicy, 0, len(list.Items))
	for _, each := range list.Items {
		bodies = append(bodies, &networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: each.Namespace, Name: each.Name, Labels: each.Labels, Annotations: each.Annotations}, Spec: each.Spec,
		})
	}
	return bodies, nil
}

// clear deletes all policies.
func (w *world) clear(ctx context.Context, bodies []*networkingv1.NetworkPolicy) error {
	byNamespace := map[string]bool{}
	for _, each := range bodies {
		byNamespace[each.Namespace] = true
	}
	namespaces := slices.Collect(maps.Keys(byNamespace))
	return parallel(ctx, len(namespaces), func(ctx context.Context, i int) error {
		return w.admin.DeleteAllOf(ctx, &networkingv1.NetworkPolicy{}, client.InNamespace(namespaces[i]))
	})
}

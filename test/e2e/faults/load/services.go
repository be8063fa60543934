package load

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	serviceCount = 6
	// firstPort is the port of revision 0.
	firstPort = 10_000
)

// services are Services that allow ingress from everywhere to a port. The port number contains the revision.
type services struct{ base }

func (s *services) create(ctx context.Context) error {
	return s.createEach(ctx, func(name string) client.Object {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80}}},
		}
	})
}

func (s *services) change(ctx context.Context, lane string, to int) error {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: lane}}
	ports := fmt.Sprintf(`[{"port":%d,"protocol":"TCP"}]`, firstPort+to)
	return s.patch(ctx, service, map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{"networking.resources.gardener.cloud/from-world-to-ports": ports},
	}})
}

// results expects, for every Service, the two policies that every Service with a port has, and the one for ingress from everywhere.
func (s *services) results(ctx context.Context) (arrived map[string]int, unsettled []string, err error) {
	found := &networkingv1.NetworkPolicyList{}
	if err := s.cluster.Client.List(ctx, found, client.InNamespace(s.namespace)); err != nil {
		return nil, nil, err
	}
	if len(found.Items) != 3*serviceCount {
		unsettled = []string{fmt.Sprintf("there are %d NetworkPolicies instead of %d", len(found.Items), 3*serviceCount)}
	}
	arrived = map[string]int{}
	for _, policy := range found.Items {
		name, world := strings.CutSuffix(strings.TrimPrefix(policy.Name, "ingress-to-"), "-from-world")
		if !world {
			continue
		}
		arrived[name] = -1
		if rules := policy.Spec.Ingress; len(rules) == 1 && len(rules[0].Ports) == 1 && rules[0].Ports[0].Port != nil {
			arrived[name] = rules[0].Ports[0].Port.IntValue() - firstPort
		}
	}
	return arrived, unsettled, nil
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Leader returns the name of the Pod that holds a lease of a binary, empty if none of its Pods does.
func (c *Cluster) Leader(ctx context.Context, binary, lease string) (string, error) {
	pods, err := c.Pods(ctx, binary)
	if err != nil {
		return "", fmt.Errorf("find leader of %s: %w", binary, err)
	}
	found := &coordinationv1.Lease{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: SystemNamespace, Name: lease}, found); err != nil {
		return "", fmt.Errorf("find leader of %s: %w", binary, err)
	}
	holder := ptr.Deref(found.Spec.HolderIdentity, "")
	for _, pod := range pods {
		// The identity is the host name, which is the Pod's name, and something random.
		if strings.HasPrefix(holder, pod.Name+"_") {
			return pod.Name, nil
		}
	}
	return "", nil
}

// HandOver deletes the Pod that holds a lease of a binary, as a user would, and waits until another one holds it: what is done
// thereafter is not the work of the one that was deleted. It waits for a holder first.
func (c *Cluster) HandOver(ctx context.Context, binary, lease string) error {
	var before string
	err := await(ctx, RolloutPatience, "leader of "+binary, func(ctx context.Context) (err error) {
		before, err = c.Leader(ctx, binary, lease)
		if err == nil && before == "" {
			err = errors.New("none of its Pods holds the lease")
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := c.Client.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: SystemNamespace, Name: before}}); err != nil {
		return fmt.Errorf("delete leader of %s: %w", binary, err)
	}
	return await(ctx, RolloutPatience, "another leader of "+binary, func(ctx context.Context) error {
		now, err := c.Leader(ctx, binary, lease)
		if err == nil && (now == "" || now == before) {
			err = fmt.Errorf("the lease was of Pod %s and is of %q", before, now)
		}
		return err
	})
}

// Metrics returns what a binary serves at the metrics port of its Service, by way of the API server.
func (c *Cluster) Metrics(ctx context.Context, binary string) (string, error) {
	answer, err := c.Clients.CoreV1().Services(SystemNamespace).ProxyGet("http", "espalier-"+binary, "metrics", "/metrics", nil).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("get metrics of %s: %w", binary, err)
	}
	return string(answer), nil
}

// Restricted returns why the Pods of a binary do not prove that they satisfy the restricted Pod security standard: the
// namespace must enforce it, which is tried with a Pod that does not satisfy it, and they must be there.
func (c *Cluster) Restricted(ctx context.Context, binary string) error {
	pods, err := c.Pods(ctx, binary)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return fmt.Errorf("%s has no Pods", binary)
	}
	for _, pod := range pods {
		if pod.Namespace != SystemNamespace || pod.Spec.SecurityContext == nil || !ptr.Deref(pod.Spec.SecurityContext.RunAsNonRoot, false) {
			return fmt.Errorf("%s/%s may run as root", pod.Namespace, pod.Name)
		}
	}
	lax := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: SystemNamespace, GenerateName: "lax-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "lax", Image: c.Workload("")}}},
	}
	err = c.Client.Create(ctx, lax, client.DryRunAll)
	switch {
	case err == nil:
		return errors.New("the namespace takes Pods that do not satisfy the restricted standard")
	case strings.Contains(err.Error(), `violates PodSecurity "restricted`):
		return nil
	}
	return fmt.Errorf("try a Pod that must be refused: %w", err)
}

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

	"github.com/espalier-dev/espalier/internal/deployable"
)

// Leader returns the name of the Pod that holds a lease of a binary; empty if none of its Pods does.
func (c *Cluster) Leader(ctx context.Context, binary, lease string) (string, error) {
	pods, err := c.Pods(ctx, binary)
	if err != nil {
		return "", fmt.Errorf("find leader of %s: %w", binary, err)
	}
	found := &coordinationv1.Lease{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: leaseNamespaceOf(binary), Name: lease}, found); err != nil {
		return "", fmt.Errorf("find leader of %s: %w", binary, err)
	}
	holder := ptr.Deref(found.Spec.HolderIdentity, "")
	for _, pod := range pods {
		// The holder of the lease is the host name, which is the name of the Pod, "_" and a random suffix.
		if strings.HasPrefix(holder, pod.Name+"_") {
			return pod.Name, nil
		}
	}
	return "", nil
}

// leaseNamespaceOf returns the namespace of a binary's lease. garden-operator has its lease in the same namespace as Gardener's operator.
func leaseNamespaceOf(binary string) string {
	if binary == "garden-operator" {
		return deployable.GardenNamespace
	}
	return SystemNamespace
}

// HandOver waits until a Pod holds a lease, deletes this Pod like a user, and waits until another Pod holds the lease. So the deleted Pod
// does no further work.
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

// Metrics returns the metrics of a binary, from the metrics port of its Service through the API server.
func (c *Cluster) Metrics(ctx context.Context, binary string) (string, error) {
	answer, err := c.Clients.CoreV1().Services(SystemNamespace).ProxyGet("http", "espalier-"+binary, "metrics", "/metrics", nil).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("get metrics of %s: %w", binary, err)
	}
	return string(answer), nil
}

// Restricted returns an error unless it is proved that the Pods of a binary satisfy the restricted Pod security standard: the Pods must
// exist, and the namespace must refuse a Pod that does not satisfy the standard.
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
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "lax", Image: c.Image("workload")}}},
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

// Notes returns the notes of the Events with a reason in a namespace.
func (c *Cluster) Notes(ctx context.Context, namespace, reason string) ([]string, error) {
	events, err := c.Clients.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Events: %w", err)
	}
	var notes []string
	for _, event := range events.Items {
		if event.Reason == reason {
			notes = append(notes, event.Note)
		}
	}
	return notes, nil
}

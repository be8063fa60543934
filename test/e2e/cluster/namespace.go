package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namespacePatience is how long the deletion of namespaces may take; their Pods have time to terminate.
const namespacePatience = 3 * time.Minute

// NamespaceLabel marks the namespaces of specs, to find those that a run has left.
const NamespaceLabel = "e2e.espalier.dev/namespace"

// Namespace creates a namespace for a spec and waits until Pods can be created in it. Its name is e2e-<prefix>-<random>. The labels are
// added to the common ones. remove deletes the namespace without waiting for the end of the deletion, which takes at least five seconds;
// NamespacesGone waits for it.
func (c *Cluster) Namespace(ctx context.Context, prefix string, labels map[string]string) (name string, remove func(context.Context) error,
	err error,
) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "e2e-" + prefix + "-",
		Labels:       map[string]string{NamespaceLabel: "true"},
	}}
	maps.Copy(namespace.Labels, labels)
	if err = c.Client.Create(ctx, namespace); err != nil {
		return "", nil, fmt.Errorf("create namespace: %w", err)
	}
	remove = func(ctx context.Context) error {
		if err := client.IgnoreNotFound(c.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace.Name}})); err != nil {
			return fmt.Errorf("delete namespace %s: %w", namespace.Name, err)
		}
		return nil
	}
	err = await(ctx, time.Minute, "default ServiceAccount of namespace "+namespace.Name, func(ctx context.Context) error {
		return c.Client.Get(ctx, client.ObjectKey{Namespace: namespace.Name, Name: "default"}, &corev1.ServiceAccount{})
	})
	if err != nil {
		return "", nil, errors.Join(err, remove(context.WithoutCancel(ctx)))
	}
	return namespace.Name, remove, nil
}

// NamespacesGone waits until all deleted namespaces of specs are gone. The error says what blocks their deletion.
func (c *Cluster) NamespacesGone(ctx context.Context) error {
	return await(ctx, namespacePatience, "end of the namespaces of specs", func(ctx context.Context) error {
		namespaces := &corev1.NamespaceList{}
		if err := c.Client.List(ctx, namespaces, client.HasLabels{NamespaceLabel}); err != nil {
			return err
		}
		var held error
		for _, namespace := range namespaces.Items {
			if namespace.DeletionTimestamp != nil {
				held = errors.Join(held, fmt.Errorf("%s is still there: %s", namespace.Name, lastMessage(&namespace)))
			}
		}
		return held
	})
}

// lastMessage returns what blocks the deletion of a namespace.
func lastMessage(namespace *corev1.Namespace) string {
	message := "no reason given"
	for _, condition := range namespace.Status.Conditions {
		if condition.Status == corev1.ConditionTrue {
			message = condition.Message
		}
	}
	return message
}

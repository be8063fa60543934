package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namespacePatience is how long the deletion of namespaces may take; their Pods get time to terminate.
const namespacePatience = 3 * time.Minute

// NamespaceLabel is the label of the namespaces of specs, by which the namespaces of an interrupted run can be found.
const NamespaceLabel = "e2e.espalier.dev/namespace"

// Namespace creates a namespace for a spec and waits until Pods can be created in it. Its name is e2e-<prefix>-<random>. It has the given
// labels, and the labels that all such namespaces have. The function remove deletes the namespace and does not wait for the end of the
// deletion, which takes at least five seconds; NamespacesGone waits for it.
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
		deleted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace.Name}}
		if err = client.IgnoreNotFound(c.Client.Delete(ctx, deleted)); err != nil {
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

// NamespacesGone waits until all deleted namespaces of specs are gone. The error names the obstacle to their deletion.
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

// lastMessage returns the reason why a namespace is not deleted yet.
func lastMessage(namespace *corev1.Namespace) string {
	message := "no reason given"
	for _, condition := range namespace.Status.Conditions {
		if condition.Status == corev1.ConditionTrue {
			message = condition.Message
		}
	}
	return message
}

// User returns a client of a user who has only the rights of a built-in role, edit or admin, in one namespace. Names of users must be
// unique in the cluster. The binding is deleted with the namespace.
func (c *Cluster) User(ctx context.Context, name, role, namespace string) client.Client {
	GinkgoHelper()
	Expect(c.Client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	})).To(Succeed())
	user, err := c.As(name, "system:authenticated")
	Expect(err).NotTo(HaveOccurred())
	// The API server's authorizer learns of the binding after a moment.
	Eventually(ctx, func(ctx context.Context) error {
		try := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "try"}}
		return user.Create(ctx, try, client.DryRunAll)
	}).Should(Succeed())
	return user
}

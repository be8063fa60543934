package cluster

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// User returns a client of a user whose only rights are those of a built-in role, edit or admin, in a namespace. Names of users are unique
// in the cluster. The binding is deleted with the namespace.
func (c *Cluster) User(ctx context.Context, name, role, namespace string) client.Client {
	GinkgoHelper()
	Expect(c.Client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	})).To(Succeed())
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	user, err := client.New(config, client.Options{Scheme: c.Client.Scheme(), Mapper: c.Client.RESTMapper()})
	Expect(err).NotTo(HaveOccurred())
	// The API server's authorizer knows the binding after a moment.
	Eventually(ctx, func(ctx context.Context) error {
		try := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "try"}}
		return user.Create(ctx, try, client.DryRunAll)
	}).Should(Succeed())
	return user
}

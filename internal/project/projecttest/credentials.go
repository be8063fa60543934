package projecttest

import (
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Account creates a ServiceAccount in the namespace of the controller. It returns the subject, and a client that has the ServiceAccount's
// token only: unlike the clients of As, it is not an administrator's client with impersonation. The account has no rights yet.
func (e *Env) Account(name string) (rbacv1.Subject, client.Client) {
	e.T.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}}
	e.Expect(e.Admin.Create(e.Ctx, account)).To(Succeed())
	token := &authenticationv1.TokenRequest{}
	e.Expect(e.Admin.SubResource("token").Create(e.Ctx, account, token)).To(Succeed())
	cfg := rest.AnonymousClientConfig(e.Server)
	cfg.BearerToken = token.Status.Token
	c, err := client.New(cfg, client.Options{Scheme: e.Admin.Scheme()})
	e.Expect(err).NotTo(HaveOccurred())
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: e.Namespace, Name: name}, c
}

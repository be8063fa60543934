package projecttest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local/standin"
)

// installCRDs makes the API server serve exactly the kinds in the options.
func (e *Env) installCRDs() {
	e.T.Helper()
	wanted := func(plural string) bool {
		return plural == "projects" || e.options.CRDs == nil || slices.Contains(e.options.CRDs, plural)
	}
	crds, err := binary.Install(e.Ctx, e.Admin, "deploy/project-controller/crds/*.yaml")
	e.Expect(err).NotTo(HaveOccurred())
	for _, crd := range crds {
		plural, group, _ := strings.Cut(crd.GetName(), ".")
		if !wanted(plural) {
			e.RemoveCRD(crd.GetName())
			continue
		}
		kind, _, err := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		e.Expect(err).NotTo(HaveOccurred())
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(e.Admin.Scheme().PrioritizedVersionsForGroup(group)[0].WithKind(kind + "List"))
		e.Eventually(func() error { return e.Admin.List(e.Ctx, list) }, binary.Patience).Should(Succeed(), crd.GetName())
	}
}

// RemoveCRD deletes a CRD, and waits until it is gone.
func (e *Env) RemoveCRD(name string) {
	e.T.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName(name)
	e.Expect(client.IgnoreNotFound(e.Admin.Delete(e.Ctx, crd))).To(Succeed())
	e.Eventually(func() error { return e.Admin.Get(e.Ctx, client.ObjectKeyFromObject(crd), crd) }, binary.Patience).
		Should(MatchError(ContainSubstring("not found")))
}

// releaseNamespaces takes the place of the controllers that finish the deletion of namespaces.
func (e *Env) releaseNamespaces() {
	player := standin.Player{
		Client: e.Admin, Parts: []standin.Part{standin.Namespaces()}, Failed: func(err error) { e.T.Error(err) },
	}
	ctx, cancel := context.WithCancel(context.Background())
	var playing sync.WaitGroup
	playing.Go(func() { player.Play(ctx) })
	e.T.Cleanup(func() {
		cancel()
		playing.Wait()
	})
}

// As returns the client of a user who has only the rights that RBAC grants to that name and those groups.
func (e *Env) As(user string, groups ...string) client.Client {
	e.T.Helper()
	cfg := rest.CopyConfig(e.Server)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append([]string{"system:authenticated"}, groups...)}
	c, err := client.New(cfg, client.Options{Scheme: e.Admin.Scheme()})
	e.Expect(err).NotTo(HaveOccurred())
	return c
}

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

// Project returns a Project with a name, without creating it. Names have at most ten characters.
func (e *Env) Project(name string, change ...func(*corev1beta1.Project)) *corev1beta1.Project {
	p := &corev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, each := range change {
		each(p)
	}
	return p
}

// Get reads a Project from the API server.
func (e *Env) Get(p *corev1beta1.Project) *corev1beta1.Project {
	e.T.Helper()
	found := &corev1beta1.Project{}
	e.Expect(e.Admin.Get(e.Ctx, client.ObjectKeyFromObject(p), found)).To(Succeed())
	return found
}

// Events lists the Events about a Project as "type reason: message".
func (e *Env) Events(p *corev1beta1.Project) []string {
	e.T.Helper()
	list := &corev1.EventList{}
	about := client.MatchingFields{"involvedObject.kind": "Project", "involvedObject.uid": string(p.UID)}
	e.Expect(e.Admin.List(e.Ctx, list, about)).To(Succeed())
	found := make([]string, 0, len(list.Items))
	for _, event := range list.Items {
		found = append(found, fmt.Sprintf("%s %s: %s", event.Type, event.Reason, event.Message))
	}
	return found
}

//go:build e2e

package projectcontroller_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// Users of the specs, which have no rights of their own.
const (
	owner    = "e2e-owner"
	member   = "e2e-member"
	viewer   = "e2e-viewer"
	stranger = "e2e-stranger"
)

// as returns a client for a user.
func as(user string) client.Client {
	GinkgoHelper()
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	return clientOf(config)
}

// withToken returns a client with only a token.
func withToken(token string) client.Client {
	GinkgoHelper()
	config := rest.AnonymousClientConfig(c.Config)
	config.BearerToken = token
	return clientOf(config)
}

func clientOf(config *rest.Config) client.Client {
	GinkgoHelper()
	created, err := client.New(config, client.Options{Scheme: c.Client.Scheme(), Mapper: c.Client.RESTMapper()})
	Expect(err).NotTo(HaveOccurred())
	return created
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: name}
}

func withRole(subject rbacv1.Subject, role string) corev1beta1.ProjectMember {
	return corev1beta1.ProjectMember{Subject: subject, Role: role}
}

// unnamed returns a project with a unique name.
func unnamed(members ...corev1beta1.ProjectMember) *corev1beta1.Project {
	subject := user(owner)
	return &corev1beta1.Project{
		ObjectMeta: metav1.ObjectMeta{Name: "e2e-" + rand.String(5)},
		Spec:       corev1beta1.ProjectSpec{Owner: &subject, Members: members},
	}
}

// create creates a project, waits until it is ready, and deletes it at the end of the spec.
func create(ctx context.Context, creator client.Client, project *corev1beta1.Project) {
	GinkgoHelper()
	// The API server may need a moment to apply new webhook configurations.
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		try := unnamed()
		try.Spec.Owner = nil
		g.Expect(c.Client.Create(ctx, try, client.DryRunAll)).To(Succeed())
		g.Expect(try.Spec.CreatedBy).NotTo(BeNil())
	}).Should(Succeed())
	Expect(creator.Create(ctx, project)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { dismiss(ctx, project) }, NodeTimeout(2*time.Minute))
	Eventually(ctx, phaseOf).WithArguments(project).Should(BeEquivalentTo("Ready"))
}

// remove deletes a project, if it still exists, and waits until it is gone.
func remove(ctx context.Context, project *corev1beta1.Project) {
	GinkgoHelper()
	dismiss(ctx, project)
	Eventually(ctx, isGone).WithArguments(project).Should(BeTrue())
}

// dismiss deletes a Project, if it still exists, and does not wait: the deletion of its namespace takes some seconds.
func dismiss(ctx context.Context, project *corev1beta1.Project) {
	GinkgoHelper()
	if confirm(ctx, project) {
		Expect(client.IgnoreNotFound(c.Client.Delete(ctx, project))).To(Succeed())
	}
}

// dismissed returns the Projects that are being deleted.
func dismissed(ctx context.Context) ([]string, error) {
	projects := &corev1beta1.ProjectList{}
	err := c.Client.List(ctx, projects)
	var names []string
	for _, project := range projects.Items {
		if project.DeletionTimestamp != nil {
			names = append(names, project.Name)
		}
	}
	return names, err
}

// confirm sets the annotation that confirms the deletion of a Project. It returns false if the Project does not exist.
func confirm(ctx context.Context, project *corev1beta1.Project) bool {
	GinkgoHelper()
	patch := client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"true"}}}`))
	err := c.Client.Patch(ctx, &corev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: project.Name}}, patch)
	if apierrors.IsNotFound(err) {
		return false
	}
	Expect(err).NotTo(HaveOccurred())
	return true
}

// phaseOf reads a Project, and returns its phase once the status is for the newest generation.
func phaseOf(ctx context.Context, project *corev1beta1.Project) (corev1beta1.ProjectPhase, error) {
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(project), project); err != nil {
		return "", err
	}
	if project.Status.ObservedGeneration != project.Generation {
		return "", nil
	}
	return project.Status.Phase, nil
}

// isGone reports whether an object no longer exists.
func isGone(ctx context.Context, object client.Object) (bool, error) {
	found, isObject := object.DeepCopyObject().(client.Object)
	if !isObject {
		return false, nil
	}
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(object), found)
	return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
}

// edit changes a project as a user.
func edit(ctx context.Context, editor client.Client, project *corev1beta1.Project, change func(*corev1beta1.ProjectSpec)) error {
	now := &corev1beta1.Project{}
	if err := editor.Get(ctx, client.ObjectKeyFromObject(project), now); err != nil {
		return err
	}
	before := now.DeepCopy()
	change(&now.Spec)
	return editor.Patch(ctx, now, client.MergeFrom(before))
}

// note returns a ConfigMap, which members may write.
func note(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"text": "hello"}}
}

// namespaceOf reads a namespace.
func namespaceOf(ctx context.Context, name string) *corev1.Namespace {
	GinkgoHelper()
	namespace := &corev1.Namespace{}
	Expect(c.Client.Get(ctx, client.ObjectKey{Name: name}, namespace)).To(Succeed())
	return namespace
}

// shoot returns a Shoot, which prevents the deletion of its Project.
func shoot(namespace string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	object.SetAPIVersion("core.gardener.cloud/v1beta1")
	object.SetKind("Shoot")
	object.SetNamespace(namespace)
	object.SetName("apple")
	return object
}

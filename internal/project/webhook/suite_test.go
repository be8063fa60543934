package webhook_test

import (
	"os"
	"testing"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/projecttest"
	"github.com/espalier-dev/espalier/test/binary"
)

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }

// start runs the controller with its webhooks. The group editors has all rights for Projects that RBAC checks, and may delete
// namespaces, but has none of the verbs that only the webhooks ask for.
func start(t *testing.T, options projecttest.Options) *projecttest.Env {
	t.Helper()
	options.Webhooks = true
	e := projecttest.New(t, options)
	allow(e, "editors", "", "create", "get", "list", "watch", "patch", "update", "delete", "deletecollection")
	return e
}

// allow lets a group do something with Projects, of one name or any, and with namespaces.
func allow(e *projecttest.Env, group, name string, verbs ...string) {
	e.T.Helper()
	var names []string
	if name != "" {
		names = []string{name}
	}
	meta := metav1.ObjectMeta{Name: e.Namespace + "-" + group}
	e.Expect(e.Admin.Create(e.Ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"core.gardener.cloud"}, Resources: []string{"projects"}, ResourceNames: names, Verbs: verbs},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"delete"}},
	}})).To(Succeed())
	e.Expect(e.Admin.Create(e.Ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "Group", Name: group}},
	})).To(Succeed())
	e.Eventually(func() bool { return may(e, group, verbs[len(verbs)-1], name) }, binary.Patience).Should(BeTrue())
}

func may(e *projecttest.Env, group, verb, name string) bool {
	asked := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "another-user", Groups: []string{group},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: "core.gardener.cloud", Version: "v1beta1", Resource: "projects", Verb: verb, Name: name,
		},
	}}
	e.Expect(e.Admin.Create(e.Ctx, asked)).To(Succeed())
	return asked.Status.Allowed
}

// project is a Project with a spec written as YAML.
func project(e *projecttest.Env, name, spec string) *corev1beta1.Project {
	e.T.Helper()
	return e.Project(name, func(p *corev1beta1.Project) { e.Expect(yaml.Unmarshal([]byte(spec), &p.Spec)).To(Succeed()) })
}

// created creates the Project that project returns, as a user of the group editors.
func created(e *projecttest.Env, user, name, spec string) *corev1beta1.Project {
	e.T.Helper()
	p := project(e, name, spec)
	e.Expect(e.As(user, "editors").Create(e.Ctx, p)).To(Succeed())
	return p
}

// change changes a Project as a user by a merge patch, written as YAML.
func change(e *projecttest.Env, as client.Client, p *corev1beta1.Project, patch string) error {
	e.T.Helper()
	encoded, err := yaml.YAMLToJSON([]byte(patch))
	e.Expect(err).NotTo(HaveOccurred())
	return as.Patch(e.Ctx, &corev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: p.Name}},
		client.RawPatch("application/merge-patch+json", encoded))
}

// confirm annotates a Project.
func confirm(e *projecttest.Env, as client.Client, p *corev1beta1.Project, value string) {
	e.T.Helper()
	e.Expect(change(e, as, p, `{metadata: {annotations: {confirmation.gardener.cloud/deletion: "`+value+`"}}}`)).To(Succeed())
}

// ready waits for a Project's namespace, and returns its name.
func ready(e *projecttest.Env, p *corev1beta1.Project) string {
	e.T.Helper()
	e.Eventually(func() corev1beta1.ProjectPhase { return e.Get(p).Status.Phase }, binary.Patience).Should(Equal(corev1beta1.ProjectReady))
	return *e.Get(p).Spec.Namespace
}

// user and member return subjects and members with the fields that the API server sets.
func user(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: name}
}

func member(subject rbacv1.Subject, role string, roles ...string) corev1beta1.ProjectMember {
	return corev1beta1.ProjectMember{Subject: subject, Role: role, Roles: roles}
}

// namespace creates a namespace with labels.
func namespace(e *projecttest.Env, name string, labels map[string]string) *corev1.Namespace {
	e.T.Helper()
	created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	e.Expect(e.Admin.Create(e.Ctx, created)).To(Succeed())
	return created
}

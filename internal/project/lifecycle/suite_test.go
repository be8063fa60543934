package lifecycle_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/projecttest"
	"github.com/espalier-dev/espalier/test/binary"
)

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }

// fixture is an Env with helpers for tests of the main loop.
type fixture struct {
	*projecttest.Env
	runs int
}

func newScene(t *testing.T, o projecttest.Options) *fixture {
	t.Helper()
	return &fixture{Env: projecttest.New(t, o)}
}

// name returns a name that is unique within a test run, since namespaces and cluster roles outlive their tests.
func (s *fixture) name() string {
	s.runs++
	return fmt.Sprintf("%s%d", s.Namespace[len(s.Namespace)-5:], s.runs)
}

const patience = binary.Patience

type change = func(*corev1beta1.Project)

func in(namespace string) change {
	return func(p *corev1beta1.Project) { p.Spec.Namespace = ptr.To(namespace) }
}

func owner(name string) change {
	return func(p *corev1beta1.Project) { p.Spec.Owner = ptr.To(user(name)) }
}

func member(name, role string, more ...string) change {
	return func(p *corev1beta1.Project) {
		p.Spec.Members = append(p.Spec.Members, corev1beta1.ProjectMember{Subject: user(name), Role: role, Roles: more})
	}
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: name}
}

// create creates a Project.
func (s *fixture) create(changes ...change) *corev1beta1.Project {
	s.T.Helper()
	p := s.Project(s.name(), changes...)
	s.Expect(s.Admin.Create(s.Ctx, p)).To(Succeed())
	return p
}

// ready creates a Project and waits until it is Ready.
func (s *fixture) ready(changes ...change) *corev1beta1.Project {
	s.T.Helper()
	p := s.create(changes...)
	s.eventually(p, "Ready")
	return s.Get(p)
}

// eventually waits until the Project has a phase for its current generation.
func (s *fixture) eventually(p *corev1beta1.Project, phase string) {
	s.T.Helper()
	s.Eventually(func(g Gomega) {
		found := &corev1beta1.Project{}
		g.Expect(s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(p), found)).To(Succeed())
		g.Expect(string(found.Status.Phase)).To(Equal(phase))
		g.Expect(found.Status.ObservedGeneration).To(Equal(found.Generation))
	}).WithTimeout(binary.Patience).Should(Succeed())
}

func (s *fixture) eventuallyReports(p *corev1beta1.Project, event any) {
	s.T.Helper()
	s.Eventually(func() []string { return s.Events(p) }).WithTimeout(binary.Patience).Should(ContainElement(event))
}

// edit changes a Project as an administrator.
func (s *fixture) edit(p *corev1beta1.Project, changes ...change) {
	s.T.Helper()
	s.Expect(s.try(s.Admin, p, changes...)).To(Succeed())
}

// try changes a Project with the given client.
func (s *fixture) try(c client.Client, p *corev1beta1.Project, changes ...change) error {
	before := s.Get(p)
	after := before.DeepCopy()
	for _, each := range changes {
		each(after)
	}
	return c.Patch(s.Ctx, after, client.MergeFrom(before))
}

func (s *fixture) delete(p *corev1beta1.Project) {
	s.T.Helper()
	s.edit(p, func(p *corev1beta1.Project) {
		p.Annotations = map[string]string{"confirmation.gardener.cloud/deletion": "true"}
	})
	s.Expect(s.Admin.Delete(s.Ctx, p)).To(Succeed())
}

func (s *fixture) eventuallyGone(o client.Object) {
	s.T.Helper()
	s.Eventually(func() bool {
		return apierrors.IsNotFound(s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(o), o))
	}).WithTimeout(binary.Patience).Should(BeTrue(), o.GetName())
}

func (s *fixture) namespace(name string) *corev1.Namespace {
	s.T.Helper()
	found := &corev1.Namespace{}
	s.Expect(s.Admin.Get(s.Ctx, client.ObjectKey{Name: name}, found)).To(Succeed())
	return found
}

func (s *fixture) createNamespace(name string, labels, annotations map[string]string) *corev1.Namespace {
	s.T.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations}}
	s.Expect(s.Admin.Create(s.Ctx, namespace)).To(Succeed())
	return namespace
}

func labelsFor(project string) map[string]string {
	return map[string]string{"gardener.cloud/role": "project", "project.gardener.cloud/name": project}
}

// patch merges JSON into an object.
func (s *fixture) patch(o client.Object, text string) {
	s.T.Helper()
	s.Expect(s.Admin.Patch(s.Ctx, o, client.RawPatch(types.MergePatchType, []byte(text)))).To(Succeed())
}

// grants lists the ClusterRoles and bindings of a Project, and the bindings in its namespace, as "kind name -> role: subjects".
func (s *fixture) grants(p *corev1beta1.Project) []string {
	s.T.Helper()
	return s.grantsIn(s.Get(p))
}

// grantsIn does the same as grants for a Project that may be deleted.
func (s *fixture) grantsIn(p *corev1beta1.Project) []string {
	s.T.Helper()
	var found []string
	clusterRoles := &rbacv1.ClusterRoleList{}
	s.Expect(s.Admin.List(s.Ctx, clusterRoles)).To(Succeed())
	for _, each := range clusterRoles.Items {
		if strings.HasSuffix(each.Name, ":"+p.Name) || strings.Contains(each.Name, ":project:"+p.Name+":") {
			found = append(found, "ClusterRole "+each.Name)
		}
	}
	clusterBindings := &rbacv1.ClusterRoleBindingList{}
	s.Expect(s.Admin.List(s.Ctx, clusterBindings)).To(Succeed())
	for _, each := range clusterBindings.Items {
		if strings.HasSuffix(each.Name, ":"+p.Name) {
			found = append(found, describe("ClusterRoleBinding", each.Name, each.RoleRef, each.Subjects))
		}
	}
	bindings := &rbacv1.RoleBindingList{}
	s.Expect(s.Admin.List(s.Ctx, bindings, client.InNamespace(ptr.Deref(p.Spec.Namespace, "none")))).To(Succeed())
	for _, each := range bindings.Items {
		found = append(found, describe("RoleBinding", each.Name, each.RoleRef, each.Subjects))
	}
	slices.Sort(found)
	return found
}

func describe(kind, name string, role rbacv1.RoleRef, subjects []rbacv1.Subject) string {
	var names []string
	for _, each := range subjects {
		names = append(names, each.Name)
	}
	return fmt.Sprintf("%s %s -> %s %s: %s", kind, name, role.Kind, role.Name, strings.Join(names, ","))
}

// standard is the result of grants for a Project without extension roles, with the subjects of each binding.
func standard(p *corev1beta1.Project, a, u, m, v, s string) []string {
	const system = "gardener.cloud:system:project"
	found := []string{
		"RoleBinding " + system + "-member -> ClusterRole " + system + "-member: " + m,
		"RoleBinding " + system + "-viewer -> ClusterRole " + system + "-viewer: " + v,
		"RoleBinding " + system + "-serviceaccountmanager -> ClusterRole " + system + "-serviceaccountmanager: " + s,
	}
	for infix, who := range map[string]string{"": a, "-uam": u, "-member": m, "-viewer": v} {
		name := system + infix + ":" + p.Name
		found = append(found, "ClusterRole "+name, "ClusterRoleBinding "+name+" -> ClusterRole "+name+": "+who)
	}
	slices.Sort(found)
	return found
}

// atRest waits until the controller sends no more requests, and reconciles no Project.
func (s *fixture) atRest() {
	s.T.Helper()
	s.Eventually(func(g Gomega) {
		looks := s.countReconciliations()
		s.Requests.Reset()
		time.Sleep(500 * time.Millisecond)
		g.Expect(s.busy()).To(BeZero()) // a reconciliation may be waiting for an answer
		g.Expect(s.Requests.Seen()).To(BeEmpty())
		g.Expect(s.countReconciliations()).To(Equal(looks))
	}).WithTimeout(binary.Patience).Should(Succeed())
}

func (s *fixture) eachOf(list client.ObjectList, f func(client.Object)) {
	s.T.Helper()
	s.Expect(meta.EachListItem(list, func(o runtime.Object) error {
		each, ok := o.(client.Object)
		s.Expect(ok).To(BeTrue())
		f(each)
		return nil
	})).To(Succeed())
}

func generatedName(p *corev1beta1.Project) string {
	sum := sha256.Sum256([]byte(p.UID))
	return "garden-" + p.Name + "-" + hex.EncodeToString(sum[:])[:5]
}

func keyOf(p *corev1beta1.Project) client.ObjectKey { return client.ObjectKeyFromObject(p) }

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

func mergePatch(text string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(text)) }

func namespaceNamed(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// withoutValidation makes the API server accept Projects that other API servers than Espalier's may accept, until the test ends.
func (s *fixture) withoutValidation() {
	s.T.Helper()
	read := func() *unstructured.Unstructured {
		crd := &unstructured.Unstructured{}
		crd.SetAPIVersion("apiextensions.k8s.io/v1")
		crd.SetKind("CustomResourceDefinition")
		s.Expect(s.Admin.Get(context.Background(), client.ObjectKey{Name: "projects.core.gardener.cloud"}, crd)).To(Succeed())
		return crd
	}
	crd := read()
	spec := crd.DeepCopy().Object["spec"]
	s.T.Cleanup(func() {
		current := read()
		current.Object["spec"] = spec
		s.Expect(s.Admin.Update(context.Background(), current)).To(Succeed())
		s.Eventually(func() bool { // the next test may depend on the validation
			return apierrors.IsInvalid(s.Admin.Create(context.Background(), s.Project(s.name(), in("kube-system")), client.DryRunAll))
		}).WithTimeout(patience).Should(BeTrue())
	})
	relax(crd.Object["spec"])
	s.Expect(s.Admin.Update(s.Ctx, crd)).To(Succeed())
}

func relax(value any) {
	switch v := value.(type) {
	case map[string]any:
		delete(v, "x-kubernetes-validations")
		delete(v, "maxItems")
		for _, each := range v {
			relax(each)
		}
	case []any:
		for _, each := range v {
			relax(each)
		}
	}
}

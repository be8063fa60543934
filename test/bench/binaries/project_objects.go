package binaries

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/roles"
	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/local"
)

func newProject(i int) *corev1beta1.Project {
	user := func(name string) rbacv1.Subject {
		return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: fmt.Sprintf("%s-%05d@example.org", name, i)}
	}
	owner, namespace := user("owner"), fmt.Sprintf("garden-p-%05d", i)
	return &corev1beta1.Project{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p-%05d", i)},
		Spec: corev1beta1.ProjectSpec{
			CreatedBy: &owner, Owner: &owner, Namespace: &namespace,
			Description: ptr.To("A project that the benchmark has created"),
			Members: []corev1beta1.ProjectMember{
				{Subject: owner, Role: "admin", Roles: []string{"owner"}},
				{Subject: user("admin"), Role: "admin", Roles: []string{"uam"}},
				{Subject: rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: fmt.Sprintf("team-%05d", i)}, Role: "viewer"},
				{Subject: rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "robot", Namespace: namespace}, Role: "serviceaccountmanager"},
			},
		},
	}
}

// createForProject creates the objects of one Project that the controller creates: namespace, roles and bindings. It does not write
// to the Project.
func (p *project) createForProject(c client.Client, of *corev1beta1.Project) {
	name := *of.Spec.Namespace
	p.Check(c.Create(p.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   name,
		Labels: map[string]string{"gardener.cloud/role": "project", "project.gardener.cloud/name": of.Name},
		Annotations: map[string]string{
			"namespace.gardener.cloud/project": string(of.UID), "namespace.gardener.cloud/created-by-project-controller": "true",
		},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(of, corev1beta1.SchemeGroupVersion.WithKind("Project"))},
	}}))
	objects, refused := roles.Desired(of, of.Spec.Members, name)
	p.Check(errors.Join(refused...))
	p.Parallel(len(objects), len(objects), func(i int) { p.Check(c.Create(p.Ctx, objects[i])) })
}

// use is the way in which the namespace of a Project is used. It follows from the position of the namespace in the order of the names of
// the Projects.
type use string

const (
	// withShoots is every second namespace: it has Shoots, and the SecretBinding that the Shoots use.
	withShoots use = "Shoot"
	// bySecret and byQuota are namespaces with a Secret or a Quota that Shoots of the preceding namespace use.
	bySecret use = "Secret"
	byQuota  use = "Quota"
	// unused is one namespace in ten. It has a Secret and a Quota, but no Shoot uses them.
	unused use = "nothing"
)

func useOf(i int) use {
	switch {
	case i%2 == 0:
		return withShoots
	case i%10 == 9:
		return unused
	case i%4 == 1:
		return bySecret
	default:
		return byQuota
	}
}

// addUses fills the namespaces of the Projects, so that the checks search for all kinds of use, and most Secrets belong to Shoots.
func (p *project) addUses(g *garden) {
	p.Parallel(p.projects, filling, g.addCredentials)
	root, err := local.RepositoryRoot()
	p.Check(err)
	manifests, err := local.ReadManifests(filepath.Join(root, "internal", "project", "crdtest", "testdata", "shoot.yaml"))
	p.Check(err)
	holders := (p.projects + 1) / 2
	p.Parallel(p.shoots, filling, func(i int) {
		shoot := manifests[0].DeepCopy()
		shoot.SetNamespace(g.namespace(2 * (i % holders)))
		shoot.SetName(fmt.Sprintf("s-%05d", i))
		g.addShoot(shoot, p.secrets)
	})
}

func (g *garden) namespace(i int) string { return *g.projects[i].Spec.Namespace }

// addCredentials creates a Secret in a namespace, and a SecretBinding or a Quota. The Shoots reference the binding.
func (g *garden) addCredentials(i int) {
	const secret, quota = "credentials", "limits"
	referenced := map[string]string{"reference.gardener.cloud/secretbinding": "true"}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: g.namespace(i), Name: name, Labels: referenced}
	}
	g.Create(&corev1.Secret{ObjectMeta: meta(secret)})
	if useOf(i) != withShoots {
		limits := &corev1beta1.Quota{ObjectMeta: meta(quota)}
		limits.Spec.Scope = corev1.ObjectReference{APIVersion: "v1", Kind: "Secret"}
		g.Create(limits)
		return
	}
	binding := &corev1beta1.SecretBinding{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace(i), Name: "account"}}
	binding.SecretRef = corev1.SecretReference{Namespace: g.namespace(i), Name: secret}
	if i+1 < len(g.projects) {
		switch useOf(i + 1) {
		case bySecret:
			binding.SecretRef.Namespace = g.namespace(i + 1)
		case byQuota:
			binding.Quotas = []corev1.ObjectReference{{Namespace: g.namespace(i + 1), Name: quota}}
		case withShoots, unused:
		}
	}
	g.Create(binding)
}

// addShoot creates a Shoot with its own Secrets.
func (g *garden) addShoot(shoot *unstructured.Unstructured, secrets int) {
	g.Create(shoot)
	owner := metav1.OwnerReference{APIVersion: shoot.GetAPIVersion(), Kind: shoot.GetKind(), Name: shoot.GetName(), UID: shoot.GetUID()}
	for i := range secrets {
		g.Create(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: shoot.GetNamespace(), Name: fmt.Sprintf("%s.kubeconfig-%d", shoot.GetName(), i),
				Labels: map[string]string{"gardener.cloud/role": "kubeconfig"}, OwnerReferences: []metav1.OwnerReference{owner},
			},
			Data: map[string][]byte{"kubeconfig": make([]byte, 1024)},
		})
	}
}

// requireStale waits until every unused Project is marked as stale, and fails if another one is: otherwise the checks did not do the
// measured work.
func (p *project) requireStale(g *garden) {
	p.Await(harness.Patience, "the unused Projects to be marked", func(ctx context.Context) error {
		list := &corev1beta1.ProjectList{}
		if err := g.Client.List(ctx, list); err != nil {
			return local.GiveUp(err)
		}
		missing := 0
		for i, each := range list.Items {
			stale := each.Status.StaleSinceTimestamp != nil
			switch {
			case stale && useOf(i) != unused:
				return local.GiveUp(fmt.Errorf("project %s is marked as stale, but used by a %s", each.Name, useOf(i)))
			case !stale && useOf(i) == unused:
				missing++
			}
		}
		if missing > 0 {
			return fmt.Errorf("%d are not", missing)
		}
		return nil
	})
}

package binary

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/local"
)

// credentialLifetime is longer than any test.
const credentialLifetime = 3 * time.Hour

// Install creates the objects of all files that match patterns below the repository's root, with the namespaces that
// they are in. What exists already is left as it is: several test processes install the same.
func Install(ctx context.Context, c client.Client, patterns ...string) ([]*unstructured.Unstructured, error) {
	root, err := local.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	var files []string
	for _, pattern := range patterns {
		found, invalid := filepath.Glob(filepath.Join(root, pattern))
		if invalid != nil {
			return nil, fmt.Errorf("find %s: %w", pattern, invalid)
		}
		files = append(files, found...)
	}
	// A kustomization is a list of files, and no object.
	files = slices.DeleteFunc(files, func(file string) bool { return filepath.Base(file) == "kustomization.yaml" })
	all, err := local.ReadManifests(files...)
	if err != nil {
		return nil, err
	}
	for _, object := range all {
		if err := create(ctx, c, object.DeepCopy()); err != nil {
			return nil, fmt.Errorf("install %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return all, nil
}

func create(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	if object.GetNamespace() != "" {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: object.GetNamespace()}}
		if err := c.Create(ctx, namespace); client.IgnoreAlreadyExists(err) != nil {
			return err
		}
	}
	return client.IgnoreAlreadyExists(c.Create(ctx, object))
}

// Side is the cluster that roles are for.
type Side string

// The sides: a role whose name begins with espalier-<binary>-target is for the target, all others are for the source.
const (
	Source Side = "source"
	Target Side = "target"
)

// Identity creates, in an existing namespace, the ServiceAccount of a binary with the roles that it ships for the sides
// that this cluster is, and returns a kubeconfig for it.
func Identity(ctx context.Context, c client.Client, admin *rest.Config, binary, namespace string, sides ...Side) ([]byte, error) {
	roles, err := Install(ctx, c, "deploy/"+binary+"/rbac/*.yaml")
	if err != nil {
		return nil, err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: binary}}
	if err := c.Create(ctx, account); err != nil {
		return nil, fmt.Errorf("create ServiceAccount: %w", err)
	}
	roles = slices.DeleteFunc(roles, func(role *unstructured.Unstructured) bool {
		return !slices.Contains(sides, sideOf(role.GetName(), binary))
	})
	for _, role := range roles {
		if err := c.Create(ctx, binding(role, namespace, binary)); err != nil {
			return nil, fmt.Errorf("bind %s %s: %w", role.GetKind(), role.GetName(), err)
		}
	}
	if err := awaitRights(ctx, admin, "system:serviceaccount:"+namespace+":"+binary, roles); err != nil {
		return nil, err
	}
	return local.ServiceAccountKubeconfig(ctx, admin, namespace, binary, credentialLifetime)
}

// IdentityIn is like Identity for the source, in a namespace in which the binary also has the rights of one of its Roles, as if the
// namespace were that of the Role.
func IdentityIn(ctx context.Context, c client.Client, admin *rest.Config, binary, namespace string, own client.ObjectKey) ([]byte, error) {
	if _, err := Install(ctx, c, "deploy/"+binary+"/rbac/*.yaml"); err != nil {
		return nil, err
	}
	role := &unstructured.Unstructured{}
	role.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("Role"))
	if err := c.Get(ctx, own, role); err != nil {
		return nil, fmt.Errorf("read Role %s: %w", own, err)
	}
	copied := &unstructured.Unstructured{Object: map[string]any{"rules": role.Object["rules"]}}
	copied.SetGroupVersionKind(role.GroupVersionKind())
	copied.SetNamespace(namespace)
	copied.SetName("own")
	for _, object := range []client.Object{copied, binding(copied, namespace, binary)} {
		if err := c.Create(ctx, object); err != nil {
			return nil, fmt.Errorf("copy Role %s: %w", own, err)
		}
	}
	return Identity(ctx, c, admin, binary, namespace, Source) // it waits for bindings that are created after this one
}

// awaitRights waits until the API server knows that a user has been given roles. It learns of them by watches, and forbids
// everything before; a binary that is forbidden something when it starts ends.
func awaitRights(ctx context.Context, admin *rest.Config, user string, roles []*unstructured.Unstructured) error {
	clients, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	for _, role := range roles {
		attributes, err := firstRight(role)
		if err != nil {
			return err
		}
		if attributes == nil {
			continue
		}
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: attributes}}
		err = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, Patience, true, func(ctx context.Context) (bool, error) {
			answer, failure := clients.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			return failure == nil && answer.Status.Allowed, failure
		})
		if err != nil {
			return fmt.Errorf("wait for rights of %s %s: %w", role.GetKind(), role.GetName(), err)
		}
	}
	return nil
}

// firstRight is something that a role allows, nil if that is nothing about objects. All of a role comes at once.
func firstRight(role *unstructured.Unstructured) (*authorizationv1.ResourceAttributes, error) {
	typed := &rbacv1.ClusterRole{} // a Role has rules, too
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(role.Object, typed); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", role.GetKind(), role.GetName(), err)
	}
	for _, rule := range typed.Rules {
		if len(rule.Resources) == 0 || len(rule.APIGroups) == 0 || len(rule.Verbs) == 0 {
			continue
		}
		resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
		found := &authorizationv1.ResourceAttributes{
			Namespace: role.GetNamespace(), Group: rule.APIGroups[0], Resource: resource, Subresource: subresource, Verb: rule.Verbs[0],
		}
		if len(rule.ResourceNames) > 0 {
			found.Name = rule.ResourceNames[0]
		}
		return found, nil
	}
	return nil, nil
}

func sideOf(role, binary string) Side {
	if strings.HasPrefix(role, "espalier-"+binary+"-target") {
		return Target
	}
	return Source
}

// binding gives a role to a binary's ServiceAccount.
func binding(role *unstructured.Unstructured, namespace, account string) client.Object {
	meta := metav1.ObjectMeta{Namespace: role.GetNamespace(), Name: namespace + "-" + role.GetName()}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.GetKind(), Name: role.GetName()}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}}
	if role.GetNamespace() == "" {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	}
	return &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
}

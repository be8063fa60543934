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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-helpers/auth/rbac/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/test/local"
)

// credentialLifetime is the lifetime of tokens, which is longer than any test.
const credentialLifetime = 3 * time.Hour

// Install creates the objects in all files that match patterns below the repository's root, and their namespaces. It does not change
// existing objects: several test processes install the same objects.
func Install(ctx context.Context, c client.Client, patterns ...string) ([]*unstructured.Unstructured, error) {
	all, err := read(patterns...)
	if err != nil {
		return nil, err
	}
	return all, createAll(ctx, c, all)
}

// installRoles creates the roles that a binary ships, and returns them. It creates the last one only after all others, so that its
// existence shows that all exist.
func installRoles(ctx context.Context, c client.Client, binary string) ([]*unstructured.Unstructured, error) {
	roles, err := read("deploy/" + binary + "/rbac/*.yaml")
	if err != nil || len(roles) == 0 {
		return nil, err
	}
	last := roles[len(roles)-1]
	if err := c.Get(ctx, client.ObjectKeyFromObject(last), last.DeepCopy()); client.IgnoreNotFound(err) != nil || err == nil {
		return roles, err
	}
	return roles, createAll(ctx, c, roles)
}

// read returns the objects of all files that match patterns below the repository's root.
func read(patterns ...string) ([]*unstructured.Unstructured, error) {
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
	// A kustomization.yaml lists files, and is not an object.
	files = slices.DeleteFunc(files, func(file string) bool { return filepath.Base(file) == "kustomization.yaml" })
	return local.ReadManifests(files...)
}

func createAll(ctx context.Context, c client.Client, all []*unstructured.Unstructured) error {
	for _, object := range all {
		if err := create(ctx, c, object.DeepCopy()); err != nil {
			return fmt.Errorf("install %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
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

// Side is the cluster in which a role is needed.
type Side string

// The sides. A role whose name begins with espalier-<binary>-target is needed in the target, all others in the source.
const (
	Source Side = "source"
	Target Side = "target"
)

// Identity creates the ServiceAccount of a binary in an existing namespace, binds the shipped roles of the given sides to it, and returns a
// kubeconfig for it. Sides names the roles that this cluster has in the test: source, target or both.
func Identity(ctx context.Context, c client.Client, admin *rest.Config, binary, namespace string, sides ...Side) ([]byte, error) {
	roles, err := installRoles(ctx, c, binary)
	if err != nil {
		return nil, err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: binary}}
	if err := c.Create(ctx, account); err != nil {
		return nil, fmt.Errorf("create ServiceAccount: %w", err)
	}
	roles = slices.DeleteFunc(roles, func(role *unstructured.Unstructured) bool {
		side := Source
		if strings.HasPrefix(role.GetName(), "espalier-"+binary+"-target") {
			side = Target
		}
		return !slices.Contains(sides, side) || deployable.IsForUsers(role.GetName())
	})
	for _, role := range roles {
		if err := c.Create(ctx, binding(role, namespace, binary)); err != nil {
			return nil, fmt.Errorf("bind %s %s: %w", role.GetKind(), role.GetName(), err)
		}
	}
	if err := awaitRights(ctx, c, "system:serviceaccount:"+namespace+":"+binary, roles); err != nil {
		return nil, err
	}
	return local.ServiceAccountKubeconfig(ctx, admin, namespace, binary, credentialLifetime)
}

// ConfigIn is like Identity for the source. The binary also gets a copy of one of its Roles in the namespace. ConfigIn returns a client
// configuration, and records the requests of its clients.
func ConfigIn(
	ctx context.Context, c client.Client, admin *rest.Config, binary, namespace string, own client.ObjectKey, requests *Requests,
) (*rest.Config, error) {
	if _, err := installRoles(ctx, c, binary); err != nil {
		return nil, err
	}
	role := local.NewObject(rbacv1.SchemeGroupVersion.String(), "Role", own.Namespace, own.Name, nil)
	if err := c.Get(ctx, own, role); err != nil {
		return nil, fmt.Errorf("read Role %s: %w", own, err)
	}
	copied := local.NewObject(role.GetAPIVersion(), role.GetKind(), namespace, "own", map[string]any{"rules": role.Object["rules"]})
	for _, object := range []client.Object{copied, binding(copied, namespace, binary)} {
		if err := c.Create(ctx, object); err != nil {
			return nil, fmt.Errorf("copy Role %s: %w", own, err)
		}
	}
	kubeconfig, err := Identity(ctx, c, admin, binary, namespace, Source) // it waits for rights of bindings that are created after this one
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("parse kubeconfig of %s: %w", binary, err)
	}
	config.QPS = -1
	config.Wrap(requests.Wrap)
	return config, nil
}

// awaitRights waits until the API server knows the roles of a user. API servers learn of roles by watches, and forbid all requests before;
// a binary exits if its first requests are forbidden.
func awaitRights(ctx context.Context, c client.Client, user string, roles []*unstructured.Unstructured) error {
	for _, role := range roles {
		right, err := firstRight(role)
		if err != nil {
			return err
		}
		if right == nil {
			continue
		}
		err = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, Patience, true, func(ctx context.Context) (bool, error) {
			return Allowed(ctx, c, user, right)
		})
		if err != nil {
			return fmt.Errorf("wait for rights of %s %s: %w", role.GetKind(), role.GetName(), err)
		}
	}
	return nil
}

// Allowed reports whether the API server allows a right to a user.
func Allowed(ctx context.Context, c client.Client, user string, right *authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: right}}
	err := c.Create(ctx, review)
	return review.Status.Allowed, err
}

// firstRight returns a right that a role grants, nil if it grants none to objects. One right is enough to wait for, because an API server
// learns of all rights of a role at once.
func firstRight(role *unstructured.Unstructured) (*authorizationv1.ResourceAttributes, error) {
	typed := &rbacv1.ClusterRole{} // also suitable for a Role, which has the same field
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(role.Object, typed); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", role.GetKind(), role.GetName(), err)
	}
	for _, rule := range typed.Rules {
		for _, each := range validation.BreakdownRule(rule) {
			if len(each.Resources) > 0 {
				resource, subresource, _ := strings.Cut(each.Resources[0], "/")
				return &authorizationv1.ResourceAttributes{
					Namespace: role.GetNamespace(), Group: each.APIGroups[0], Resource: resource, Subresource: subresource,
					Verb: each.Verbs[0], Name: strings.Join(each.ResourceNames, ""),
				}, nil
			}
		}
	}
	return nil, nil
}

// boundLabel is a label of the bindings that Identity creates. Its value is the namespace of the ServiceAccount.
const boundLabel = "espalier.dev/bound-for-test"

// Unbind deletes the ClusterRoleBindings that Identity has created for a namespace. The authorizer reads all bindings of the cluster for
// each request, so bindings of tests that have ended would slow down all other tests.
func Unbind(ctx context.Context, c client.Client, namespace string) error {
	err := c.DeleteAllOf(ctx, &rbacv1.ClusterRoleBinding{}, client.MatchingLabels{boundLabel: namespace})
	if err != nil {
		return fmt.Errorf("remove bindings of namespace %s: %w", namespace, err)
	}
	return nil
}

// binding returns a binding of a role to a binary's ServiceAccount.
func binding(role *unstructured.Unstructured, namespace, account string) client.Object {
	meta := metav1.ObjectMeta{
		Namespace: role.GetNamespace(), Name: namespace + "-" + role.GetName(), Labels: map[string]string{boundLabel: namespace},
	}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.GetKind(), Name: role.GetName()}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}}
	if role.GetNamespace() == "" {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	}
	return &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
}

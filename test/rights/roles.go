package main

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/test/local"
)

// systemNamespace is the namespace of the binaries in deploy/.
const systemNamespace = "espalier-system"

// grant is a right in a role that a binary ships, or that is bound to the binary. In its key, a Role, and a ClusterRole that is bound in
// one namespace, have the form namespace/name.
type grant struct {
	key
	// bound is true if deploy/<binary>/base binds the role to the binary; users bind other roles if they need them.
	bound bool
	right right
}

// manifest contains the fields that this command reads of an object in deploy/.
type manifest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Rules             []rbacv1.PolicyRule `json:"rules"`
	RoleRef           rbacv1.RoleRef      `json:"roleRef"`
	Subjects          []rbacv1.Subject    `json:"subjects"`
}

// readGrants reads the roles of all binaries below deploy/ of the root, sorted by binary and role.
func readGrants(root string) ([]grant, error) {
	folders, err := filepath.Glob(filepath.Join(root, "deploy", "*", "rbac"))
	if err != nil {
		return nil, fmt.Errorf("find roles: %w", err)
	}
	if len(folders) == 0 {
		return nil, errors.New("find roles: there is no deploy/<binary>/rbac; run this in the root of the repository")
	}
	var all []grant
	for _, folder := range folders {
		binary := filepath.Dir(folder)
		manifests, err := decode(local.ReadManifests(folder, filepath.Join(binary, "base")))
		if err != nil {
			return nil, err
		}
		each, err := grantsOf(filepath.Base(binary), manifests)
		if err != nil {
			return nil, err
		}
		all = append(all, each...)
	}
	return all, nil
}

// decode returns the manifests of objects. Its parameters are the results of functions of package local.
func decode(objects []*unstructured.Unstructured, err error) ([]manifest, error) {
	all := make([]manifest, len(objects))
	for i, each := range objects {
		err = errors.Join(err, runtime.DefaultUnstructuredConverter.FromUnstructured(each.Object, &all[i]))
	}
	if err != nil {
		return nil, fmt.Errorf("read roles: %w", err)
	}
	return all, nil
}

// grantsOf returns the rights in the roles that a binary ships, and in the roles that its bindings give to its ServiceAccount. A
// ClusterRole that is bound in a namespace applies only there.
func grantsOf(binary string, manifests []manifest) ([]grant, error) {
	var all []grant
	add := func(role manifest, namespace string, bound bool) {
		for _, each := range expand(role.Rules, namespace) {
			all = append(all, grant{key: key{binary, path.Join(namespace, role.Name), each.String()}, bound: bound, right: each})
		}
	}
	given := map[string]bool{}
	for _, binding := range manifests {
		if !binding.gives("espalier-" + binary) {
			continue
		}
		role, err := boundRole(binding, manifests)
		if err != nil {
			return nil, fmt.Errorf("read roles of %s: %w", binary, err)
		}
		given[path.Join(role.Kind, binding.Namespace, role.Name)] = true
		add(role, binding.Namespace, true)
	}
	for _, each := range manifests {
		isRole := each.Kind == "ClusterRole" || each.Kind == "Role"
		if isRole && !given[path.Join(each.Kind, each.Namespace, each.Name)] {
			add(each, each.Namespace, false)
		}
	}
	slices.SortStableFunc(all, func(a, b grant) int { return strings.Compare(a.role, b.role) })
	return all, nil
}

// gives reports whether the object is a binding of a role to this ServiceAccount in the namespace of the binaries.
func (m manifest) gives(account string) bool {
	return (m.Kind == "ClusterRoleBinding" || m.Kind == "RoleBinding") &&
		slices.Contains(m.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: systemNamespace, Name: account})
}

// boundRole returns the role that a binding names: a shipped one, or cluster-admin, which every API server has.
func boundRole(binding manifest, shipped []manifest) (manifest, error) {
	ref := binding.RoleRef
	if ref.Kind == "ClusterRole" && ref.Name == "cluster-admin" {
		all := []string{anything}
		return manifest{
			TypeMeta: metav1.TypeMeta{Kind: ref.Kind}, ObjectMeta: metav1.ObjectMeta{Name: ref.Name},
			Rules: []rbacv1.PolicyRule{{Verbs: all, APIGroups: all, Resources: all, NonResourceURLs: all}},
		}, nil
	}
	for _, each := range shipped {
		if each.Kind == ref.Kind && each.Name == ref.Name && (each.Kind == "ClusterRole" || each.Namespace == binding.Namespace) {
			return each, nil
		}
	}
	return manifest{}, fmt.Errorf("%s %s gives %s %s, which is not shipped beside it", binding.Kind, binding.Name, ref.Kind, ref.Name)
}

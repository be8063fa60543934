package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// systemNamespace is the namespace of the binaries in deploy/.
const systemNamespace = "espalier-system"

// clusterAdmin is a role that every API server has.
const clusterAdmin = "cluster-admin"

// role is a role that a binary ships, or that is bound to it.
type role struct {
	name string
	// namespace is the namespace of a Role; empty for a ClusterRole.
	namespace string
	// bound is true if deploy/<binary>/base binds it to the binary; users bind other roles if they need them.
	bound  bool
	rights []right
}

// grants are the roles of a binary.
type grants struct {
	binary string
	roles  []role
}

// manifest contains the fields of an object in deploy/ that are used.
type manifest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Rules             []rbacv1.PolicyRule `json:"rules"`
	RoleRef           rbacv1.RoleRef      `json:"roleRef"`
	Subjects          []rbacv1.Subject    `json:"subjects"`
}

// readGrants reads the roles of all binaries below deploy/ of the root, sorted by name.
func readGrants(root string) ([]grants, error) {
	folders, err := filepath.Glob(filepath.Join(root, "deploy", "*", "rbac"))
	if err != nil {
		return nil, fmt.Errorf("find roles: %w", err)
	}
	if len(folders) == 0 {
		return nil, errors.New("find roles: there is no deploy/<binary>/rbac; run this in the root of the repository")
	}
	var all []grants
	for _, folder := range folders {
		shipped, err := readManifests(folder)
		if err != nil {
			return nil, err
		}
		base, err := readManifests(filepath.Join(filepath.Dir(folder), "base"))
		if err != nil {
			return nil, err
		}
		each, err := grantsOf(filepath.Base(filepath.Dir(folder)), shipped, base)
		if err != nil {
			return nil, err
		}
		all = append(all, each)
	}
	return all, nil
}

func readManifests(folder string) ([]manifest, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("find manifests: %w", err)
	}
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("find manifests: %w", err)
	}
	var all []manifest
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		found, err := decodeManifests(content)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

func decodeManifests(content []byte) ([]manifest, error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	var all []manifest
	for {
		var each manifest
		err := decoder.Decode(&each)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decode object: %w", err)
		}
		if each.Kind != "" {
			all = append(all, each)
		}
	}
}

// grantsOf returns the roles that a binary ships and those that the bindings of its base give to its ServiceAccount. A ClusterRole that is
// bound in a namespace applies only there.
func grantsOf(binary string, shipped, base []manifest) (grants, error) {
	all := grants{binary: binary}
	given := map[string]bool{}
	for _, binding := range base {
		if !gives(binding, "espalier-"+binary) {
			continue
		}
		found, err := boundRole(binding, shipped)
		if err != nil {
			return grants{}, fmt.Errorf("read roles of %s: %w", binary, err)
		}
		given[binding.RoleRef.Kind+" "+found.key()] = true
		all.roles = append(all.roles, found)
	}
	for _, each := range shipped {
		found := role{name: each.Name, namespace: each.Namespace, rights: expand(each.Rules, each.Namespace)}
		if isRole(each) && !given[each.Kind+" "+found.key()] {
			all.roles = append(all.roles, found)
		}
	}
	slices.SortFunc(all.roles, func(a, b role) int { return strings.Compare(a.key(), b.key()) })
	return all, nil
}

func isRole(m manifest) bool { return m.Kind == "ClusterRole" || m.Kind == "Role" }

// gives reports whether the object binds a role to the ServiceAccount in the namespace of the binaries.
func gives(binding manifest, account string) bool {
	if binding.Kind != "ClusterRoleBinding" && binding.Kind != "RoleBinding" {
		return false
	}
	return slices.Contains(binding.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: systemNamespace, Name: account})
}

func boundRole(binding manifest, shipped []manifest) (role, error) {
	ref := binding.RoleRef
	if ref.Kind == "ClusterRole" && ref.Name == clusterAdmin {
		all := rbacv1.PolicyRule{
			Verbs: []string{anything}, APIGroups: []string{anything}, Resources: []string{anything}, NonResourceURLs: []string{anything},
		}
		return role{name: clusterAdmin, bound: true, rights: expand([]rbacv1.PolicyRule{all}, binding.Namespace)}, nil
	}
	for _, each := range shipped {
		if each.Kind == ref.Kind && each.Name == ref.Name && (each.Kind == "ClusterRole" || each.Namespace == binding.Namespace) {
			return role{name: each.Name, namespace: binding.Namespace, bound: true, rights: expand(each.Rules, binding.Namespace)}, nil
		}
	}
	return role{}, fmt.Errorf("%s %s gives %s %s, which is not shipped beside it", binding.Kind, binding.Name, ref.Kind, ref.Name)
}

// key identifies the role among those of its binary.
func (r role) key() string {
	if r.namespace == "" {
		return r.name
	}
	return r.namespace + "/" + r.name
}

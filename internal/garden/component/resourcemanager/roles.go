package resourcemanager

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/deploy"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
)

// generatedRoles returns the roles of a binary under the names that they have at a place. A generated ClusterRole may become a Role of the
// namespace and a ClusterRole; the ClusterRole then contains only the rules that the Role cannot contain.
func (p part) generatedRoles(binary deployable.Binary, place deployable.Place) ([]client.Object, error) {
	generated, err := deploy.Roles(binary.Name)
	if err != nil {
		return nil, err
	}
	var roles []client.Object
	for _, read := range generated {
		wanted := slices.DeleteFunc(slices.Clone(binary.Roles), func(r deployable.Role) bool {
			return r.Name != read.Name || read.Namespace != "" && r.Namespace != read.Namespace
		})
		rules := p.renamed(read.Rules, binary, place)
		for _, declared := range wanted {
			own := rules
			if len(wanted) > 1 {
				own = split(rules, declared.Namespace)
			}
			roles = append(roles, roleAt(binary.RoleAt(place, declared), own))
		}
	}
	return roles, nil
}

func roleAt(at deployable.Role, rules []rbacv1.PolicyRule) client.Object {
	if at.Namespace == "" {
		return object.Owner{}.ClusterRole(at.Name, rules...)
	}
	return object.Owner{Namespace: at.Namespace}.RoleIn(at.Name, rules...)
}

// split returns the rules of a ClusterRole that a Role in the namespace can contain. If namespace is empty, it returns the other rules that
// are needed: rules for Namespaces with certain names. It leaves out the rule for all Namespaces, because only a process with a namespace
// selector needs it, and a process that works in one namespace has no selector.
func split(rules []rbacv1.PolicyRule, namespace string) []rbacv1.PolicyRule {
	return slices.DeleteFunc(slices.Clone(rules), func(rule rbacv1.PolicyRule) bool {
		aboutNamespaces := slices.Contains(rule.Resources, "namespaces")
		if namespace != "" {
			return aboutNamespaces
		}
		return !aboutNamespaces || len(rule.ResourceNames) == 0
	})
}

// renamed replaces the names of the binary's own objects in rules by the names that these objects have at a place.
func (p part) renamed(rules []rbacv1.PolicyRule, binary deployable.Binary, place deployable.Place) []rbacv1.PolicyRule {
	for _, rule := range rules {
		for j, name := range rule.ResourceNames {
			placed := binary.AtPlace(place, name)
			switch suffix, lease := strings.CutPrefix(name, Name); {
			case placed != name && slices.Contains(rule.APIGroups, admissionregistrationv1.GroupName):
				placed = Name
			case lease && slices.Contains(rule.APIGroups, coordinationv1.GroupName):
				placed = p.lease + suffix
			}
			rule.ResourceNames[j] = placed
		}
	}
	return rules
}

package main

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// anything is the wildcard for verbs, groups, resources and URLs, as in the rules of roles. As the name in a request, it means any name.
const anything = "*"

// right is one permission of a role: one verb on one resource, or on one URL.
type right struct {
	// verb is in lower case; "*" for all.
	verb string
	// group is empty for the core group.
	group string
	// resource is the plural, with its subresource after a slash; empty for a URL.
	resource string
	// name is the name of the only object that the right allows; empty for all. In a request it is "*" if the log does not contain the name
	// of the object.
	name string
	// namespace is the only namespace in which the right applies; empty for all namespaces, and for cluster-scoped resources.
	namespace string
	// url is a path that is not a resource.
	url string
}

// String returns the name of a right in files and tables. Different rights have different names.
func (r right) String() string {
	if r.url != "" {
		return r.verb + " " + r.url
	}
	text := r.verb + " " + r.resource
	if r.group != "" {
		text += "." + r.group
	}
	if r.name != "" {
		text += " " + strings.Join(strings.Fields(r.name), "")
	}
	if r.namespace != "" {
		text += " in " + r.namespace
	}
	return text
}

func (r right) isWildcard() bool {
	return r.verb == anything || r.group == anything || r.resource == anything || r.url == anything
}

// expand returns the rights in rules, sorted and without duplicates. If namespace is not empty, they apply only there.
func expand(rules []rbacv1.PolicyRule, namespace string) []right {
	all := make([]right, 0, len(rules))
	for _, rule := range rules {
		for _, each := range validation.BreakdownRule(rule) {
			r := right{verb: each.Verbs[0]}
			if len(each.NonResourceURLs) > 0 {
				r.url = each.NonResourceURLs[0]
			} else {
				r.group, r.resource, r.name, r.namespace = each.APIGroups[0], each.Resources[0], strings.Join(each.ResourceNames, ""), namespace
			}
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b right) int {
		return cmp.Or(
			strings.Compare(a.url, b.url), strings.Compare(a.namespace, b.namespace), strings.Compare(a.group, b.group),
			strings.Compare(a.resource, b.resource), strings.Compare(a.name, b.name), strings.Compare(a.verb, b.verb),
		)
	})
	return slices.Compact(all)
}

// rule returns a rule with only this right.
func (r right) rule() []rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{Verbs: []string{r.verb}}
	if r.url != "" {
		rule.NonResourceURLs = []string{r.url}
	} else {
		rule.APIGroups, rule.Resources = []string{r.group}, []string{r.resource}
	}
	if r.name != "" {
		rule.ResourceNames = []string{r.name}
	}
	return []rbacv1.PolicyRule{rule}
}

// allows reports whether the right r is sufficient for a request that needs the right q. It decides like the RBAC authorizer of the API
// server.
func (r right) allows(q right) bool {
	if q.name == anything {
		q.name = r.name
	}
	covers, _ := validation.Covers(r.rule(), q.rule())
	return covers && (r.namespace == "" || r.namespace == q.namespace)
}

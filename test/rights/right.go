package main

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// anything is the wildcard for verbs, groups, resources and URLs, as in the rules of roles.
const anything = "*"

// right is one permission of a role: one verb on one resource, or on one URL.
type right struct {
	// verb is in lower case; "*" for all.
	verb string
	// group is empty for the core group.
	group string
	// resource is the plural, with its subresource after a slash; empty for a URL.
	resource string
	// name is the only object that it allows; empty for all.
	name string
	// namespace is the only namespace that it allows; empty for all, and for cluster-scoped resources.
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

// isWildcard reports whether it contains a wildcard.
func (r right) isWildcard() bool {
	return r.verb == anything || r.group == anything || r.resource == anything || r.url == anything
}

// expand lists the rights in rules, each once, in order. A namespace limits them to it.
func expand(rules []rbacv1.PolicyRule, namespace string) []right {
	all := make([]right, 0, len(rules))
	for _, rule := range rules {
		all = append(all, expandRule(rule, namespace)...)
	}
	slices.SortFunc(all, compare)
	return slices.Compact(all)
}

func expandRule(rule rbacv1.PolicyRule, namespace string) []right {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	all := make([]right, 0, len(rule.Verbs))
	for _, verb := range rule.Verbs {
		for _, url := range rule.NonResourceURLs {
			all = append(all, right{verb: verb, url: url})
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					all = append(all, right{verb: verb, group: group, resource: resource, name: name, namespace: namespace})
				}
			}
		}
	}
	return all
}

// compare sorts rights for the same objects together.
func compare(a, b right) int {
	return cmp.Or(
		strings.Compare(a.url, b.url), strings.Compare(a.namespace, b.namespace), strings.Compare(a.group, b.group),
		strings.Compare(a.resource, b.resource), strings.Compare(a.name, b.name), strings.Compare(a.verb, b.verb),
	)
}

// allows reports whether the right is sufficient for the request, like the API server's RBAC authorizer.
func (r right) allows(q request) bool {
	if r.verb != q.verb && r.verb != anything {
		return false
	}
	if q.url != "" {
		prefix, open := strings.CutSuffix(r.url, anything)
		return r.url != "" && (r.url == q.url || open && strings.HasPrefix(q.url, prefix))
	}
	return r.resource != "" && (r.group == q.group || r.group == anything) && r.covers(q.resource, q.subresource) &&
		(r.name == "" || q.anyName || r.name == q.name) && (r.namespace == "" || r.namespace == q.namespace)
}

func (r right) covers(resource, subresource string) bool {
	if subresource == "" {
		return r.resource == resource || r.resource == anything
	}
	return r.resource == resource+"/"+subresource || r.resource == anything+"/"+subresource || r.resource == anything
}

package main

import (
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestExpand(t *testing.T) {
	for name, tc := range map[string]struct {
		rules     []rbacv1.PolicyRule
		namespace string
		want      []string
	}{
		"no rules": {},
		"each verb on each resource of each group": {
			rules: []rbacv1.PolicyRule{
				{Verbs: []string{"watch", "list"}, APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"pods", "events"}},
			},
			want: []string{
				"list events", "watch events", "list pods", "watch pods",
				"list events.events.k8s.io", "watch events.events.k8s.io", "list pods.events.k8s.io", "watch pods.events.k8s.io",
			},
		},
		"each name, in the role's namespace": {
			rules: []rbacv1.PolicyRule{
				{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"b", "a"}},
			},
			namespace: "kube-system",
			want:      []string{"get secrets a in kube-system", "get secrets b in kube-system"},
		},
		"subresources and URLs": {
			rules: []rbacv1.PolicyRule{
				{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}},
				{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics", "/healthz/*"}},
			},
			want: []string{"create serviceaccounts/token", "get /healthz/*", "get /metrics"},
		},
		"what two rules allow counts once": {
			rules: []rbacv1.PolicyRule{
				{Verbs: []string{"get", "list"}, APIGroups: []string{"apps"}, Resources: []string{"deployments"}},
				{Verbs: []string{"get"}, APIGroups: []string{"apps"}, Resources: []string{"deployments", "daemonsets"}},
			},
			want: []string{"get daemonsets.apps", "get deployments.apps", "list deployments.apps"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, each := range expand(tc.rules, tc.namespace) {
				got = append(got, each.String())
			}
			NewWithT(t).Expect(got).To(Equal(tc.want))
		})
	}
}

func TestAllows(t *testing.T) {
	lease := right{verb: "get", group: "coordination.k8s.io", resource: "leases", name: "ours", namespace: "espalier-system"}
	for name, tc := range map[string]struct {
		right   right
		request right
		want    bool
	}{
		"the same":         {right{verb: "list", resource: "pods"}, right{verb: "list", resource: "pods"}, true},
		"in any namespace": {right{verb: "list", resource: "pods"}, right{verb: "list", resource: "pods", namespace: "x"}, true},
		"of any name": {
			right{verb: "get", resource: "pods"}, right{verb: "get", resource: "pods", namespace: "x", name: "y"}, true,
		},
		"another verb": {right{verb: "list", resource: "pods"}, right{verb: "watch", resource: "pods"}, false},
		"another group": {
			right{verb: "list", resource: "events"}, right{verb: "list", group: "events.k8s.io", resource: "events"}, false,
		},
		"another resource": {right{verb: "list", resource: "pods"}, right{verb: "list", resource: "nodes"}, false},
		"name and namespace": {
			lease,
			right{verb: "get", group: "coordination.k8s.io", resource: "leases", name: "ours", namespace: "espalier-system"},
			true,
		},
		"another name": {
			lease,
			right{verb: "get", group: "coordination.k8s.io", resource: "leases", name: "theirs", namespace: "espalier-system"},
			false,
		},
		"another namespace": {
			lease, right{verb: "get", group: "coordination.k8s.io", resource: "leases", name: "ours", namespace: "default"}, false,
		},
		"all objects, with a right for one": {
			lease, right{verb: "get", group: "coordination.k8s.io", resource: "leases", namespace: "espalier-system"}, false,
		},
		"a name that was not logged": {
			right{verb: "approve", resource: "signers", name: "s"}, right{verb: "approve", resource: "signers", name: anything}, true,
		},
		"a subresource": {
			right{verb: "patch", resource: "nodes/status"}, right{verb: "patch", resource: "nodes/status"}, true,
		},
		"not its subresource": {
			right{verb: "patch", resource: "nodes"}, right{verb: "patch", resource: "nodes/status"}, false,
		},
		"not without it": {right{verb: "patch", resource: "nodes/status"}, right{verb: "patch", resource: "nodes"}, false},
		"a subresource of all": {
			right{verb: "patch", resource: "*/status"}, right{verb: "patch", resource: "nodes/status"}, true,
		},
		"everything": {
			right{verb: "*", group: "*", resource: "*"},
			right{verb: "patch", group: "apps", resource: "x/y", name: "z", namespace: "n"},
			true,
		},
		"all resources, no URL": {right{verb: "*", group: "*", resource: "*"}, right{verb: "get", url: "/metrics"}, false},
		"a URL":                 {right{verb: "get", url: "/metrics"}, right{verb: "get", url: "/metrics"}, true},
		"below a URL":           {right{verb: "get", url: "/healthz/*"}, right{verb: "get", url: "/healthz/ping"}, true},
		"not below a URL":       {right{verb: "get", url: "/healthz"}, right{verb: "get", url: "/healthz/ping"}, false},
		"a URL is no resource":  {right{verb: "get", url: "/metrics"}, right{verb: "get", resource: "pods"}, false},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(tc.right.allows(tc.request)).To(Equal(tc.want)) })
	}
}

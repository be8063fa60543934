package main

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
)

func decodeEvent(g *WithT, text string) event {
	var e event
	g.Expect(json.Unmarshal([]byte(text), &e)).To(Succeed())
	return e
}

func TestRequestsOfAnEvent(t *testing.T) {
	for name, tc := range map[string]struct {
		event string
		want  []right
	}{
		"a read": {
			`{"verb":"get","objectRef":{"resource":"pods","namespace":"n","name":"p"},"responseStatus":{"code":404}}`,
			[]right{{verb: "get", resource: "pods", namespace: "n", name: "p"}},
		},
		"a list of one": {
			`{"verb":"list","objectRef":{"resource":"secrets","namespace":"n","name":"p"},"responseStatus":{"code":200}}`,
			[]right{{verb: "list", resource: "secrets", namespace: "n", name: "p"}},
		},
		"a creation is not asked for by name": {
			`{"verb":"create","objectRef":{"resource":"leases","apiGroup":"coordination.k8s.io","namespace":"n","name":"p"},` +
				`"responseStatus":{"code":201}}`,
			[]right{{verb: "create", group: "coordination.k8s.io", resource: "leases", namespace: "n"}},
		},
		"a creation in an object is": {
			`{"verb":"create","objectRef":{"resource":"serviceaccounts","subresource":"token","namespace":"n","name":"p"},` +
				`"responseStatus":{"code":201}}`,
			[]right{{verb: "create", resource: "serviceaccounts/token", namespace: "n", name: "p"}},
		},
		"a namespace is in none": {
			`{"verb":"get","objectRef":{"resource":"namespaces","namespace":"n","name":"n"},"responseStatus":{"code":200}}`,
			[]right{{verb: "get", resource: "namespaces", name: "n"}},
		},
		"a URL": {
			`{"verb":"get","requestURI":"/apis?timeout=32s","responseStatus":{"code":200}}`,
			[]right{{verb: "get", url: "/apis"}},
		},
		"a patch that creates": {
			`{"verb":"patch","objectRef":{"resource":"configmaps","namespace":"n","name":"p"},"responseStatus":{"code":201}}`,
			[]right{
				{verb: "patch", resource: "configmaps", namespace: "n", name: "p"},
				{verb: "create", resource: "configmaps", namespace: "n", name: "p"},
			},
		},
		"a role that was created": {
			`{"verb":"create","objectRef":{"resource":"clusterroles","apiGroup":"rbac.authorization.k8s.io","name":"r"},` +
				`"responseStatus":{"code":201}}`,
			[]right{
				{verb: "create", group: "rbac.authorization.k8s.io", resource: "clusterroles"},
				{verb: "escalate", group: "rbac.authorization.k8s.io", resource: "clusterroles", name: anything},
			},
		},
		"a role that was patched": {
			`{"verb":"patch","objectRef":{"resource":"roles","apiGroup":"rbac.authorization.k8s.io","namespace":"n","name":"r"},` +
				`"responseStatus":{"code":200}}`,
			[]right{
				{verb: "patch", group: "rbac.authorization.k8s.io", resource: "roles", namespace: "n", name: "r"},
				{verb: "escalate", group: "rbac.authorization.k8s.io", resource: "roles", namespace: "n", name: "r"},
			},
		},
		"a role that was refused": {
			`{"verb":"create","objectRef":{"resource":"clusterroles","apiGroup":"rbac.authorization.k8s.io","name":"r"},` +
				`"responseStatus":{"code":403},"annotations":{"authorization.k8s.io/decision":"allow"}}`,
			[]right{{verb: "create", group: "rbac.authorization.k8s.io", resource: "clusterroles"}},
		},
		"a role that was read": {
			`{"verb":"get","objectRef":{"resource":"clusterroles","apiGroup":"rbac.authorization.k8s.io","name":"r"},"responseStatus":{"code":200}}`,
			[]right{{verb: "get", group: "rbac.authorization.k8s.io", resource: "clusterroles", name: "r"}},
		},
		"a binding in a cluster": {
			`{"verb":"create","objectRef":{"resource":"clusterrolebindings","apiGroup":"rbac.authorization.k8s.io"},"responseStatus":{"code":201}}`,
			[]right{
				{verb: "create", group: "rbac.authorization.k8s.io", resource: "clusterrolebindings"},
				{verb: "bind", group: "rbac.authorization.k8s.io", resource: "clusterroles", name: anything},
			},
		},
		"a binding in a namespace": {
			`{"verb":"patch","objectRef":{"resource":"rolebindings","apiGroup":"rbac.authorization.k8s.io","namespace":"n","name":"b"},` +
				`"responseStatus":{"code":200}}`,
			[]right{
				{verb: "patch", group: "rbac.authorization.k8s.io", resource: "rolebindings", namespace: "n", name: "b"},
				{verb: "bind", group: "rbac.authorization.k8s.io", resource: "clusterroles", namespace: "n", name: anything},
				{verb: "bind", group: "rbac.authorization.k8s.io", resource: "roles", namespace: "n", name: anything},
			},
		},
		"an approval": {
			`{"verb":"update","objectRef":{"resource":"certificatesigningrequests","apiGroup":"certificates.k8s.io","subresource":"approval",` +
				`"name":"c"},"responseStatus":{"code":200}}`,
			[]right{
				{verb: "update", group: "certificates.k8s.io", resource: "certificatesigningrequests/approval", name: "c"},
				{verb: "approve", group: "certificates.k8s.io", resource: "signers", name: anything},
			},
		},
		"a signature": {
			`{"verb":"update","objectRef":{"resource":"certificatesigningrequests","apiGroup":"certificates.k8s.io","subresource":"status",` +
				`"name":"c"},"responseStatus":{"code":200}}`,
			[]right{
				{verb: "update", group: "certificates.k8s.io", resource: "certificatesigningrequests/status", name: "c"},
				{verb: "sign", group: "certificates.k8s.io", resource: "signers", name: anything},
			},
		},
		"as a user in a group": {
			`{"verb":"list","objectRef":{"resource":"pods"},"responseStatus":{"code":200},"impersonatedUser":{"username":"alice","groups":["dev"]}}`,
			[]right{
				{verb: "impersonate", resource: "users", name: "alice"},
				{verb: "impersonate", resource: "groups", name: "dev"},
			},
		},
		"as a ServiceAccount": {
			`{"verb":"list","objectRef":{"resource":"pods"},"responseStatus":{"code":200},` +
				`"impersonatedUser":{"username":"system:serviceaccount:n:a"}}`,
			[]right{{verb: "impersonate", resource: "serviceaccounts", namespace: "n", name: "a"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(decodeEvent(g, tc.event).requests()).To(Equal(tc.want))
		})
	}
}

func TestOutcome(t *testing.T) {
	for name, tc := range map[string]struct {
		event string
		want  outcome
	}{
		"success":                     {`{"responseStatus":{"code":200},"annotations":{"authorization.k8s.io/decision":"allow"}}`, "allowed"},
		"not found":                   {`{"responseStatus":{"code":404},"annotations":{"authorization.k8s.io/decision":"allow"}}`, "allowed"},
		"no right":                    {`{"responseStatus":{"code":403},"annotations":{"authorization.k8s.io/decision":"forbid"}}`, "denied"},
		"forbidden by admission":      {`{"responseStatus":{"code":403},"annotations":{"authorization.k8s.io/decision":"allow"}}`, refused},
		"forbidden, without a reason": {`{"responseStatus":{"code":403}}`, "denied"},
		"unknown user":                {`{"responseStatus":{"code":401}}`, "denied"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(decodeEvent(g, tc.event).outcome()).To(Equal(tc.want))
		})
	}
}

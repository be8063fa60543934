package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func twoBinaries() []grant {
	of := func(binary, role string, bound bool, r right) grant {
		return grant{key: key{binary, role, r.String()}, bound: bound, right: r}
	}
	return []grant{
		of("x", "cluster-admin", true, right{verb: "*", group: "*", resource: "*"}),
		of("x", "bound", true, right{verb: "list", resource: "pods"}),
		of("x", "bound", true, right{verb: "watch", resource: "pods"}),
		of("x", "extra", false, right{verb: "list", resource: "nodes"}),
		of("x", "extra", false, right{verb: "list", resource: "pods"}),
		of("managedresource-controller", "gc", false, right{verb: "list", resource: "secrets"}),
	}
}

func listBy(user, resource string) string {
	return `{"verb":"list","user":{"username":"` + user + `"},"objectRef":{"resource":"` + resource + `"},"responseStatus":{"code":200},` +
		`"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: allowed by ClusterRoleBinding \"b\" of ` +
		`ClusterRole \"r\" to ServiceAccount \"a/n\""}}`
}

func read(t *testing.T, lines ...string) *usage {
	t.Helper()
	u := newUsage(twoBinaries())
	NewWithT(t).Expect(readAudit(logOf(t, strings.Join(lines, "\n")+"\n"), u.add)).To(Succeed())
	return u
}

func logOf(t *testing.T, content string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "audit.log")
	NewWithT(t).Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
	return file
}

func TestWhatIsUsed(t *testing.T) {
	const pods, nodes, all = "list pods", "list nodes", "* *.*"
	for name, tc := range map[string]struct {
		user, resource string
		want           []key
	}{
		"by every role that allows it, but no wildcard": {
			"system:serviceaccount:espalier-system:espalier-x", "pods", []key{{"x", "bound", pods}, {"x", "extra", pods}},
		},
		"as it is called in tests": {
			"system:serviceaccount:test-1:x", "pods", []key{{"x", "bound", pods}, {"x", "extra", pods}},
		},
		"by a wildcard, if nothing bound allows it": {
			"system:serviceaccount:espalier-system:espalier-x", "nodes", []key{{"x", "extra", nodes}, {"x", "cluster-admin", all}},
		},
		"by a part of a binary": {
			"system:serviceaccount:test-1:collector", "secrets",
			[]key{{"managedresource-controller", "gc", "list secrets"}},
		},
		"by another account":        {"system:serviceaccount:espalier-system:espalier-y", "pods", nil},
		"by the controller manager": {"system:serviceaccount:kube-system:x", "pods", nil},
		"by a person":               {"espalier-x", "pods", nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			used := map[key]bool{}
			for _, each := range tc.want {
				used[each] = true
			}
			g.Expect(read(t, listBy(tc.user, tc.resource)).used).To(Equal(used))
		})
	}
}

func TestRequestsWithoutRights(t *testing.T) {
	g := NewWithT(t)
	const user = "system:serviceaccount:n:managedresource-controller"
	forbidden := `{"verb":"list","user":{"username":"` + user +
		`"},"objectRef":{"resource":"secrets"},"responseStatus":{"code":403},"annotations":{"authorization.k8s.io/decision":"forbid"}}`
	rejected := `{"verb":"create","user":{"username":"` + user +
		`"},"objectRef":{"resource":"pods","namespace":"n"},"responseStatus":{"code":403},` +
		`"annotations":{"authorization.k8s.io/decision":"allow"}}`
	u := read(t, forbidden, forbidden, rejected, listBy(user, "nodes"))
	g.Expect(u.used).To(BeEmpty())
	const binary = "managedresource-controller"
	g.Expect(u.findings).To(Equal(map[finding]int{
		{binary, denied, "list secrets"}: 2, {binary, refused, "create pods in n"}: 1,
		{binary, outsideRoles, "create pods in n"}: 1, {binary, outsideRoles, "list nodes by ClusterRole r"}: 1,
	}))

	var out strings.Builder
	u.print(&out, "e2e")
	g.Expect(out.String()).To(Equal(`e2e: x has used 0 of 5 rights
e2e: managedresource-controller has used 0 of 1 rights
  denied: list secrets (2)
  refused after authorization: create pods in n (1)
  allowed by no role of the binary: create pods in n (1)
  allowed by no role of the binary: list nodes by ClusterRole r (1)
`))
}

func TestAnAuditLog(t *testing.T) {
	const whole = `{"verb":"get","user":{"username":"system:serviceaccount:a:b"}}`
	for name, tc := range map[string]struct {
		log   string
		count int
		err   string
	}{
		"nothing":                   {"", 0, ""},
		"two":                       {whole + "\n" + whole + "\n", 2, ""},
		"one that is being written": {whole + "\n" + whole[:40], 1, ""},
		"people":                    {`{"verb":"get","user":{"username":"alice"}}` + "\n", 0, ""},
		"no JSON":                   {whole + "\n" + `"system:serviceaccount:` + "\n", 1, "read audit log, line 2: "},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			count := 0
			err := readAudit(logOf(t, tc.log), func(event) { count++ })
			g.Expect(count).To(Equal(tc.count))
			if tc.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(HavePrefix(tc.err)))
			}
		})
	}
}

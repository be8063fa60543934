package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestArguments(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		err  string
	}{
		"a suite without a command": {[]string{"-record", "x"}, "-record and a command need each other: -record suite -- COMMAND"},
		"a command without a suite": {[]string{"--", "true"}, "-record and a command need each other: -record suite -- COMMAND"},
		"a check that adds":         {[]string{"-check", "-audit", "x"}, "-check changes nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(tc.args)
			NewWithT(t).Expect(err).To(MatchError(tc.err))
		})
	}
}

// tree creates a repository with one binary and two rights.
func tree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range map[string]string{
		"deploy/x/rbac/role.yaml": "kind: ClusterRole\nmetadata: {name: espalier-x}\nrules: [{apiGroups: [''], resources: [pods], " +
			"verbs: [list, watch]}]\n",
		"deploy/x/base/binding.yaml": "kind: ClusterRoleBinding\nroleRef: {kind: ClusterRole, name: espalier-x}\nsubjects: [{kind: " +
			"ServiceAccount, name: espalier-x, namespace: espalier-system}]\n",
		"test/rights/reasons.yaml": "x: {espalier-x: {watch pods: They come late.}}\n",
		"docs/reference/.gitkeep":  "",
		"audit.log":                listBy("system:serviceaccount:espalier-system:espalier-x", "pods") + "\n",
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		NewWithT(t).Expect(os.MkdirAll(filepath.Dir(file), 0o700)).To(Succeed())
		NewWithT(t).Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
	}
	return root
}

func TestAnAuditLogIsKeptAndTheTableFollows(t *testing.T) {
	g := NewWithT(t)
	root := tree(t)
	g.Expect(run(t.Context(), root, options{audit: []string{filepath.Join(root, "audit.log")}}, io.Discard)).To(Succeed())
	g.Expect(readEntries[[]string](filepath.Join(root, "test", "rights", "used.yaml"))).
		To(Equal(entries[[]string]{{"x", "espalier-x", "list pods"}: {"e2e"}}))
	g.Expect(run(t.Context(), root, options{check: true}, io.Discard)).To(Succeed())

	page := filepath.Join(root, "docs", "reference", "rights.md")
	g.Expect(os.WriteFile(page, []byte("something else"), 0o600)).To(Succeed())
	g.Expect(run(t.Context(), root, options{check: true}, io.Discard)).
		To(MatchError("docs/reference/rights.md is not current: run make generate"))
	g.Expect(run(t.Context(), root, options{}, io.Discard)).To(Succeed())
	g.Expect(run(t.Context(), root, options{check: true}, io.Discard)).To(Succeed())
	g.Expect(os.ReadFile(page)).To(ContainSubstring("| [x](#x) | 2 | 1 | 1 |"))
}

func TestReasonsAreTidied(t *testing.T) {
	g := NewWithT(t)
	root := tree(t)
	file := filepath.Join(root, "test", "rights", "reasons.yaml")
	g.Expect(os.WriteFile(file, []byte("x: {espalier-x: {watch pods: Late., list pods: Rare., get pods: Never.}}\n"), 0o600)).To(Succeed())
	g.Expect(run(t.Context(), root, options{audit: []string{filepath.Join(root, "audit.log")}}, io.Discard)).To(Succeed())
	g.Expect(run(t.Context(), root, options{check: true}, io.Discard)).To(MatchError(
		`x: espalier-x: "get pods" is in reasons.yaml and is not granted` + "\n" +
			`x: espalier-x: "list pods" is used, so that its reason is not needed: remove it from reasons.yaml`))

	g.Expect(run(t.Context(), root, options{tidy: true}, io.Discard)).To(Succeed())
	g.Expect(readEntries[string](file)).To(Equal(entries[string]{{"x", "espalier-x", "watch pods"}: "Late."}))
	g.Expect(run(t.Context(), root, options{check: true}, io.Discard)).To(Succeed())
}

func TestASuiteIsForgotten(t *testing.T) {
	g := NewWithT(t)
	root := tree(t)
	log := filepath.Join(root, "audit.log")
	g.Expect(run(t.Context(), root, options{audit: []string{"one=" + log, "two=" + log}}, io.Discard)).To(Succeed())
	g.Expect(os.WriteFile(log, nil, 0o600)).To(Succeed())
	g.Expect(run(t.Context(), root, options{audit: []string{"one=" + log}, forget: true}, io.Discard)).To(Succeed())
	g.Expect(readEntries[[]string](filepath.Join(root, "test", "rights", "used.yaml"))).
		To(Equal(entries[[]string]{{"x", "espalier-x", "list pods"}: {"two"}}))
}

func TestACommandsAPIServersKeepLogs(t *testing.T) {
	g := NewWithT(t)
	root := tree(t)
	// This command logs a request of the binary, as an API server does, if its API servers get the argument --more.
	script := "for each in $ESPALIER_API_SERVER_ARGS; do case $each in --more) more=yes;; --audit-log-path=*) log=${each#*=};; esac; done; " +
		"[ \"$more\" = yes ] && cp " + filepath.Join(root, "audit.log") + " \"$log\"; exit 3"
	o := options{record: "internal/x", command: []string{"/bin/sh", "-c", script}, serverArgs: []string{"--more"}}
	err := run(t.Context(), root, o, io.Discard)
	g.Expect(err).To(MatchError(ContainSubstring("exit status 3")), "the command's own failure is reported")
	g.Expect(readEntries[[]string](filepath.Join(root, "test", "rights", "used.yaml"))).
		To(Equal(entries[[]string]{{"x", "espalier-x", "list pods"}: {"internal/x"}}))
}

func TestACommandThatStartsNoAPIServer(t *testing.T) {
	g := NewWithT(t)
	err := run(t.Context(), tree(t), options{record: "internal/x", command: []string{"true"}}, io.Discard)
	g.Expect(err).To(MatchError("the command has started no API server"))
}

func TestArgumentsOfAPIServersContainNoBlanks(t *testing.T) {
	o := options{record: "internal/x", command: []string{"true"}, serverArgs: []string{"--more than one"}}
	NewWithT(t).Expect(run(t.Context(), tree(t), o, io.Discard)).
		To(MatchError(`pass "--more than one" to API servers: arguments are separated by blanks, so none may contain one`))
}

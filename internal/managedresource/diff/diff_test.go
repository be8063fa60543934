package diff_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managedresource/diff"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/test/local"
)

// asBinary makes the test binary run as the real binary.
const asBinary = "ESPALIER_TEST_AS_BINARY"

func TestMain(m *testing.M) {
	if os.Getenv(asBinary) != "" {
		os.Exit(process.Main(nil, diff.Command(process.Program{Name: "managedresource-controller"}, os.Stdin)))
	}
	os.Exit(m.Run())
}

// result is the output and the exit code of the subcommand.
type result struct {
	code     int
	out, err string
}

// invoke runs the command with a kubeconfig and an input.
func invoke(t *testing.T, kubeconfig []byte, in string, args ...string) result {
	t.Helper()
	g := NewWithT(t)
	var out, errs bytes.Buffer
	command := exec.CommandContext(t.Context(), os.Args[0], append([]string{"diff"}, args...)...)
	command.Env = append(os.Environ(), asBinary+"=yes", "KUBECONFIG="+write(t, "kubeconfig", string(kubeconfig)))
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(in), &out, &errs
	err := command.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); !ended {
		g.Expect(err).NotTo(HaveOccurred())
	}
	return result{command.ProcessState.ExitCode(), out.String(), errs.String()}
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	NewWithT(t).Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
	return file
}

func servers(t *testing.T) local.Servers {
	t.Helper()
	found, err := local.ForTests()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return found
}

// fileOf returns a file with a ManagedResource and its Secret.
func fileOf(e *Env, documents ...string) string {
	indented := strings.ReplaceAll("\n"+strings.Join(documents, "\n---\n"), "\n", "\n    ")
	return fmt.Sprintf(`apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: v1
kind: Secret
metadata: {name: mr, namespace: %[1]s}
stringData:
  objects.yaml: |%[2]s
---
apiVersion: resources.gardener.cloud/v1alpha1
kind: ManagedResource
metadata: {name: mr, namespace: %[1]s}
spec:
  secretRefs:
  - name: mr
`, e.Namespace, indented)
}

func login(e *Env, password string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: login, namespace: %s}\nstringData: {password: %s}\n", e.Namespace,
		password)
}

// The plan of a set before it exists, after it was applied from the file, and after the file has changed.
func TestASetFromItsFirstPlanToItsNextVersion(t *testing.T) {
	t.Parallel()
	e, admin := New(t, Options{}), servers(t).Source.Kubeconfig
	first := fileOf(e, e.ConfigMap("one", "1"), e.ConfigMap("gone", "1"), login(e, "hunter2"))
	got := invoke(t, admin, first, "-f", "-")
	e.Expect(got).To(Equal(result{code: 1, out: fmt.Sprintf(`Plan for ManagedResource %[1]s/mr
3 to create
! not looked at, since it is in the file but in no set: document 0, Namespace %[1]s

create v1 Secret %[1]s/login

create v1 ConfigMap %[1]s/gone

create v1 ConfigMap %[1]s/one
`, e.Namespace)}))
	e.Expect(e.LiveConfigMap("one")).To(BeNil())

	e.Set("mr", e.ConfigMap("one", "1")+"\n---\n"+e.ConfigMap("gone", "1")+"\n---\n"+login(e, "hunter2"))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	got = invoke(t, admin, "", "-f", write(t, "file.yaml", first))
	e.Expect(got).To(Equal(result{out: fmt.Sprintf("Plan for ManagedResource %[1]s/mr (generation 1)\nnothing would change: 3 unchanged\n"+
		"! not looked at, since it is in the file but in no set: document 0, Namespace %[1]s\n", e.Namespace)}))

	second := fileOf(e, e.ConfigMap("one", "2"), login(e, "hunter22"))
	got = invoke(t, admin, second, "-f", "-")
	e.Expect(got).To(Equal(result{code: 1, out: fmt.Sprintf(`Plan for ManagedResource %[1]s/mr (generation 1)
2 to change, 1 to delete
! not looked at, since it is in the file but in no set: document 0, Namespace %[1]s

delete v1 ConfigMap %[1]s/gone

change v1 Secret %[1]s/login
  ~ data.password: changed (7 bytes → 8 bytes)

change v1 ConfigMap %[1]s/one
  - data.key: "1"
  + data.key: "2"
`, e.Namespace)}))
	e.Expect(e.LiveConfigMap("one").Data).To(HaveKeyWithValue("key", "1"))
	e.Expect(e.LiveConfigMap("gone")).NotTo(BeNil())

	// Plain manifests replace the whole content of the set in the plan.
	got = invoke(t, admin, e.ConfigMap("one", "2"), "-f", "-", "--name", e.Namespace+"/mr", "--output", "json")
	e.Expect(got.code).To(Equal(1), got.err)
	var decoded struct {
		Counts  map[string]int
		Objects []struct{ Action, Name string }
	}
	e.Expect(json.Unmarshal([]byte(got.out), &decoded)).To(Succeed())
	e.Expect(decoded.Objects).To(Equal([]struct{ Action, Name string }{{"delete", "gone"}, {"delete", "login"}, {"change", "one"}}))

	// The Secret is read from the source if it is not in the file.
	onlySet := second[strings.LastIndex(second, "---\n"):]
	e.Expect(invoke(t, admin, onlySet, "-f", "-").out).To(ContainSubstring("nothing would change: 3 unchanged"))
}

func TestPlainManifestsNeedNoCRD(t *testing.T) {
	t.Parallel()
	g, target := NewWithT(t), servers(t).Target
	got := invoke(t, target.Kubeconfig, "", "-f", write(t, "plain.yaml", `apiVersion: v1
kind: Namespace
metadata: {name: diff-of-plain-manifests}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: diff-of-plain-manifests}
`))
	g.Expect(got).To(Equal(result{code: 1, out: `Plan for ManagedResource default/diff
2 to create; 1 of these not confirmed by the API server

create v1 Namespace diff-of-plain-manifests

create v1 ConfigMap diff-of-plain-manifests/a
  # not confirmed: its namespace is created by the set itself
`}))
	c, err := client.New(target.Config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	err = c.Get(t.Context(), client.ObjectKey{Name: "diff-of-plain-manifests"}, &corev1.Namespace{})
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
}

func TestTheExitCodeIsTwoIfAnActionWouldFail(t *testing.T) {
	t.Parallel()
	e, admin := New(t, Options{Stopped: true}), servers(t).Source.Kubeconfig
	got := invoke(t, admin, e.ConfigMap("one", "1")+"---\napiVersion: no.such/v1\nkind: Thing\nmetadata: {name: x}\n", "-f", "-")
	e.Expect(got.code).To(Equal(2))
	e.Expect(got.out).To(ContainSubstring("1 to create, 1 refused\n"))
	e.Expect(got.err).To(Equal("Error: something would fail or is unknown; see the plan\n"))

	got = invoke(t, admin, fileOf(e, e.ConfigMap("one", "1"), "foo: [1"), "-f", "-")
	e.Expect(got.code).To(Equal(2))
	e.Expect(got.out).To(ContainSubstring(fmt.Sprintf("! Could not decode resource at index 1 in 'objects.yaml' in secret '%s/mr'",
		e.Namespace)))

	other := strings.ReplaceAll(fileOf(e), "name: mr", "name: missing")
	got = invoke(t, admin, other[strings.LastIndex(other, "---\n"):], "-f", "-")
	e.Expect(got.code).To(Equal(2))
	e.Expect(got.out).To(ContainSubstring(fmt.Sprintf("nothing would be done: could not read secret '%s/missing'", e.Namespace)))
}

// A user with read access only gets a plan too.
func TestForbiddenDryRunsAreReported(t *testing.T) {
	t.Parallel()
	e, source := New(t, Options{}), servers(t).Source
	e.Set("mr", e.ConfigMap("one", "1"), e.ConfigMap("same", "1"))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	kubeconfig := readerOf(e, source)

	got := invoke(t, kubeconfig, fileOf(e, e.ConfigMap("one", "2"), e.ConfigMap("same", "1"), e.ConfigMap("two", "1")), "-f", "-")
	e.Expect(got.err).To(BeEmpty())
	e.Expect(got.code).To(Equal(1))
	e.Expect(got.out).To(ContainSubstring("1 to create, 1 to change, 1 unchanged; 3 of these not confirmed by the API server\n"))
	e.Expect(got.out).To(ContainSubstring("  - data.key: \"1\"\n  + data.key: \"2\"\n"))
	e.Expect(got.out).To(MatchRegexp(`# not confirmed: configmaps "one" is forbidden: User .* cannot update resource`))
	e.Expect(got.out).To(MatchRegexp(`unchanged v1 ConfigMap \S+/same\n  # not confirmed: configmaps "same" is forbidden: User .* cannot ` +
		`update resource`))
}

// readerOf returns a kubeconfig whose user may get ConfigMaps and ManagedResources of the namespace, and nothing else.
func readerOf(e *Env, source local.Server) []byte {
	e.T.Helper()
	e.Expect(e.Source.Create(e.Ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "reader"}})).
		To(Succeed())
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "reader"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", "resources.gardener.cloud"}, Resources: []string{"configmaps", "managedresources"}, Verbs: []string{"get"}},
	}}
	e.Expect(e.Source.Create(e.Ctx, role)).To(Succeed())
	e.Expect(e.Source.Create(e.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "reader"}, RoleRef: rbacv1.RoleRef{
			APIGroup: "rbac.authorization.k8s.io",
			Kind:     "Role", Name: "reader",
		},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: e.Namespace, Name: "reader"}},
	})).To(Succeed())
	kubeconfig, err := local.ServiceAccountKubeconfig(e.Ctx, source.Config, e.Namespace, "reader", time.Hour)
	e.Expect(err).NotTo(HaveOccurred())
	return kubeconfig
}

// If the plan of one set fails, the plans of the others are printed.
func TestEarlierPlansArePrintedIfALaterSetFails(t *testing.T) {
	t.Parallel()
	e, source := New(t, Options{Stopped: true}), servers(t).Source
	other := fileOf(e)
	file := fileOf(e, e.ConfigMap("one", "1")) + strings.ReplaceAll(other[strings.LastIndex(other, "---\n"):], "name: mr",
		"name: not-in-the-file")
	got := invoke(t, readerOf(e, source), file, "-f", "-")
	e.Expect(got.code).To(Equal(2))
	e.Expect(got.out).To(ContainSubstring(fmt.Sprintf("Plan for ManagedResource %s/mr\n1 to create", e.Namespace)))
	e.Expect(got.err).To(HavePrefix(fmt.Sprintf("Error: plan ManagedResource %[1]s/not-in-the-file: could not read secret "+
		"'%[1]s/not-in-the-file': secrets \"not-in-the-file\" is forbidden", e.Namespace)))
}

// The deletion or suspension of a whole set is reported once for the set, and not as changes of single objects.
func TestTheDeletionOrSuspensionOfASetIsReported(t *testing.T) {
	t.Parallel()
	e, admin := New(t, Options{}), servers(t).Source.Kubeconfig
	e.Set("mr", e.ConfigMap("one", "1"))
	e.AwaitApplied("mr", "True/ApplySucceeded")
	file := fileOf(e, e.ConfigMap("one", "1"))
	got := invoke(t, admin, strings.Replace(file, "spec:\n", "spec:\n  class: other\n", 1), "-f", "-")
	e.Expect(got.code).To(Equal(1), got.err)
	e.Expect(got.out).To(ContainSubstring("1 to delete\n! the set would be handed over to another class\n"))
	got = invoke(t, admin, strings.Replace(file, "spec:\n", "spec:\n  class: other\n  keepObjects: true\n", 1), "-f", "-")
	e.Expect(got.out).To(ContainSubstring("nothing would change: 1 kept\n! the set would be handed over to another class\n"))
	got = invoke(t, admin, strings.Replace(strings.ReplaceAll(file, "name: mr", "name: new"), "spec:\n", "spec:\n  class: other\n", 1), "-f",
		"-")
	e.Expect(got.code).To(Equal(2))
	e.Expect(got.out).To(ContainSubstring(`nothing would be done: the set is of class "other", and this is about the controller of class ` +
		`"resources"`))

	e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Annotations = map[string]string{"resources.gardener.cloud/ignore": "true"}
	})
	got = invoke(t, admin, file, "-f", "-")
	e.Expect(got.code).To(Equal(2))
	e.Expect(got.out).To(ContainSubstring("nothing would be done: the set is ignored: it has the annotation " +
		"resources.gardener.cloud/ignore\n"))
	got = invoke(t, admin, e.ConfigMap("one", "2"), "-f", "-", "--name", e.Namespace+"/mr")
	e.Expect(got.out).To(ContainSubstring("nothing would be done: the set is ignored"))

	e.AwaitApplied("mr", "True/ManagedResourceIgnored")
	e.Stop()
	e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Annotations = nil })
	e.Delete("mr")
	got = invoke(t, admin, file, "-f", "-")
	e.Expect(got.code).To(Equal(1), got.err)
	e.Expect(got.out).To(ContainSubstring("1 to delete\n! the set is being deleted\n"))
	e.Start()
	e.AwaitGone("mr")
}

func TestTheConfigurationNamesTheClusters(t *testing.T) {
	t.Parallel()
	e, both := New(t, Options{Stopped: true, TwoClusters: true}), servers(t)
	e.Secret("mr", e.ConfigMap("one", "1"))
	e.Create(e.ConfigMap("one", "0"))
	config := write(t, "config.yaml", fmt.Sprintf(`apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
sourceClientConnection: {kubeconfig: %q}
targetClientConnection: {kubeconfig: %q}
leaderElection: {leaderElect: false}
espalier: {managedResource: {namespaces: {clusterScoped: false}}}
`, write(t, "source", string(both.Source.Kubeconfig)), write(t, "target", string(both.Target.Kubeconfig))))
	file := fileOf(e, e.ConfigMap("one", "1"), "apiVersion: v1\nkind: Namespace\nmetadata: {name: more}")
	unusable := []byte("apiVersion: v1\nkind: Config\n") // the shell's kubeconfig, which must not be used
	got := invoke(t, unusable, file, "-f", "-", "--config", config)
	e.Expect(got.out).To(ContainSubstring("1 to adopt, 1 refused\n"), got.err)
	e.Expect(got.out).To(ContainSubstring("  + data.key: \"1\"\n"))
	e.Expect(got.out).To(ContainSubstring("sets may not contain cluster-scoped objects"))

	got = invoke(t, both.Source.Kubeconfig, file, "-f", "-", "--config", write(t, "config.yaml", "kind: x"))
	e.Expect(got.code).To(Equal(2))
	e.Expect(got.err).To(ContainSubstring("error decoding config"))
}

func TestMistakesAreReported(t *testing.T) {
	t.Parallel()
	broken := write(t, "broken.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\nfoo: [1, 2\n")
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a broken document": {args: []string{"-f", broken}, want: "Error: read " + broken +
			": document 1: invalid YAML at line 1: did not find expected \",\" or \"]\"\n"},
		"no file": {want: "Error: parse command line: name a file with -f; see managedresource-controller diff --help\n"},
		"a file that is not": {
			args: []string{"-f", "/no/such/file"},
			want: "Error: read file: open /no/such/file: no such file or directory\n",
		},
		"an unknown flag": {
			args: []string{"--force"},
			want: "Error: parse command line: unknown flag: --force; see managedresource-controller diff --help\n",
		},
		"an argument": {
			args: []string{"-f", "-", "x"},
			want: "Error: parse command line: unexpected argument \"x\"; only flags are taken; see managedresource-controller diff --help\n",
		},
		"an unknown format": {
			args: []string{"-f", "-", "-o", "yaml"},
			want: "Error: parse command line: --output must be text or json, not \"yaml\"; see managedresource-controller diff --help\n",
		},
		"a name without slash": {
			args: []string{"-f", "-", "--name", "x"},
			want: "Error: parse command line: --name must be like namespace/name, not \"x\"; see managedresource-controller diff --help\n",
		},
		"nothing to read": {args: []string{"-f", "-"}, want: "Error: read standard input: it holds no objects\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			NewWithT(t).Expect(invoke(t, nil, "", tc.args...)).To(Equal(result{code: 2, err: tc.want}))
		})
	}
}

func TestHelpIsPrinted(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	got := invoke(t, nil, "", "--help")
	g.Expect(got.code).To(BeZero())
	g.Expect(got.out).To(And(ContainSubstring("managedresource-controller diff -f FILE"), ContainSubstring("Exit codes:")))
}

func TestAnUnreachableClusterIsReported(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	got := invoke(t, []byte("apiVersion: v1\nkind: Config\n"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "-f", "-")
	g.Expect(got.code).To(Equal(2))
	g.Expect(got.err).To(HavePrefix("Error: find the cluster of the user: "))
	g.Expect(got.err).To(ContainSubstring("set KUBECONFIG"))
}

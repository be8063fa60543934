package kubectl_test

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/plan"
	"github.com/espalier-dev/espalier/internal/kubectl"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

var update = flag.Bool("update", false, "write the screens into docs/kubectl-espalier.md")

// password is the value of a Secret. No command may print it.
const password = "swordfish"

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }

// question is a question of a user, and the command that answers it.
type question struct {
	asks, command string
	// screen is the name of the screen in the documentation; empty if the documentation does not show this screen.
	screen string
	// answers are texts that the answer contains.
	answers []string
	code    int
}

// TestReaders shares one namespace with sets between tests that change nothing. The user has the shipped role. At the end, an administrator
// pauses and resumes a set. The screens in the documentation are the answers.
func TestReaders(t *testing.T) {
	e := prepare(t)
	viewer := e.user("viewer", "")
	screens := map[string]string{}
	for name, test := range map[string]func(*testing.T, env, user){
		"each question has a command": func(t *testing.T, _ env, viewer user) {
			t.Helper()
			eachQuestionHasACommand(t, viewer, screens)
		},
		"rights in one namespace are enough":  rightsInOneNamespaceAreEnough,
		"the role allows no write, no Secret": theRoleAllowsNoWriteAndNoSecret,
		"the target may be another cluster":   theTargetMayBeAnotherCluster,
		"shells complete the names of sets":   shellsCompleteSets,
		"mistakes are explained":              mistakesAreExplained,
	} {
		t.Run(name, func(t *testing.T) { test(t, env{e.Within(t)}, viewer) })
	}
	admin := user{e, binary.WriteKubeconfig(t, e.Servers.Source.Kubeconfig)}
	for _, each := range []string{"pause", "resume"} {
		command := each + " cart -n team-shops"
		out, code := admin.ask(command)
		e.Expect(code).To(BeZero(), out)
		screens[each] = screen(command, out)
		if each == "pause" {
			for _, condition := range []string{"ResourcesApplied", "ResourcesHealthy", "ResourcesProgressing"} {
				e.Eventually(func() string { return Condition(e.Get("cart"), condition) }).WithTimeout(Patience).
					Should(HaveSuffix("/ManagedResourceIgnored"))
			}
		}
	}
	binary.CheckScreens(t, "kubectl-espalier.md", *update, screens)
}

// screen returns the output of a command as the documentation shows it.
func screen(command, out string) string {
	out = checksum.ReplaceAllString(out, fmt.Sprintf("%x", sha256.Sum256(nil)))
	return "$ kubectl espalier " + command + "\n" + confirmation.ReplaceAllString(out, "e3b0c442-98fc1c149afbf4c8996fb92427ae41e4")
}

// eachQuestionHasACommand asks all questions, and adds the screens of the documentation to screens.
func eachQuestionHasACommand(t *testing.T, viewer user, screens map[string]string) {
	t.Helper()
	for _, q := range questions() {
		t.Run(q.asks, func(t *testing.T) {
			g := NewWithT(t)
			out, code := viewer.ask(q.command)
			g.Expect(code).To(Equal(q.code), out)
			for _, answer := range q.answers {
				g.Expect(out).To(ContainSubstring(answer))
			}
			g.Expect(out).NotTo(ContainSubstring(password))
			if q.screen != "" {
				screens[q.screen] = screen(q.command, out)
			}
			for _, format := range []string{"json", "yaml", "wide"} {
				if q.code != 0 {
					break
				}
				out, code = viewer.ask(q.command + " -o " + format)
				g.Expect(code).To(Equal(q.code), out)
				g.Expect(out).NotTo(Or(ContainSubstring(password), ContainSubstring("c3dvcmRmaXNo"))) // as text, and in base64
			}
		})
	}
}

func questions() []question {
	return []question{
		{
			asks: "Which sets have a problem?", command: "status -n team-shops", screen: "status",
			answers: []string{"team-shops/db      Failed", "CannotReadSecret", "team-shops/web     Unhealthy"},
		},
		{
			asks: "Which object of the set is not healthy?", command: "tree web -n team-shops", screen: "tree",
			answers: []string{"ConfigMap team-shops/settings", "Deployment team-shops/web", "MinimumReplicasUnavailable"},
		},
		{
			asks: "May I delete this set?", command: "tree web -n team-shops",
			answers: []string{"on deletion:     all objects are deleted: 3", "needed by:       team-shops/shop"},
		},
		{
			asks: "What does the set wait for?", command: "status shop -n team-shops -o wide",
			answers: []string{"Applying", `waits for ManagedResource "team-shops/web", which is not applied and healthy`},
		},
		{
			asks: "Why is this ConfigMap changing back?", command: "why configmap settings -n team-shops", screen: "why",
			answers: []string{"team-shops/web", "undone at once", `changed by "kubectl-edit"`, "Secret web", "pause web"},
		},
		{
			asks: "Who owns this Deployment?", command: "trace deploy/web -n team-shops", screen: "trace",
			answers: []string{"team-shops/web, Unhealthy", "undone at once"},
		},
		{
			asks: "What would my change do?", command: "plan next -n team-shops", screen: "plan",
			answers: []string{"2 to create", "create v1 ConfigMap team-shops/next", "create v1 Secret team-shops/token"},
		},
		{
			asks: "How is exactly this applied, and nothing else?", command: "approve next -n team-shops", screen: "approve",
			answers: []string{"create v1 ConfigMap team-shops/next", "to approve:      kubectl espalier approve next "},
		},
		{
			asks: "What has happened?", command: "events web -n team-shops", screen: "events",
			answers: []string{"DriftRepaired", `Restored v1 ConfigMap team-shops/settings, changed by "kubectl-edit"`},
		},
		{
			asks: "Is my change applied?", command: "wait web --for applied -n team-shops", screen: "wait",
			answers: []string{"Unhealthy: DeploymentUnhealthy"},
		},
		{
			asks: "When was this last applied, and what was changed since?", command: "history cart -n team-shops", screen: "history",
			answers: []string{"Created", "ResourcesApplied", "became True: ApplySucceeded", "DriftRepaired"},
		},
		{
			asks: "Why does this other ConfigMap stay as I write it?", command: "why cm held -n team-shops", screen: "why-paused",
			answers: []string{"stay until the set is resumed", "resume held -n team-shops", "kubectl-edit (Update), 24h ago: data.key"},
		},
		{
			asks: "What does the Garden wait for?", command: "garden tasks", screen: "garden-tasks",
			answers: []string{"1 of 3 tasks done", "the StatefulSet has 1 of 3 ready Pods"},
		},
		{
			asks: "What would be deleted if I confirm?", command: "confirm stock -n team-shops", screen: "confirm",
			answers: []string{
				"the sources no longer contain 3 objects", "ConfigMap team-shops/blue", "to confirm:      kubectl espalier confirm stock ",
			},
		},
		{
			asks: "How is the Garden?", command: "garden status", screen: "garden-status",
			answers: []string{"Reconcile Processing, 33 %, 1 of 3 tasks", "VirtualGardenAPIServerAvailable"},
		},
		{
			asks: "Will it become healthy in time?", command: "wait web --for healthy --timeout 3s -n team-shops",
			answers: []string{"time limit reached", "DeploymentUnhealthy"}, code: 2,
		},
		{
			asks: "Where is the plan of a set that has none?", command: "plan web -n team-shops",
			answers: []string{"team-shops/web", "espalier.dev/plan=true"}, code: 1,
		},
		{
			asks: "What if the name is wrong?", command: "tree wed -n team-shops",
			answers: []string{"read ManagedResource team-shops/wed", "not found", "status -A"}, code: 1,
		},
		{
			asks: "May the reader pause?", command: "pause web -n team-shops",
			answers: []string{"resources.gardener.cloud/ignore of ManagedResource team-shops/web", "forbidden", "verb patch"}, code: 1,
		},
		{
			asks: "What if no set has the object?", command: "why sa viewer -n team-shops",
			answers: []string{"no set that you may read has the object"},
		},
	}
}

// TestWriters pauses, resumes and approves sets with the rights of an administrator.
func TestWriters(t *testing.T) {
	e := prepare(t)
	admin := user{e, binary.WriteKubeconfig(t, e.Servers.Source.Kubeconfig)}

	out, code := admin.ask("pause web -n team-shops")
	e.Expect(code).To(BeZero(), out)
	e.Expect(out).To(ContainSubstring("team-shops/web: Paused\n  problem:         annotation resources.gardener.cloud/ignore=true"))
	e.AwaitCondition("web", "ResourcesApplied", "True/ManagedResourceIgnored")
	e.Edit("settings", `{"data":{"key":"mine"}}`)
	out, _ = admin.ask("why configmap settings -n team-shops")
	e.Expect(out).To(ContainSubstring("stay until the set is resumed"))

	out, code = admin.ask("resume web -n team-shops")
	e.Expect(code).To(BeZero(), out)
	e.AwaitData("settings", "one")
	out, code = admin.ask("wait web -n team-shops --for applied")
	e.Expect(code).To(BeZero(), out)

	approveContent(t, e, admin)
}

// approveContent approves the content of a plan, but no content that the user has not seen.
func approveContent(t *testing.T, e env, admin user) {
	t.Helper()
	shown := func() string {
		out, code := admin.ask("approve next -n team-shops")
		e.Expect(code).To(BeZero(), out)
		_, command, found := strings.Cut(out, "to approve:      kubectl espalier ")
		e.Expect(found).To(BeTrue(), out)
		return command
	}
	old := shown()
	e.Secret("next", e.ConfigMap("next", "two"))
	e.Eventually(shown).WithTimeout(Patience).ShouldNot(Equal(old))
	out, code := admin.ask(old)
	e.Expect(code).To(Equal(1))
	e.Expect(out).To(ContainSubstring("is not that of the plan of ManagedResource team-shops/next"))
	e.Expect(e.LiveConfigMap("next")).To(BeNil())

	out, code = admin.ask(shown())
	e.Expect(code).To(BeZero(), out)
	e.Expect(out).To(ContainSubstring("approved:        the content with checksum "))
	e.AwaitData("next", "two")
	e.AwaitApplied("next", "True/ApplySucceeded")
	e.Secret("next", e.ConfigMap("next", "three"))
	e.Eventually(func() int { _, code := admin.ask("approve next -n team-shops"); return code }).WithTimeout(Patience).Should(BeZero())
	out, _ = admin.ask("status next -n team-shops")
	e.Expect(out).To(ContainSubstring("the content of the sources is not approved"))
	e.Expect(e.LiveConfigMap("next").Data).To(HaveKeyWithValue("key", "two"))
}

// TestConfirm empties a Secret of a set, and confirms the deletion that the controller has suspended.
func TestConfirm(t *testing.T) {
	e := env{New(t, Options{Config: "espalier: {managedResource: {deletionLimit: {objects: 1}}}"})}
	admin := user{e, binary.WriteKubeconfig(t, e.Servers.Source.Kubeconfig)}
	e.Set("cart", e.ConfigMap("red", "one"), e.ConfigMap("green", "one"), e.ConfigMap("blue", "one"))
	e.AwaitApplied("cart", "True/ApplySucceeded")
	out, code := admin.ask("confirm cart -n team-shops")
	e.Expect(code).To(Equal(1))
	e.Expect(out).To(ContainSubstring("ManagedResource team-shops/cart has no suspended deletion"))

	e.Secret("cart")
	e.AwaitCondition("cart", "ResourcesApplied", "False/PruningSuspended")
	out, code = admin.ask("confirm cart -n team-shops")
	e.Expect(code).To(BeZero(), out)
	e.Expect(out).To(ContainSubstring("ConfigMap"))
	_, command, found := strings.Cut(out, "to confirm:      kubectl espalier ")
	e.Expect(found).To(BeTrue(), out)
	out, code = admin.ask("confirm cart 12ab -n team-shops")
	e.Expect(code).To(Equal(1))
	e.Expect(out).To(ContainSubstring(`checksum "12ab" is not that of the suspended deletion of ManagedResource team-shops/cart`))
	e.Expect(e.LiveConfigMap("red")).NotTo(BeNil())

	out, code = admin.ask(command)
	e.Expect(code).To(BeZero(), out)
	e.AwaitApplied("cart", "True/ApplySucceeded")
	e.Expect(e.LiveConfigMap("red")).To(BeNil())
}

// TestWaitEndsWithTheDeletion waits until a set is gone.
func TestWaitEndsWithTheDeletion(t *testing.T) {
	e := prepare(t)
	viewer := e.user("viewer", "")
	done := make(chan string)
	go func() {
		out, code := viewer.ask("wait web -n team-shops --for deleted")
		done <- fmt.Sprintf("%d %s", code, out)
	}()
	e.Expect(e.Source.Delete(e.Ctx, e.Get("web"))).To(Succeed())
	e.Eventually(done).WithTimeout(Patience).Should(Receive(And(HavePrefix("0 "), HaveSuffix("ManagedResource team-shops/web: deleted\n"))))
}

// rightsInOneNamespaceAreEnough binds the shipped role in one namespace only.
func rightsInOneNamespaceAreEnough(t *testing.T, e env, _ user) {
	t.Helper()
	member := e.user("member", e.Namespace)
	for command, want := range map[string]string{
		"status -n team-shops":                 "team-shops/web",
		"why cm settings -n team-shops":        "sets of namespaces other than team-shops: you may not list them",
		"tree cart -n team-shops":              "not read:        sets of namespaces other than team-shops: you may not list them",
		"tree web -n team-shops":               "Secret team-shops/login         Unreadable   you may not read it",
		"wait web -n team-shops --for applied": "Unhealthy",
	} {
		out, code := member.ask(command)
		e.Expect(code).To(BeZero(), out)
		e.Expect(out).To(ContainSubstring(want))
	}
	for _, command := range []string{"status -A", "events -A", "garden status"} {
		out, code := member.ask(command)
		e.Expect(code).To(Equal(1))
		e.Expect(out).To(And(ContainSubstring("forbidden"), ContainSubstring("ClusterRole espalier-view (deploy/kubectl-espalier)")))
	}
}

// theRoleAllowsNoWriteAndNoSecret asks the authorizer of the API server about each verb and resource that matters.
func theRoleAllowsNoWriteAndNoSecret(t *testing.T, e env, _ user) {
	t.Helper()
	resources := map[string][]string{
		"": {
			"configmaps", "events", "namespaces", "nodes", "pods", "pods/exec", "secrets", "serviceaccounts", "serviceaccounts/token", "services",
			"users",
		},
		"apps":                      {"daemonsets", "deployments", "deployments/scale", "replicasets", "statefulsets"},
		"operator.gardener.cloud":   {"gardens", "gardens/status"},
		"rbac.authorization.k8s.io": {"clusterroles", "clusterrolebindings", "roles", "rolebindings"},
		"resources.gardener.cloud":  {"managedresources", "managedresources/status"},
	}
	verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "bind", "escalate"}
	var allowed []string
	for group, names := range resources {
		for _, name := range names {
			resource, subresource, _ := strings.Cut(name, "/")
			for _, verb := range verbs {
				yes, err := binary.Allowed(e.Ctx, e.Source, "system:serviceaccount:"+e.Namespace+":viewer", &authorizationv1.ResourceAttributes{
					Group: group, Resource: resource, Subresource: subresource, Verb: verb, Namespace: e.Namespace,
				})
				e.Expect(err).NotTo(HaveOccurred())
				if yes {
					allowed = append(allowed, verb+" "+name)
				}
			}
		}
	}
	e.Expect(allowed).To(ConsistOf(
		"get configmaps", "get namespaces", "get pods", "get serviceaccounts", "get services", "list events",
		"get daemonsets", "get deployments", "get replicasets", "get statefulsets", "get gardens", "list gardens",
		"get managedresources", "list managedresources", "watch managedresources",
	))
}

// theTargetMayBeAnotherCluster reads the set with one kubeconfig and its objects with another one, whose user has no rights.
func theTargetMayBeAnotherCluster(t *testing.T, e env, viewer user) {
	t.Helper()
	stranger, err := local.ServiceAccountKubeconfig(e.Ctx, e.Servers.Source.Config, e.Namespace, "default", time.Hour)
	e.Expect(err).NotTo(HaveOccurred())

	out, code := viewer.ask("tree web -n team-shops --target-kubeconfig " + binary.WriteKubeconfig(t, stranger))
	e.Expect(code).To(BeZero(), out)
	e.Expect(strings.Count(out, "Unreadable   you may not read it")).To(Equal(3), out)
	out, code = viewer.ask("tree web -n team-shops --target-context other")
	e.Expect(code).To(Equal(1))
	e.Expect(out).To(And(ContainSubstring(`context "other" does not exist`), ContainSubstring("see --target-kubeconfig and --target-context")))
}

// shellsCompleteSets completes as a shell does.
func shellsCompleteSets(t *testing.T, e env, viewer user) {
	t.Helper()
	out, code := viewer.ask("__complete tree -n team-shops we")
	e.Expect(code).To(BeZero(), out)
	e.Expect(strings.Split(out, "\n")).To(ContainElements("cart", "db", "held", "next", "shop", "stock", "web"))
}

// mistakesAreExplained makes mistakes in the command line.
func mistakesAreExplained(t *testing.T, e env, viewer user) {
	t.Helper()
	for command, want := range map[string]string{
		"why tulip red -n team-shops":         `find kind "tulip"`,
		"why configmap -n team-shops":         "want KIND NAME or KIND/NAME",
		"status -n team-shops -o xml":         `--output "xml": want wide, json, yaml`,
		"wait web --for done -n team-shops":   `--for "done": want a list of applied, healthy, rolled-out, or deleted`,
		"wait nothing -n team-shops":          `managedresources.resources.gardener.cloud "nothing" not found`,
		"garden tasks nowhere":                "kubectl espalier garden status lists Gardens",
		"garden plan":                         "name a file with -f; see kubectl espalier garden plan --help",
		"status --server https://127.0.0.1:1": "is the cluster of --context the right one, and can it be reached?",
		"status --contxt nowhere":             "unknown flag: --contxt; see kubectl espalier status --help",
		"status --context nowhere":            "connect to source cluster: context \"nowhere\" does not exist; see --kubeconfig and --context",
		"resume held -n team-shops":           "forbidden",
	} {
		out, code := viewer.ask(command)
		e.Expect(code).To(Equal(1), out)
		e.Expect(out).To(ContainSubstring(want))
	}
}

// env is a namespace with sets, and a running controller.
type env struct{ *Env }

// prepare creates sets of all kinds, and a Garden.
func prepare(t *testing.T) env {
	t.Helper()
	e := env{New(t, Options{Config: "espalier: {managedResource: {deletionLimit: {objects: 1}}}"})}
	secret := fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %%s, namespace: %s}\nstringData: {password: %s}\n",
		e.Namespace, password)
	e.Set("web", e.ConfigMap("settings", "one"), fmt.Sprintf(secret, "login"), fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: %s}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1.0"}]}
`, e.Namespace))
	e.Expect(e.Source.Create(e.Ctx, e.ManagedResource("db", "missing"))).To(Succeed())
	e.Set("held", e.ConfigMap("held", "one"))
	e.Set("cart", e.ConfigMap("cart", "one"))
	e.Set("stock", e.ConfigMap("red", "one"), e.ConfigMap("green", "one"), e.ConfigMap("blue", "one"))
	e.Secret("shop", e.ConfigMap("shop", "one"))
	shop := e.ManagedResource("shop", "shop")
	shop.Annotations = map[string]string{resourcesv1alpha1.DependsOn: "web"}
	e.Expect(e.Source.Create(e.Ctx, shop)).To(Succeed())
	e.Secret("next", e.ConfigMap("next", "one"), fmt.Sprintf(secret, "token"))
	next := e.ManagedResource("next", "next")
	next.Annotations = map[string]string{"espalier.dev/plan": "true"}
	e.Expect(e.Source.Create(e.Ctx, next)).To(Succeed())

	e.Eventually(func() string { return Message(e.Get("web"), "ResourcesHealthy") }).WithTimeout(Patience).
		Should(ContainSubstring("MinimumReplicasUnavailable"))
	e.AwaitCondition("web", "ResourcesApplied", "True/ApplySucceeded")
	e.AwaitCondition("db", "ResourcesApplied", "False/CannotReadSecret")
	e.AwaitCondition("shop", "ResourcesApplied", "Progressing/DependenciesPending")
	e.AwaitApplied("held", "True/ApplySucceeded")
	e.AwaitApplied("cart", "True/ApplySucceeded")
	e.AwaitApplied("stock", "True/ApplySucceeded")
	e.Secret("stock")
	e.AwaitCondition("stock", "ResourcesApplied", "False/PruningSuspended")
	e.Eventually(func() string { return e.Get("next").Annotations["espalier.dev/planned"] }).WithTimeout(Patience).ShouldNot(BeEmpty())

	for set, configMap := range map[string]string{"web": "settings", "cart": "cart"} {
		e.Edit(configMap, `{"data":{"key":"mine"}}`)
		e.AwaitData(configMap, "one")
		e.Eventually(func() []string { return e.Env.Events(set) }).WithTimeout(Patience).Should(ContainElement(HavePrefix("DriftRepaired")))
	}
	e.Change("held", func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Annotations = map[string]string{resourcesv1alpha1.Ignore: "true"}
	})
	e.AwaitCondition("held", "ResourcesApplied", "True/ManagedResourceIgnored")
	e.Edit("held", `{"data":{"key":"mine"}}`)
	e.createGarden()
	return e
}

func (e env) createGarden() {
	e.T.Helper()
	_, err := binary.Install(e.Ctx, e.Source, "deploy/garden-operator/crds/*.yaml", "deploy/kubectl-espalier/*.yaml")
	e.Expect(err).NotTo(HaveOccurred())
	gardens, err := local.ReadManifests(root(e.T) + "/examples/garden.yaml")
	e.Expect(err).NotTo(HaveOccurred())
	garden := gardens[0]
	e.Eventually(func() error { return client.IgnoreAlreadyExists(e.Source.Create(e.Ctx, garden.DeepCopy())) }).
		WithTimeout(Patience).Should(Succeed())
	now := time.Now().UTC().Format(time.RFC3339)
	status := fmt.Sprintf(`{"status": {"observedGeneration": 1,
		"lastOperation": {"type": "Reconcile", "state": "Processing", "progress": 33, "description": "Deploying etcds", "lastUpdateTime": %[1]q},
		"conditions": [{"type": "VirtualGardenAPIServerAvailable", "status": "Unknown", "reason": "OperationProcessing",
			"message": "The API server is not deployed yet.", "lastTransitionTime": %[1]q, "lastUpdateTime": %[1]q}],
		"tasks": [{"name": "Deploying certificate authorities", "state": "Succeeded", "since": %[1]q},
			{"name": "Deploying etcds", "state": "Running", "since": %[1]q, "waitingFor": "the StatefulSet has 1 of 3 ready Pods"},
			{"name": "Deploying Kubernetes API server", "state": "Pending", "since": %[1]q}]}}`, now)
	e.Expect(e.Source.Status().Patch(e.Ctx, garden, client.RawPatch("application/merge-patch+json", []byte(status)))).To(Succeed())
}

// user is a user with a kubeconfig.
type user struct {
	env
	kubeconfig string
}

// user returns a user with the shipped role, in one namespace or, if it is empty, in the whole cluster.
func (e env) user(name, namespace string) user {
	e.T.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}}
	e.Expect(e.Source.Create(e.Ctx, account)).To(Succeed())
	bound := metav1.ObjectMeta{Name: e.Namespace + "-" + name, Namespace: namespace}
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "espalier-view"}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: e.Namespace, Name: name}}
	var binding client.Object = &rbacv1.ClusterRoleBinding{ObjectMeta: bound, RoleRef: role, Subjects: subjects}
	if namespace != "" {
		binding = &rbacv1.RoleBinding{ObjectMeta: bound, RoleRef: role, Subjects: subjects}
	}
	e.Expect(e.Source.Create(e.Ctx, binding)).To(Succeed())
	content, err := local.ServiceAccountKubeconfig(e.Ctx, e.Servers.Source.Config, e.Namespace, name, time.Hour)
	e.Expect(err).NotTo(HaveOccurred())
	u := user{e, binary.WriteKubeconfig(e.T, content)}
	e.Eventually(func() int { _, code := u.ask("status -n team-shops"); return code }).WithTimeout(Patience).Should(BeZero())
	return u
}

// ask runs a command, in which "team-shops" stands for the namespace of the test, which is as long. It returns the output with this name,
// and the exit code. It is a day later, so that ages do not depend on the speed of the machine.
func (u user) ask(command string) (output string, code int) {
	var out bytes.Buffer
	tomorrow := clocktesting.NewFakePassiveClock(time.Now().Add(24*time.Hour + 30*time.Minute))
	root := kubectl.Command(kubectl.Options{
		Out: &out, Err: &out, Clock: tomorrow, GardenCommands: func(cluster clientcmd.ClientConfig) []*cobra.Command {
			self := process.Program{Name: "kubectl-espalier", Source: "runtime"}
			return []*cobra.Command{plan.KubectlCommand(self, cluster, strings.NewReader(""))}
		},
	})
	arguments := strings.Fields(strings.ReplaceAll(command, "team-shops", u.Namespace))
	root.SetArgs(slices.Insert(arguments, 1, "--kubeconfig", u.kubeconfig))
	err := root.ExecuteContext(u.Ctx)
	if err != nil {
		fmt.Fprintf(&out, "Error: %v\n", err)
	}
	return strings.ReplaceAll(out.String(), u.Namespace, "team-shops"), kubectl.ExitCode(err)
}

// checksum matches a checksum, and confirmation the value that confirms a deletion. They differ from run to run, so screens show others.
var checksum, confirmation = regexp.MustCompile("[0-9a-f]{64}"), regexp.MustCompile("[0-9a-f]{8}-[0-9a-f]{32}")

func root(t *testing.T) string {
	t.Helper()
	folder, err := local.RepositoryRoot()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return folder
}

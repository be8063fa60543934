package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/garden/validation"
	"github.com/espalier-dev/espalier/test/local"
)

func TestReadSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		env  map[string]string
		want settings
		err  string
	}{
		"nothing set":  {nil, settings{root: "/repo", port: 26443}, ""},
		"another port": {map[string]string{"ESPALIER_PORT": "30000"}, settings{root: "/repo", port: 30000}, ""},
		"a cluster of one's own": {
			map[string]string{"ESPALIER_KUBECONFIG": "/my/kubeconfig"}, settings{root: "/repo", port: 26443, cluster: "/my/kubeconfig"}, "",
		},
		"the shell's kubeconfigs are not ours": {
			map[string]string{"KUBECONFIG": "/k", "TARGET_KUBECONFIG": "/t"}, settings{root: "/repo", port: 26443}, "",
		},
		"no number": {
			map[string]string{"ESPALIER_PORT": "many"}, settings{}, `ESPALIER_PORT: "many" is not a port from 1 to 65495`,
		},
		"a port that leaves no room for the rest": {
			map[string]string{"ESPALIER_PORT": "65530"}, settings{}, `ESPALIER_PORT: "65530" is not a port from 1 to 65495`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := readSettings("/repo", func(name string) string { return tc.env[name] })
			g.Expect(got).To(Equal(tc.want))
			if tc.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(tc.err))
			}
		})
	}
}

func TestSuggestedPort(t *testing.T) {
	for taken, want := range map[int]int{26443: 27443, 26455: 27443, 30000: 31443, 60001: 26443} {
		NewWithT(t).Expect(suggestedPort(taken)).To(Equal(want))
	}
}

func TestExplain(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"a taken port": {
			fmt.Errorf("start: %w", &local.PortTakenError{Port: 26444, User: "etcd"}),
			"start: port 26444 on 127.0.0.1 is taken by another program, etcd cannot listen there\nStop that program, or choose other ports: " +
				"ESPALIER_PORT=27443 make up",
		},
		"an interrupt": {
			context.Canceled, "interrupted. What was started keeps running: `make up` goes on with it, `make down` stops it.",
		},
		"anything else": {errors.New("it broke"), "it broke"},
		"a step that fails when processes run": {
			stillRunning(errors.New("it broke")),
			"it broke\nEverything else keeps running, so that you can look at it (logs are in .local/); `make up` tries again, " +
				"`make down` stops it.",
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(explain(tc.err)).To(Equal(tc.want)) })
	}
}

func TestEachBinaryHasPortsOfItsOwn(t *testing.T) {
	g := NewWithT(t)
	s := settings{root: "/repo", port: 1000}
	g.Expect(s.environmentOf(binary{name: "a"}, 0)).
		To(Equal(environment{kubeconfig: "/repo/.local/a/kubeconfig", probePort: 1010, metricsPort: 1011, webhookPort: 1012}))
	g.Expect(s.environmentOf(binary{name: "b"}, 1)).
		To(Equal(environment{kubeconfig: "/repo/.local/b/kubeconfig", probePort: 1013, metricsPort: 1014, webhookPort: 1015}))
}

func TestResourceManagerConfig(t *testing.T) {
	g := NewWithT(t)
	var got map[string]any
	e := environment{kubeconfig: `/a "b"/k`, probePort: 1, metricsPort: 2, webhookPort: 3}
	g.Expect(yaml.Unmarshal([]byte(e.render(resourceManagerConfig+"controllers: {}\n")), &got)).To(Succeed())
	g.Expect(got).To(Equal(map[string]any{
		"apiVersion":             "resourcemanager.config.gardener.cloud/v1alpha1",
		"kind":                   "ResourceManagerConfiguration",
		"sourceClientConnection": map[string]any{"kubeconfig": `/a "b"/k`},
		"leaderElection":         map[string]any{"leaderElect": true, "resourceNamespace": "espalier-system"},
		"server": map[string]any{
			"healthProbes": map[string]any{"bindAddress": "127.0.0.1", "port": 1.0},
			"metrics":      map[string]any{"bindAddress": "127.0.0.1", "port": 2.0},
			"webhooks":     map[string]any{"bindAddress": "127.0.0.1", "port": 3.0},
		},
		"logFormat":   "text",
		"controllers": map[string]any{},
	}))
}

func TestControllerManagerConfig(t *testing.T) {
	g := NewWithT(t)
	e := environment{kubeconfig: `/a "b"/k`, probePort: 1, metricsPort: 2, webhookPort: 3}
	cfg, warnings, err := config.ControllerManager([]byte(e.render(configNamed("project-controller"))))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(warnings).To(BeEmpty())
	g.Expect(cfg.Validate()).To(BeEmpty())
	g.Expect(cfg.GardenClientConnection.Kubeconfig).To(Equal(`/a "b"/k`))
	g.Expect(cfg.LeaderElection.ResourceNamespace).To(Equal("espalier-system"))
	g.Expect([]int{cfg.Server.HealthProbes.Port, cfg.Server.Metrics.Port, cfg.Espalier.Project.Webhooks.Port}).To(Equal([]int{1, 2, 3}))
	g.Expect(cfg.Espalier.Project.Webhooks.SelfManaged.URL).To(Equal("https://127.0.0.1:3"))
}

func TestGardenletConfig(t *testing.T) {
	g := NewWithT(t)
	e := environment{kubeconfig: `/a "b"/k`, probePort: 1, metricsPort: 2, webhookPort: 3}
	cfg, warnings, err := config.Gardenlet([]byte(e.render(configNamed("extension-controller"))))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(warnings).To(BeEmpty())
	g.Expect(cfg.Validate()).To(BeEmpty())
	g.Expect([]string{cfg.GardenClientConnection.Kubeconfig, cfg.SeedClientConnection.Kubeconfig}).To(HaveEach(`/a "b"/k`))
	g.Expect(cfg.LeaderElection.ResourceNamespace).To(Equal("espalier-system"))
	g.Expect([]int{cfg.Server.HealthProbes.Port, cfg.Server.Metrics.Port}).To(Equal([]int{1, 2}))
	g.Expect(cfg.SeedConfig.Metadata.Name).To(Equal("cellar"))
}

// configNamed returns the configuration of a binary.
func configNamed(name string) string {
	all := binaries()
	return all[slices.IndexFunc(all, func(b binary) bool { return b.name == name })].config
}

func TestOperatorConfig(t *testing.T) {
	g := NewWithT(t)
	e := environment{kubeconfig: `/a "b"/k`, probePort: 1, metricsPort: 2, webhookPort: 3}
	cfg, warnings, err := config.Operator([]byte(e.render(configNamed(gardenOperator))))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(warnings).To(BeEmpty())
	g.Expect(cfg.Validate()).To(BeEmpty())
	g.Expect(cfg.RuntimeClientConnection.Kubeconfig).To(Equal(`/a "b"/k`))
	g.Expect([]int{cfg.Server.HealthProbes.Port, cfg.Server.Metrics.Port, cfg.Server.Webhooks.Port}).To(Equal([]int{1, 2, 3}))
	g.Expect(cfg.Espalier.Garden.Webhooks.SelfManaged.URL).To(Equal("https://127.0.0.1:3"))
}

func TestGardenExampleIsValid(t *testing.T) {
	g := NewWithT(t)
	example, err := os.ReadFile(filepath.Join("..", "..", "examples", "garden.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	findings := func(text string) []string {
		objects, problem := local.ParseManifests([]byte(text))
		g.Expect(problem).NotTo(HaveOccurred())
		g.Expect(objects).To(HaveLen(1))
		garden := &operatorv1alpha1.Garden{}
		g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[0].Object, garden, true)).To(Succeed())
		var messages []string
		for _, each := range validation.Create(garden, nil) {
			messages = append(messages, each.Detail)
		}
		return messages
	}
	g.Expect(findings(string(example))).To(BeEmpty())
	g.Expect(findings(strings.Replace(string(example), "100.64.0.0/13", "10.2.0.0/16", 1))).
		To(Equal([]string{"pod network of runtime cluster intersects with service network of virtual cluster"}))
	script, err := os.ReadFile("walkthrough.sh")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(script)).To(And(ContainSubstring("s|100.64.0.0/13|10.2.0.0/16|"),
		ContainSubstring("pod network of runtime cluster intersects with service network of virtual cluster")))
}

// The walkthrough impersonates these users.
func TestProjectExampleHasTheUsersOfTheWalkthrough(t *testing.T) {
	g := NewWithT(t)
	objects, err := local.ReadManifests(filepath.Join("..", "..", "examples", "project.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(objects).To(HaveLen(1))
	spec, _, err := unstructured.NestedMap(objects[0].Object, "spec")
	g.Expect(err).NotTo(HaveOccurred())
	delete(spec, "description")
	delete(spec, "purpose")
	g.Expect(describe(objects[0])).To(Equal("Project /cellar"))
	g.Expect(spec).To(Equal(map[string]any{
		"owner": map[string]any{"kind": "User", "name": "cellarer"},
		"members": []any{
			map[string]any{"kind": "User", "name": "cooper", "role": "admin"}, map[string]any{"kind": "User", "name": "taster", "role": "viewer"},
		},
	}))
}

// The cluster may be one that the user names in ESPALIER_KUBECONFIG.
func TestNothingIsCollectedAsGarbage(t *testing.T) {
	g := NewWithT(t)
	e := environment{kubeconfig: "/k", probePort: 1, metricsPort: 2, webhookPort: 3}
	cfg, _, err := config.ResourceManager([]byte(e.render(binaries()[0].config)))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cfg.Controllers.GarbageCollector.Enabled).To(BeTrue())
	g.Expect(cfg.Espalier.ManagedResource.GarbageCollectionReportOnly).To(HaveValue(BeTrue()))
}

func TestInstalled(t *testing.T) {
	rule := map[string]any{"rules": []any{}}
	aggregated := map[string]any{"rules": []any{}, "aggregationRule": map[string]any{}}
	NewWithT(t).Expect(installed([]*unstructured.Unstructured{
		local.NewObject("rbac.authorization.k8s.io/v1", "ClusterRole", "", "plain", rule),
		local.NewObject("rbac.authorization.k8s.io/v1", "ClusterRole", "", "sum", aggregated),
		local.NewObject("rbac.authorization.k8s.io/v1", "Role", "n", "r", rule),
		local.NewObject("apps/v1", "Deployment", "n", "d", nil),
	})).To(Equal([]*unstructured.Unstructured{
		local.NewObject("rbac.authorization.k8s.io/v1", "ClusterRole", "", "plain", rule),
		local.NewObject("rbac.authorization.k8s.io/v1", "ClusterRole", "", "sum", map[string]any{"aggregationRule": map[string]any{}}),
		local.NewObject("rbac.authorization.k8s.io/v1", "Role", "n", "r", rule),
	}))
}

func TestEveryConfigurationFileIsUsed(t *testing.T) {
	g := NewWithT(t)
	used := map[string]string{}
	for _, b := range binaries() {
		used[b.name+".yaml"] = b.config
	}
	files, err := embedded.ReadDir("config")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		text, err := embedded.ReadFile("config/" + file.Name())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(used[file.Name()]).To(HaveSuffix(string(text)))
	}
}

func TestBindingsOf(t *testing.T) {
	roles := []*unstructured.Unstructured{
		local.NewObject("rbac.authorization.k8s.io/v1", "ClusterRole", "", "c", nil),
		local.NewObject("v1", "Namespace", "", "n", nil),
		local.NewObject("rbac.authorization.k8s.io/v1", "Role", "n", "r", nil),
	}
	subjects := []any{map[string]any{"kind": "ServiceAccount", "namespace": "espalier-system", "name": "b"}}
	NewWithT(t).Expect(bindingsOf(binary{name: "b"}, roles)).To(Equal([]*unstructured.Unstructured{
		{Object: map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": "c"},
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "c"},
			"subjects": subjects,
		}},
		{Object: map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{"namespace": "n", "name": "r"},
			"roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}, "subjects": subjects,
		}},
	}))
}

func TestRolesForUsersAreNotBound(t *testing.T) {
	g := NewWithT(t)
	s := settings{root: t.TempDir()}
	write := func(folder, name string) {
		dir := filepath.Join(s.root, "deploy", "b", folder)
		g.Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
		g.Expect(os.WriteFile(filepath.Join(dir, "role.yaml"),
			[]byte("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: "+name+"}\n"), 0o600)).To(Succeed())
	}
	write("rbac", "espalier-b-source")
	write("roles", "for-users")
	write(".", "restricted")
	objects, err := s.shipped(binary{name: "b"})
	g.Expect(err).NotTo(HaveOccurred())
	var got []string
	for _, o := range objects {
		got = append(got, describe(o))
	}
	g.Expect(got).To(Equal([]string{
		"ClusterRole /for-users", "ClusterRole /restricted", "ClusterRole /espalier-b-source",
		"ClusterRoleBinding /restricted", "ClusterRoleBinding /espalier-b-source",
	}))
}

func TestEveryBinaryIsBoundToTheClusterRolesThatItShips(t *testing.T) {
	g := NewWithT(t)
	s := settings{root: filepath.Join("..", "..")}
	got := map[string][]string{}
	for _, b := range binaries() {
		shipped, err := s.shipped(b)
		g.Expect(err).NotTo(HaveOccurred())
		for _, each := range shipped {
			if each.GetKind() == "ClusterRoleBinding" {
				got[b.name] = append(got[b.name], strings.TrimPrefix(each.GetName(), "espalier-"+b.name+"-"))
			}
		}
	}
	g.Expect(got).To(HaveLen(len(binaries())), "each binary has rights")
	g.Expect(got).To(Equal(map[string][]string{
		"managedresource-controller": {"target-restricted", "target-builtin", "source", "target-base", "target-garbagecollector"},
		"token-controllers":          {"source", "target", "target-invalidator"},
		"csr-approver":               {"source", "target"},
		"netpol-controller":          {"target"},
		"node-controller":            {"target"},
		"webhook-server":             {"source", "target", "target-selfmanaged"},
		"project-controller":         {"selfmanaged", "source"},
		"garden-operator":            {"selfmanaged", "source"},
		"extension-controller":       {"source", "target"},
	}))
}

// The walkthrough changes objects by name and prints texts that describe them.
func TestFirstExampleHasTheObjectsOfTheWalkthrough(t *testing.T) {
	g := NewWithT(t)
	objects, err := local.ReadManifests(filepath.Join("..", "..", "examples", "first-managedresource.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	var kinds, managed []string
	for _, o := range objects {
		kinds = append(kinds, describe(o))
		documents, _, err := unstructured.NestedStringMap(o.Object, "stringData")
		g.Expect(err).NotTo(HaveOccurred())
		for _, document := range documents {
			inside, err := local.ParseManifests([]byte(document))
			g.Expect(err).NotTo(HaveOccurred())
			for _, i := range inside {
				managed = append(managed, describe(i))
			}
		}
	}
	g.Expect(kinds).To(ContainElements("Namespace /orchard", "Secret orchard/first", "ManagedResource orchard/first"))
	g.Expect(managed).To(ConsistOf(
		"ConfigMap orchard/harvest", "ConfigMap orchard/notes", "Deployment orchard/watering", "ServiceAccount orchard/watering",
		"Role orchard/watering", "RoleBinding orchard/watering", "CustomResourceDefinition /trees.orchard.example.com", "Tree orchard/old-pear"))
	g.Expect(managed).To(ContainElements("ConfigMap orchard/harvest", "ConfigMap orchard/notes"))
}

func TestReport(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	now := testingclock.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	r := local.NewReport(&out, now)
	now.SetTime(now.Now().Add(1234 * time.Millisecond))
	r.Step("starting %s", "etcd")
	w := newWalkthrough(r)
	w.line("KIND\tNAME")
	w.line("Deployment\tweb")
	w.flush()
	g.Expect(during(r, "waiting", func() error { return errors.New("no") })).To(MatchError("no"))
	g.Expect(out.String()).To(Equal("[  1.2 s] starting etcd\n          KIND         NAME\n          Deployment   web\n"))
}

func TestCauseOf(t *testing.T) {
	g := NewWithT(t)
	refused := errors.New("connection refused")
	g.Expect(causeOf(t.Context(), refused)).To(MatchError(refused))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("etcd has stopped"))
	g.Expect(causeOf(ctx, refused)).To(MatchError("etcd has stopped"))
}

func TestOnlyOneRunAtATime(t *testing.T) {
	g := NewWithT(t)
	s := settings{root: t.TempDir()}
	unlock, err := s.lock()
	g.Expect(err).NotTo(HaveOccurred())
	_, err = s.lock()
	g.Expect(err).To(MatchError("another make up or make down is running; wait for its end"))
	unlock()
	unlock, err = s.lock()
	g.Expect(err).NotTo(HaveOccurred())
	unlock()
}

func TestDownWithNothingToStop(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	r := local.NewReport(&out, testingclock.NewFakePassiveClock(time.Time{}))
	s := settings{root: t.TempDir()}
	g.Expect(down(s, r)).To(Succeed())
	g.Expect(out.String()).To(Equal("Nothing runs.\n"))

	g.Expect(os.MkdirAll(s.state("logs"), 0o700)).To(Succeed())
	g.Expect(down(s, r)).To(Succeed())
	g.Expect(s.state()).NotTo(BeADirectory())
}

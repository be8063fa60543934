package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	. "github.com/onsi/gomega"
)

const fruitMetrics = `package fruit

type Metrics struct {
	// picked is not documented.
	picked *prometheus.CounterVec
}

func NewMetrics() {
	m := &Metrics{
		// Of all trees.
		// Colours are red and green.
		picked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "espalier_fruit_picked_total", Help: "Apples, by " +
				"colour.",
		}, []string{"colour", "size"}),
		ripe: prometheus.NewDesc("espalier_fruit_ripe", "Ripe apples.", []string{"tree"}, nil),
		age: prometheus.NewDesc("espalier_fruit_age_seconds", "Their age.", nil, nil),
	}
	other := 1 // not a comment of the metric
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "espalier_fruit_fallen", Help: "Fallen apples.", ConstLabels: prometheus.Labels{"reason": "wind"},
	}, nil))
	sold := prometheus.NewDesc("espalier_fruit_sold_total", "Sold apples.", nil, nil)
	prometheus.MustNewConstMetric(sold, prometheus.CounterValue, 1)
	prometheus.MustNewConstMetric(m.ripe, prometheus.GaugeValue, 1)
	prometheus.MustNewConstHistogram(m.age, 1)
}
`

const fruitTable = "| metric | type | labels | meaning |\n|---|---|---|---|\n" +
	"| `espalier_fruit_picked_total` | counter | `colour`, `size` | Apples, by colour. Of all trees. Colours are red and green. |\n" +
	"| `espalier_fruit_ripe` | gauge | `tree` | Ripe apples. |\n" +
	"| `espalier_fruit_age_seconds` | histogram | | Their age. |\n" +
	"| `espalier_fruit_fallen` | gauge | `reason` | Fallen apples. |\n" +
	"| `espalier_fruit_sold_total` | counter | | Sold apples. |\n"

func fruit() fstest.MapFS {
	return fstest.MapFS{
		"internal/fruit/apple/metrics.go":      {Data: []byte(fruitMetrics)},
		"internal/fruit/apple/metrics_test.go": {Data: []byte("not Go")},
		"internal/tree/tree.go":                {Data: []byte("package tree\n")},
		"api/fruit/doc.go":                     {Data: []byte("package fruit\n")},
	}
}

func TestTablesAreWrittenBetweenTheirLines(t *testing.T) {
	g := NewWithT(t)
	w := newWriter(fruit())
	page, err := w.fill("# Fruit\n\n<!-- begin generated: metrics internal/fruit -->\nold\n<!-- end generated -->\nText.\n")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(page).To(Equal("# Fruit\n\n<!-- begin generated: metrics internal/fruit -->\n" + fruitTable + "<!-- end generated -->\nText.\n"))
	g.Expect(w.complete()).To(Succeed())
	again, err := w.fill(page)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again).To(Equal(page))
}

func TestEditsThatStayComeFromTheirFile(t *testing.T) {
	g := NewWithT(t)
	w := newWriter(fstest.MapFS{"stays.yaml": {Data: []byte("- kind: v1/.*\n  what: colour|size\n  why: of the sun\n")}})
	g.Expect(w.unrepaired([]string{"stays.yaml"})).To(Equal(
		"| a change by another client | stays because |\n|---|---|\n| colour\\|size | of the sun |\n"))
	_, err := w.unrepaired([]string{"gone.yaml"})
	g.Expect(err).To(MatchError(fs.ErrNotExist))
}

func TestWebhooksHaveTheRowsOfTheirFamily(t *testing.T) {
	g := NewWithT(t)
	rowsOf := func(family string) string {
		text, err := newWriter(fruit()).webhooks([]string{family})
		g.Expect(err).NotTo(HaveOccurred())
		return text
	}
	server := rowsOf("webhook")
	g.Expect(server).To(HavePrefix("| handler | setting | called for | without the server |\n"))
	g.Expect(server).To(ContainSubstring("\n| `seccomp-profile` | `seccompProfile` | `create pods` | **refused** |\n"))
	g.Expect(server).To(ContainSubstring("\n| `pod-scheduler-name` | `podSchedulerName` | `create pods` | written unchanged |\n"))
	g.Expect(server).To(ContainSubstring("\n| `system-components-config` | `systemComponentsConfig` | `create pods` | "))
	g.Expect(rowsOf("garden")).To(ContainSubstring("\n| `garden-namespace-deletion` | " +
		"`namespace-deletion-validation.operator.gardener.cloud` | `delete namespaces` | refuses "))
	g.Expect(rowsOf("project")).To(ContainSubstring("\n| `creator-limit` | `creator-limit.project-controller.espalier.dev` | " +
		"`create projects.core.gardener.cloud` | [limits]"))
	_, err := newWriter(fruit()).webhooks([]string{"node"})
	g.Expect(err).To(MatchError("family node has no webhooks"))
}

func TestReasonsOfChecksAreShown(t *testing.T) {
	g := NewWithT(t)
	text, err := newWriter(fruit()).checks(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(text).To(ContainSubstring("\n| `no-names` | No DNS name and no IP address is requested. |\n"))
}

func TestTablesOfBinariesHaveTheirRows(t *testing.T) {
	for columns, want := range map[string]string{
		"pages":    "| [`node-controller`](docs/node-controller.md) | keeps Pods off new nodes until their critical components are ready |\n",
		"clusters": "until their critical components are ready | target: Nodes, Pods, DaemonSets | target: taints of Nodes |\n",
	} {
		g := NewWithT(t)
		page, err := newWriter(fruit()).fill("<!-- begin generated: binaries " + columns + " -->\n<!-- end generated -->\n")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(page).To(ContainSubstring(want))
		g.Expect(strings.Split(page, "\n")[3]).To(ContainSubstring("managedresource-controller"), "the row of the main binary is the first")
	}
}

func TestMistakesInPagesAreErrors(t *testing.T) {
	for name, tc := range map[string]struct{ page, want string }{
		"unknown columns":  {"<!-- begin generated: binaries colours -->\n<!-- end generated -->\n", "unknown columns colours"},
		"an unknown table": {"<!-- begin generated: recipes -->\n<!-- end generated -->\n", "unknown table"},
		"no end":           {"<!-- begin generated: metrics internal/fruit -->\n", "needs a line"},
		"no end before the next table": {
			strings.Repeat("<!-- begin generated: metrics internal/fruit -->\n", 2) + "<!-- end generated -->\n", "no line",
		},
		"a folder without metrics":     {"<!-- begin generated: metrics internal/tree -->\n<!-- end generated -->\n", "has no metrics"},
		"a folder that does not exist": {"<!-- begin generated: metrics internal/pear -->\n<!-- end generated -->\n", "internal/pear"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newWriter(fruit()).fill(tc.page)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestMetricsThatNoTableShowsAreErrors(t *testing.T) {
	NewWithT(t).Expect(newWriter(fruit()).complete()).
		To(MatchError(ContainSubstring("no table shows the metric espalier_fruit_ripe of internal/fruit/apple")))
}

func TestRunChangesPages(t *testing.T) {
	g := NewWithT(t)
	root := t.TempDir()
	g.Expect(os.CopyFS(root, fruit())).To(Succeed())
	page := filepath.Join(root, "docs", "reference", "fruit.md")
	g.Expect(os.MkdirAll(filepath.Dir(page), 0o700)).To(Succeed())
	const before = "<!-- begin generated: metrics internal/fruit -->\n<!-- end generated -->\n"
	g.Expect(os.WriteFile(page, []byte(before), 0o600)).To(Succeed())
	g.Expect(run(root)).To(Succeed())
	g.Expect(os.ReadFile(page)).To(ContainSubstring(fruitTable))
}

// writerOfConstants returns a writer for a tree whose only constants are in api/fruit.
func writerOfConstants(constants string) *writer {
	return newWriter(fstest.MapFS{
		"api/fruit/names.go":    {Data: []byte("package fruit\n\n" + constants)},
		"internal/tree/tree.go": {Data: []byte("package tree\n")},
	})
}

func TestReasonsComeFromTheCommentsOfConstants(t *testing.T) {
	g := NewWithT(t)
	w := writerOfConstants(`const (
	// Ripe goes with Picked=True, Sold=Unknown: all apples
	// are ripe.
	//
	// Remedy: eat them.
	Ripe = "Ripe"
	// SuffixFallen after the kind of an object goes with Picked=False: it is below the tree.
	SuffixFallen = "Fallen"
	// MessageRipe goes with Picked, Ripe.
	MessageRipe = "Ripe."
)

// Rotten goes with Picked=False: a worm was faster.
const Rotten = "Rotten"
`)
	g.Expect(w.reasons([]string{"api/fruit", "Picked"})).To(Equal("| reason | `Picked` | meaning | what to do |\n|---|---|---|---|\n" +
		"| `Ripe` | `True` | All apples are ripe. | Eat them. |\n| `<Kind>Fallen` | `False` | It is below the tree. | |\n" +
		"| `Rotten` | `False` | A worm was faster. | |\n"))
	g.Expect(w.unshownConstants()).To(ConsistOf(MatchError("no table shows the reason Ripe of condition Sold")))
	g.Expect(w.reasons([]string{"api/fruit", "Sold"})).To(HavePrefix("| reason | `Sold` | meaning | what to do |\n"))
	g.Expect(w.unshownConstants()).To(BeEmpty())
	_, err := w.reasons([]string{"api/fruit", "Eaten"})
	g.Expect(err).To(MatchError("api/fruit has no reasons of Eaten"))
}

func TestEventsComeFromTheCommentsOfConstants(t *testing.T) {
	g := NewWithT(t)
	w := writerOfConstants(`// Reasons of the Events.
const (
	// reasonRipe is a Normal Event about an Apple: it is
	// ripe.
	//
	// Remedy: eat it.
	reasonRipe = "Ripe"
	// reasonFallen is a Warning Event about the Apple of a tree: it is below the tree.
	reasonFallen = "Fallen"
)
`)
	g.Expect(w.unshownConstants()).To(ConsistOf(
		MatchError("no table shows the constant reasonRipe of api/fruit"), MatchError("no table shows the constant reasonFallen of api/fruit"),
	))
	g.Expect(w.events([]string{"api"})).To(Equal("| reason | type | about | meaning | what to do |\n|---|---|---|---|---|\n" +
		"| `Ripe` | Normal | Apple | It is ripe. | Eat it. |\n| `Fallen` | Warning | Apple of a tree | It is below the tree. | |\n"))
	g.Expect(w.unshownConstants()).To(BeEmpty())
	_, err := w.events([]string{"internal/tree"})
	g.Expect(err).To(MatchError("internal/tree has no rows of this table"))
}

func TestConditionsComeFromTheCommentsOfTheirTypes(t *testing.T) {
	g := NewWithT(t)
	w := writerOfConstants(`// Ripe is True if all apples are ripe.
const Ripe other.ConditionType = "Ripe"

const Sweet = "Sweet"
`)
	g.Expect(w.unshownConstants()).To(ConsistOf(MatchError("no table shows the constant Ripe of api/fruit")))
	g.Expect(w.conditions([]string{"api/fruit"})).To(Equal(
		"| condition | meaning |\n|---|---|\n| `Ripe` | Is True if all apples are ripe. |\n"))
	g.Expect(w.unshownConstants()).To(BeEmpty())
}

func TestReasonsWithoutTheFormOfAReasonAreErrors(t *testing.T) {
	w := writerOfConstants(`// Reasons of Events.
const (
	// Ripe means that apples are ripe.
	Ripe = "Ripe"
)

const ReasonSold = "Sold"
`)
	NewWithT(t).Expect(w.unshownConstants()).To(ConsistOf(
		MatchError("the comment of Ripe in api/fruit does not have the form of a reason"),
		MatchError("the comment of ReasonSold in api/fruit does not have the form of a reason"),
	))
}

func TestRightsHaveTheCommentsAboveTheirMarkers(t *testing.T) {
	g := NewWithT(t)
	w := newWriter(fstest.MapFS{"internal/node/node.go": {Data: []byte(`package node

// Nodes are
// watched.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch,roleName=x-target
// +kubebuilder:rbac:groups=apps,resources=daemonsets,verbs=list,roleName=x-target
// One replica works.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=a,verbs=get,namespace=n
`)}})
	g.Expect(w.rights([]string{"node"})).To(Equal("| role | right | why |\n|---|---|---|\n" +
		"| `espalier-node-controller-source` | `get leases.coordination.k8s.io a in n` | One replica works. |\n" +
		"| `x-target` | `list, watch nodes` | Nodes are watched. |\n| `x-target` | `list daemonsets.apps` | Nodes are watched. |\n"))
	_, err := w.rights([]string{"fruit"})
	g.Expect(err).To(MatchError("fruit is not the family of a binary"))
}

func TestSettingsHaveTheirDefaults(t *testing.T) {
	g := NewWithT(t)
	w := newWriter(os.DirFS("../.."))
	section := func(arguments ...string) string {
		text, err := w.settings(arguments)
		g.Expect(err).NotTo(HaveOccurred())
		return text
	}
	election := section("ResourceManagerConfiguration", "leaderElection")
	g.Expect(election).To(HavePrefix("| setting | default | meaning |\n|---|---|---|\n| `leaderElect` | `true` | Enables leader election. "))
	g.Expect(election).To(ContainSubstring("\n| `leaseDuration` | `15s` | How long other replicas wait for a leader that does not renew its " +
		"lease; longer than `renewDeadline`. |\n"))
	controllers := section("ResourceManagerConfiguration", "controllers")
	g.Expect(controllers).To(ContainSubstring("\n| `garbageCollector.syncPeriod` | `1h` if enabled | "))
	g.Expect(controllers).To(ContainSubstring("\n| `node.backoff` | `10s` if enabled | "))
	g.Expect(controllers).To(ContainSubstring("\n| `cacheSyncTimeout` | `2m` | "))
	webhooks := section("ResourceManagerConfiguration", "espalier.webhooks")
	g.Expect(webhooks).To(ContainSubstring(
		"\n| `selfManaged.authorityValidity`, `selfManaged.certificateValidity` | `8760h`, `2160h` | How long authority and"))
	g.Expect(section("ControllerManagerConfiguration", "espalier.project")).
		To(MatchRegexp("\n\\| `webhooks.selfManaged` \\| \\| .* Fields as in `espalier.webhooks.selfManaged`. \\|\n"))
	operator := section("OperatorConfiguration")
	g.Expect(operator).To(ContainSubstring("\n| `controllers.gardenCare.conditionThresholds[].type` | | "))
	for arguments, want := range map[string]string{
		"ResourceManagerConfiguration fruit": `ResourceManagerConfiguration has no section "fruit"`,
		"Fruit":                              "Fruit is not the type of a configuration file",
	} {
		_, err := w.settings(strings.Fields(arguments))
		g.Expect(err).To(MatchError(want))
	}
}

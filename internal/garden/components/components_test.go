package components_test

import (
	"cmp"
	"context"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation/field"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func TestNamesOfRowsAreUnique(t *testing.T) {
	g := NewWithT(t)
	names := map[string]int{}
	for _, row := range components.All() {
		names[row.Name]++
	}
	for name, times := range names {
		g.Expect(times).To(Equal(1), name)
	}
}

func TestEachManagedResourceCountsForACondition(t *testing.T) {
	g := NewWithT(t)
	sets := map[component.Set]string{}
	for _, row := range components.All() {
		for _, set := range row.Sets {
			g.Expect(row.Condition).NotTo(BeEmpty(), row.Name)
			key := component.Set{Namespace: set.Namespace, Name: set.Name}
			g.Expect(sets[key]).To(BeEmpty(), "%s has the ManagedResource %s, too", row.Name, set.Name)
			sets[key] = row.Name
		}
	}
}

func TestEachRowThatIsDeployedIsDestroyed(t *testing.T) {
	for _, row := range components.All() {
		deploys := row.Deploy.Name != "" && (len(row.Sets) > 0 || row.Definitions != nil || len(row.Leftovers) > 0)
		NewWithT(t).Expect(deploys && row.Destroy.Name == "").To(BeFalse(), "%s is deployed and not destroyed", row.Name)
	}
}

func TestObservabilityComponentsMayBeSkipped(t *testing.T) {
	g := NewWithT(t)
	for _, row := range components.All() {
		g.Expect(row.Skippable).To(Equal(row.Condition == operatorv1alpha1.ObservabilityComponentsHealthy), row.Name)
	}
	v := values.Values{Operator: values.Operator{SkipComponents: []string{"pear"}}}
	g.Expect(component.Component{Name: "pear"}.Unwanted(v)).To(Equal("The configuration of the operator skips pear."))
	g.Expect(component.Component{Name: "apple"}.Unwanted(v)).To(BeEmpty())
	g.Expect(component.Component{Name: "apple", Requires: []string{"plum", "pear"}}.Unwanted(v)).
		To(Equal("The configuration of the operator skips pear, which apple needs."))
}

// In a runtime cluster that is also a Seed, gardenlet creates custom resources, but does not deploy the operators for them: it uses the
// operators of the Garden.
func TestSeedKeepsTheOperatorsThatItNeeds(t *testing.T) {
	var kept []string
	for _, row := range components.All() {
		if slices.Contains(row.Users, component.Gardenlet()) && len(row.Sets) > 0 {
			kept = append(kept, row.Name)
		}
	}
	NewWithT(t).Expect(kept).To(ConsistOf("prometheus-operator", "fluent-operator", "opentelemetry-operator", "victoria-operator"))
}

// The list Requires of a row also contains the rows that its required rows require.
func TestRequiredComponentsMayBeSkippedAndAreComplete(t *testing.T) {
	g, rows := NewWithT(t), map[string]component.Component{}
	for _, row := range components.All() {
		rows[row.Name] = row
	}
	for _, row := range rows {
		for _, each := range row.Requires {
			g.Expect(rows[each].Skippable).To(BeTrue(), "%s requires %s", row.Name, each)
			for _, other := range rows[each].Requires {
				g.Expect(row.Requires).To(ContainElement(other), row.Name)
			}
		}
	}
}

func TestOnlySkippableComponentsMayBeSkipped(t *testing.T) {
	g := NewWithT(t)
	at := field.NewPath("a")
	g.Expect(components.ValidateSkipped(components.Skippable(), at)).To(BeEmpty())
	g.Expect(components.ValidateSkipped([]string{"vali", "etcd-druid", "vaIi"}, at)).To(ConsistOf(
		HaveField("Field", "a[1]"), HaveField("Field", "a[2]"),
	))
}

// Work that a row declares twice, or for a task that it does not have, would be ignored.
func TestOwnStepsHaveTasks(t *testing.T) {
	for _, row := range components.All() {
		g := NewWithT(t)
		g.Expect(row.Own.Deploy && row.Deploy.Name == "").To(BeFalse(), row.Name)
		g.Expect(row.Own.Await).To(Equal(row.Await.Name != ""), row.Name)
		g.Expect(row.Own.Destroy && row.Destroy.Name == "").To(BeFalse(), row.Name)
		g.Expect(row.Own.Objects && (row.Own.Deploy || row.Objects != nil)).To(BeFalse(), row.Name)
		g.Expect(row.Own.Deploy && row.Objects != nil).To(BeFalse(), row.Name)
	}
}

// If a component of the runtime plane uses an etcd, it starts after the etcds, and the etcds do not wait for this component.
func TestRuntimeComponentMayStartAfterTheEtcds(t *testing.T) {
	for _, after := range []string{
		component.Etcds, component.Deployed(component.Etcds), component.KubeAPIServer, component.ExposedService, component.TokensUsed,
		component.RuntimeDeployed,
	} {
		t.Run(after, func(t *testing.T) {
			g := NewWithT(t)
			late := component.Component{
				Name: "late", Plane: component.Runtime, Sets: []component.Set{{Name: "late"}},
				Deploy:  component.Task{Name: "Deploying late", After: []string{after}},
				Destroy: component.Task{Name: "Destroying late", After: []string{component.VirtualUnused}},
			}
			later := component.Component{
				Name: "later", Plane: component.Runtime, Deploy: component.Task{Name: "Deploying later", After: []string{"late"}},
			}
			nodes := components.ReconciliationOf(append(components.All(), late, later))
			expectFlow(t, nodes)
			etcds := find(nodes, component.Etcds, components.Deploy).DependsOn
			g.Expect(etcds).To(Equal(find(components.Reconciliation(), component.Etcds, components.Deploy).DependsOn))
			deletion := components.DeletionOf(append(components.All(), late, later), false)
			expectFlow(t, deletion)
			g.Expect(find(deletion, "runtime-system", components.Destroy).DependsOn).To(ContainElement("Destroying late"))
		})
	}
}

func TestNothingIsDestroyedWhileSeedsOrShootsExist(t *testing.T) {
	nodes := components.Deletion(false)
	needs := map[string][]string{}
	for _, node := range nodes {
		needs[node.Name] = node.DependsOn
	}
	check := find(nodes, component.Unused, components.Destroy).Name
	for _, node := range nodes {
		NewWithT(t).Expect(node.Name == check || reaches(needs, node.Name, check)).To(BeTrue(), node.Name)
	}
}

// A dependency that is neither a row nor a milestone, and a cycle, are errors of the flow.
func TestGraphsAreFlows(t *testing.T) {
	expectFlows(t)
}

// expectFlows expects that every graph is a flow, so that it has no cycle.
func expectFlows(t *testing.T) {
	t.Helper()
	for name, nodes := range map[string][]components.Node{
		"reconciliation": components.Reconciliation(), "deletion": components.Deletion(false),
		"deletion that abandons the virtual cluster": components.Deletion(true),
	} {
		t.Run(name, func(t *testing.T) { expectFlow(t, nodes) })
	}
}

func expectFlow(t *testing.T, nodes []components.Node) {
	t.Helper()
	var tasks []flow.Task
	for _, node := range nodes {
		tasks = append(tasks, flow.Task{Name: node.Name, DependsOn: node.DependsOn, Run: func(context.Context) error { return nil }})
	}
	_, err := flow.New("graph", tasks)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

func find(nodes []components.Node, row string, step components.Step) components.Node {
	i := slices.IndexFunc(nodes, func(node components.Node) bool { return node.Component.Name == row && node.Step == step })
	return nodes[max(i, 0)]
}

func TestMilestones(t *testing.T) {
	for sentence, tc := range map[string]struct {
		nodes []components.Node
		row   string
		step  components.Step // "": destroy
		want  []string
	}{
		"the etcds start after the whole runtime plane": {
			nodes: components.Reconciliation(), row: component.Etcds, step: components.Deploy,
			want: []string{
				"Generating generic token kubeconfig", "Deploying custom resource definitions for fluent-operator",
				"Deploying custom resource definitions for extensions",
				"Deploying custom resource definitions for victoria-operator", "Deploying custom resource definitions for perses-operator",
				"Deploying nginx-ingress controller", "Deploying runtime system resources", "Deploying Kubernetes vertical pod autoscaler",
				"Deploying ETCD Druid", "Deploying Istio", "Checking preconditions of virtual garden", "Reconciling main ETCD backup entry",
				"Removing confirmed leftovers of a former garden",
			},
		},
		"the vertical pod autoscaler starts when the kinds of monitoring are served": {
			nodes: components.Reconciliation(), row: "vpa", step: components.Deploy,
			want: []string{
				"Deploying custom resource definitions for prometheus-operator",
				"Deploying custom resource definitions for OpenTelemetry operator",
				"Deploying and waiting for gardener-resource-manager to be healthy",
			},
		},
		"kube-apiserver waits until the etcds are ready": {
			nodes: components.Reconciliation(), row: component.KubeAPIServer, step: components.Deploy,
			want: []string{
				"Checking preconditions of virtual garden", "Waiting until main and event ETCDs report readiness",
				"Deploying extension resources before kube-apiserver",
			},
		},
		"keys are generated while the etcds start": {
			nodes: components.Reconciliation(), row: components.Keys, step: components.Deploy,
			want: []string{"Deploying main and events ETCDs of virtual garden"},
		},
		"a task that waits starts after the one that deploys": {
			nodes: components.Reconciliation(), row: component.Etcds, step: components.Await,
			want: []string{"Deploying main and events ETCDs of virtual garden"},
		},
		"objects are written again when both API servers are rolled out": {
			nodes: components.Reconciliation(), row: components.Rewrite, step: components.Deploy,
			want: []string{
				"Initializing connection to virtual garden cluster", "Deploying Kubernetes API server service SNI",
				"Deploying virtual system resources", "Waiting until Gardener API server rolled out",
			},
		},
		"tokens are renewed after all programs with one are deployed": {
			nodes: components.Reconciliation(), row: components.TokenRenewal, step: components.Deploy,
			want: []string{
				"Deploying Kubernetes Controller Manager", "Deploying resources for gardener-operator access to virtual garden",
				"Deploying Gardener Admission Controller", "Deploying project-controller", "Deploying Gardener Scheduler",
				"Deploying gardener-metrics-exporter",
			},
		},
		"the resource manager of the virtual cluster is destroyed after the components that it manages": {
			nodes: components.Deletion(false), row: component.VirtualResourceManager,
			want: []string{
				"Destroying Kubernetes Controller Manager Server", "Destroying Gardener virtual garden access resources",
				"Destroying credentials of global monitoring in virtual garden",
				"Destroying Gardener Admission Controller", "Destroying Gardener Controller Manager", "Destroying Gardener Scheduler",
				"Destroying project-controller", "Destroying gardener-metrics-exporter", "Destroying Prometheus for the garden",
			},
		},
		"the resource manager of an abandoned virtual cluster is destroyed first": {
			nodes: components.Deletion(true), row: component.VirtualResourceManager,
			want: []string{"Ensuring no Seeds and Shoots exist in virtual garden"},
		},
		"Istio does not wait for an abandoned virtual cluster": {
			nodes: components.Deletion(true), row: "istio", want: []string{"Ensuring no Seeds and Shoots exist in virtual garden"},
		},
		"then the components that it would manage": {
			nodes: components.Deletion(true), row: component.GardenerAccess,
			want: []string{"Destroying gardener-resource-manager for virtual garden"},
		},
		"runtime system resources are destroyed last of the runtime plane": {
			nodes: components.Deletion(false), row: "runtime-system",
			want: []string{
				"Destroying nginx-ingress controller", "Destroying Kubernetes vertical pod autoscaler", "Destroying ETCD Druid", "Destroying Istio",
				"Destroying main ETCD backup bucket", "Destroying DNSRecords for virtual garden cluster and ingress controller",
				"Destroying extension resources", "Destroying prometheus-operator", "Destroying kube-state-metrics", "Destroying fluent-operator",
				"Destroying OpenTelemetry operator", "Destroying victoria-operator", "Destroying Vali", "Destroying Plutono",
				"Destroying server for passwords of the gateway", "Destroying perses-operator", "Destroying blackbox-exporter",
			},
		},
		"prometheus-operator is destroyed after its instances": {
			nodes: components.Deletion(false), row: component.PrometheusOperator,
			want: []string{
				"Ensuring no Seeds and Shoots exist in virtual garden", "Destroying Alertmanager", "Destroying Prometheus for the garden",
				"Destroying long-term Prometheus",
			},
		},
		"the proof begins after the renewal of tokens in Seeds": {
			nodes: components.Reconciliation(), row: components.RotationProof, step: components.Deploy,
			want: []string{
				"Initializing connection to virtual garden cluster", "Deploying virtual system resources",
				"Waiting until Gardener API server rolled out", "Deploying Gardener Admission Controller",
				"Check if all seeds finished the renewal of their garden access secrets",
			},
		},
		"Prometheus reads the Seeds of the virtual cluster": {
			nodes: components.Reconciliation(), row: component.PrometheusGarden, step: components.Deploy,
			want: append(slices.Clone(find(components.Reconciliation(), "kube-state-metrics-runtime", components.Deploy).DependsOn),
				"Deploying prometheus-operator", "Waiting until Gardener API server rolled out", "Initializing connection to virtual garden cluster",
				"Deploying credentials of global monitoring into virtual garden"),
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(find(tc.nodes, tc.row, cmp.Or(tc.step, components.Destroy)).DependsOn).To(ConsistOf(tc.want))
		})
	}
}

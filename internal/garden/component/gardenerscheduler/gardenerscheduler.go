// Package gardenerscheduler returns the objects of gardener-scheduler of Gardener 1.149.
//
// After gardener-apiserver is ready, a flow reads the ConfigMap with the configuration of the Deployment, if there is one, for Strategy. It
// deploys Objects.Direct, and the ManagedResources with Objects.Set and with VirtualObjects, and waits until both are ready, in any order.
package gardenerscheduler

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/flags"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/rights"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

// Name is the name of the Deployment and of its Service.
const Name = "gardener-scheduler"

const (
	role        = "scheduler"
	healthPort  = 10251
	metricsPort = 19251
	configFile  = "schedulerconfiguration.yaml"
)

// Objects returns the objects in the runtime cluster. Kubeconfig is the name of the Secret with the generic token kubeconfig, and strategy
// is the result of Strategy.
func Objects(v values.Values, kubeconfig string, strategy operatorv1alpha1.SchedulingStrategy) (gardener.Objects, error) {
	settings := v.GardenerScheduler
	return gardener.Program{
		Name: Name, Role: role, PriorityClass: system.Class200, Availability: object.Controller,
		CPU: "50m", Memory: "50Mi", LeastMemory: "25Mi",
		ConfigMap: Name + "-config", File: configFile, FeatureGates: settings.FeatureGates, LogLevel: settings.LogLevel,
		Config: map[string]any{
			"apiVersion": "scheduler.config.gardener.cloud/v1alpha1", "kind": "SchedulerConfiguration",
			"clientConnection": gardener.Connection(),
			"leaderElection":   gardener.Election(Name),
			"server":           gardener.Ports(healthPort, metricsPort),
			"schedulers":       map[string]any{"shoot": map[string]any{"candidateDeterminationStrategy": strategy}},
		},
		HealthPort: healthPort, MetricsPort: metricsPort,
	}.Objects(v, kubeconfig)
}

// VirtualObjects returns the objects in the virtual cluster.
func VirtualObjects() []client.Object {
	owner := gardener.VirtualOwner(role)
	const clusterRole = "gardener.cloud:system:scheduler"
	return []client.Object{
		owner.ClusterRole(clusterRole,
			rights.Rule(";events.k8s.io", "events", "create", "patch", "update"),
			rights.Rule("", "configmaps", rights.Read("create", "delete", "deletecollection", "patch", "update")...),
			rights.Rule(rights.CoreGroup, "cloudprofiles;namespacedcloudprofiles;projects;seeds", rights.Read()...),
			rights.Rule(rights.CoreGroup, "shoots;shoots/status", rights.Read("patch", "update")...),
			rights.Rule(rights.CoreGroup, "shoots/binding", "update"),
			rights.Rule(rights.LeasesGroup, "leases", "create"),
			rights.Named(rights.Rule(rights.LeasesGroup, "leases", "get", "update", "watch"), Name+"-leader-election"),
		),
		owner.ClusterRoleBinding(clusterRole, clusterRole, Name),
	}
}

// Ignored returns the settings that the program does not get: see flags.IgnoredGates.
func Ignored(v values.Values) []string {
	return flags.IgnoredGates(v.GardenerScheduler.FeatureGates, versions.GardenerScheduler.TakesGate)
}

// Strategy returns the scheduling strategy: the strategy in the Garden, or else MinimalDistance if the live configuration has it, or else
// the default, SameRegion. Kept is true in the second case: Gardener before 1.145 used MinimalDistance in all Gardens, and with the
// default, users could no longer create Shoots in regions without a Seed. Live is the ConfigMap with the configuration of the Deployment in
// the cluster, nil if there is none.
func Strategy(v values.Values, live *corev1.ConfigMap) (strategy operatorv1alpha1.SchedulingStrategy, kept bool) {
	if own := v.GardenerScheduler.Strategy; own != nil {
		return *own, false
	}
	if live != nil && liveStrategy(live) == operatorv1alpha1.SchedulingMinimalDistance {
		return operatorv1alpha1.SchedulingMinimalDistance, true
	}
	return operatorv1alpha1.SchedulingSameRegion, false
}

// liveStrategy returns the strategy in a configuration file, "" if it has none or cannot be read.
func liveStrategy(live *corev1.ConfigMap) operatorv1alpha1.SchedulingStrategy {
	var file struct {
		Schedulers struct {
			Shoot struct {
				Strategy operatorv1alpha1.SchedulingStrategy `json:"candidateDeterminationStrategy"`
			} `json:"shoot"`
		} `json:"schedulers"`
	}
	if err := yaml.Unmarshal([]byte(live.Data[configFile]), &file); err != nil {
		return ""
	}
	return file.Schedulers.Shoot.Strategy
}

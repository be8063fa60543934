// Package gardenercontrollermanager returns the objects of gardener-controller-manager of Gardener 1.149.
//
// After gardener-apiserver is ready, a flow deploys Objects.Direct, and the ManagedResources with Objects.Set and with VirtualObjects, and
// waits until both are ready, in any order.
//
// # Projects
//
// Three controllers of gardener-controller-manager are for Projects: one reconciles Projects, one finds stale Projects, and one records
// activity. The configuration file cannot switch off any controller: without a section a controller has the defaults, and 0 workers have
// the same effect as 1. No annotation of a Project makes the controllers ignore the Project either, and a narrower role does not help,
// because rights to namespaces and roles cannot exclude the namespaces and roles of projects.
//
// So gardener-controller-manager reconciles Projects, and project-controller does not run, unless the user wants project-controller. Then
// a policy for admission keeps gardener-controller-manager from writing Projects, their namespaces and their roles, and from creating and
// deleting the quotas in these namespaces. All other controllers of gardener-controller-manager work as before. The two programs do not
// compete: gardener-controller-manager only writes objects that differ from its desired state. So gardener-controller-manager repeats its
// attempts less and less often, and sends no more writes as soon as project-controller has reconciled a Project.
// gardener-controller-manager still emits its Event. Both programs must have the same settings for quotas and stale Projects. If the
// settings differ, gardener-controller-manager repeats its attempt about every 16 minutes, and changes nothing.
package gardenercontrollermanager

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/flags"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

// Name is the name of the Deployment and of its Service.
const Name = "gardener-controller-manager"

const (
	role        = "controller-manager"
	healthPort  = 2718
	metricsPort = 2719
)

// Objects returns the objects in the runtime cluster. Kubeconfig is the name of the Secret with the generic token kubeconfig.
func Objects(v values.Values, kubeconfig string) (gardener.Objects, error) {
	if err := errors.Join(checkQuotas(v), checkPolicy(v)); err != nil {
		return gardener.Objects{}, err
	}
	settings := v.GardenerControllerManager
	return gardener.Program{
		Name: Name, Role: role, PriorityClass: system.Class200, Availability: object.Controller,
		CPU: "1", Memory: "1Gi", LeastMemory: "300Mi",
		ConfigMap: Name + "-config", File: "config.yaml", FeatureGates: settings.FeatureGates, LogLevel: settings.LogLevel,
		Config: section{
			"apiVersion": "controllermanager.config.gardener.cloud/v1alpha1", "kind": "ControllerManagerConfiguration",
			"gardenClientConnection": gardener.Connection(),
			"leaderElection":         gardener.Election(Name),
			"server":                 gardener.Ports(healthPort, metricsPort),
			"controllers":            controllers(settings.DefaultProjectQuotas),
		},
		HealthPort: healthPort, MetricsPort: metricsPort,
	}.Objects(v, kubeconfig)
}

// Ignored returns the settings that the program does not get: see flags.IgnoredGates.
func Ignored(v values.Values) []string {
	return flags.IgnoredGates(v.GardenerControllerManager.FeatureGates, versions.GardenerControllerManager.TakesGate)
}

// checkQuotas returns an error for a default quota with which gardener-controller-manager would not start, and for a default quota that it
// could not create. The webhook accepts such quotas, because Gardener's webhook accepts them.
func checkQuotas(v values.Values) error {
	for i, each := range v.GardenerControllerManager.DefaultProjectQuotas {
		at := fmt.Sprintf("spec.virtualCluster.gardener.gardenerControllerManager.defaultProjectQuotas[%d].config", i)
		var quota corev1.ResourceQuota
		if err := json.Unmarshal(each.Config.Raw, &quota); err != nil {
			return fmt.Errorf("%s must be a ResourceQuota of v1: %w; correct it, or remove the entry", at, err)
		}
		if quota.APIVersion != "v1" || quota.Kind != "ResourceQuota" {
			return fmt.Errorf("%s must be a ResourceQuota of v1, not a %q of %q; correct it, or remove the entry", at, quota.Kind, quota.APIVersion)
		}
	}
	return nil
}

type section = map[string]any

func controllers(quotas []operatorv1alpha1.ProjectQuota) section {
	workers := func(sections section) section {
		sections["concurrentSyncs"] = 20
		return sections
	}
	// tolerance returns a setting with the time for which a condition must be false before it is reported as false.
	tolerance := func(condition string) section {
		return section{"conditionThresholds": []section{{"type": condition, "duration": "1m0s"}}}
	}
	project := workers(section{})
	if len(quotas) > 0 {
		project["quotas"] = quotas
	}
	return section{
		"controllerRegistration": workers(section{}),
		"credentialsBinding":     workers(section{}),
		"event":                  section{"concurrentSyncs": 10, "ttlNonShootEvents": "2h0m0s"},
		"project":                project,
		"secretBinding":          workers(section{}),
		"seed":                   workers(section{"shootMonitorPeriod": "5m0s"}),
		"seedBackupBucketsCheck": tolerance("BackupBucketsReady"),
		"seedExtensionsCheck":    tolerance("ExtensionsReady"),
		"shootHibernation":       section{},
		"shootMaintenance":       workers(section{}),
		"shootReference":         workers(section{}),
	}
}

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// systemNamespace holds the ServiceAccounts and leases of our binaries.
const systemNamespace = "espalier-system"

// binary is a program of this repository: cmd/<name>, with its roles in deploy/<name> and deploy/<name>/rbac, those of its users
// in deploy/<name>/roles, and its CRDs in deploy/<name>/crds; the last two are left out where there are none.
type binary struct {
	name string
	// clusterRoles are given to its ServiceAccount, which bears its name, besides every Role that it ships. Here one
	// cluster is source and target.
	clusterRoles []string
	// config renders its configuration file.
	config func(environment) string
	// ownClusterOnly keeps it away from a cluster that is not ours, and says why; empty: it does no harm there.
	ownClusterOnly string
	// show shows it at work, once all are started.
	show func(settings, context.Context, *report, world) error
}

// environment is what a configuration depends on.
type environment struct {
	kubeconfig                          string
	probePort, metricsPort, webhookPort int
	// foreign says that the cluster is not ours: then nothing is decided about what was there before.
	foreign bool
}

// world is what a walk-through acts on.
type world struct {
	client client.WithWatch
	admin  *rest.Config
}

// binaries in the order in which they are started.
func binaries() []binary {
	return []binary{
		{
			name: walkThroughBinary,
			clusterRoles: []string{
				"espalier-managedresource-controller-source",
				"espalier-managedresource-controller-target-base",
				"espalier-managedresource-controller-target-garbagecollector",
				"espalier-managedresource-controller-target-restricted",
			},
			config: func(e environment) string { return resourceManagerConfig(e, managedResourceSections) },
			show:   settings.walkThrough,
		},
		{
			name:         "token-controllers",
			clusterRoles: []string{"espalier-token-controllers-source", "espalier-token-controllers-target", "espalier-token-controllers-target-invalidator"},
			config:       func(e environment) string { return resourceManagerConfig(e, tokenSections(e)) },
			show:         settings.showToken,
		},
		{
			name:         "csr-approver",
			clusterRoles: []string{"espalier-csr-approver-source", "espalier-csr-approver-target"},
			config:       func(e environment) string { return resourceManagerConfig(e, csrSections(e)) },
			show:         settings.showCertificates,
		},
		{
			name:         "netpol-controller",
			clusterRoles: []string{"espalier-netpol-controller-target"},
			config:       func(e environment) string { return resourceManagerConfig(e, networkPolicySections) },
			show:         settings.showPolicies,
		},
		{
			name:           "node-controller",
			clusterRoles:   []string{"espalier-node-controller-target"},
			config:         func(e environment) string { return resourceManagerConfig(e, nodeSections) },
			ownClusterOnly: "it would act on nodes of yours",
		},
		{
			name:           "webhook-server",
			clusterRoles:   []string{"espalier-webhook-server-source", "espalier-webhook-server-target", "espalier-webhook-server-target-selfmanaged"},
			config:         func(e environment) string { return resourceManagerConfig(e, webhookSections(e)) },
			ownClusterOnly: "its API server cannot call this machine",
			show:           settings.showWebhooks,
		},
		{
			name:           "project-controller",
			clusterRoles:   []string{"espalier-project-controller-source", "espalier-project-controller-selfmanaged"},
			config:         controllerManagerConfig,
			ownClusterOnly: "it would act on projects of yours, and its API server cannot call this machine",
			show:           settings.showProject,
		},
	}
}

// webhookSections make the server manage certificates and webhook configurations itself. The token invalidator is on in both
// of its halves, as token-controllers has it.
func webhookSections(e environment) string {
	return fmt.Sprintf(`controllers:
  tokenInvalidator: {enabled: true}
webhooks:
  endpointSliceHints: {enabled: true}
  highAvailabilityConfig: {enabled: true, defaultNotReadyTolerationSeconds: 60, defaultUnreachableTolerationSeconds: 60}
  podTopologySpreadConstraints: {enabled: true}
  projectedTokenMount: {enabled: true}
  seccompProfile: {enabled: true}
  tokenInvalidator: {enabled: true}
espalier:
  webhooks:
    selfManaged: {url: "https://127.0.0.1:%d"}
`, e.webhookPort)
}

// tokenSections leave the static tokens of a cluster that is not ours alone. Any API server takes a token for its own audience.
// Secrets may ask for tokens of ServiceAccounts of their own namespace only.
func tokenSections(e environment) string {
	return fmt.Sprintf(`controllers:
  tokenRequestor: {enabled: true}
  tokenInvalidator: {enabled: %[1]t}
webhooks:
  tokenInvalidator: {enabled: %[1]t}
espalier:
  token:
    audiences: []
    sameCluster: {scope: SecretNamespace}
`, !e.foreign)
}

// csrSections decide nothing in a cluster that is not ours. There are no Machines.
func csrSections(e environment) string {
	return fmt.Sprintf(`controllers:
  kubeletCSRApprover: {enabled: true}
espalier:
  csrApprover: {withoutMachines: true, events: true, observeOnly: %t, deniedIdentities: {apiServer: true}}
`, e.foreign)
}

// networkPolicySections select namespaces by label, as the shipped configuration does, and of these the example's namespace
// only: the cluster may belong to the user.
const networkPolicySections = `controllers:
  networkPolicy:
    enabled: true
    namespaceSelectors:
    - matchLabels: {espalier.dev/network-policies: enabled, kubernetes.io/metadata.name: ` + exampleNamespace + `}
espalier:
  networkPolicy:
    clientNamespaceSelectors:
    - matchLabels: {espalier.dev/network-policies: enabled}
`

const nodeSections = `controllers:
  node: {enabled: true}
`

// managedResourceSections enable the garbage collector too, but only to report: the cluster may not be ours.
const managedResourceSections = `controllers:
  garbageCollector: {enabled: true}
espalier:
  managedResource:
    garbageCollectionReportOnly: true
    namespaces:
      sets: [` + systemNamespace + `]
      setSelector: {matchLabels: {espalier.dev/managedresources: allowed}}
`

// resourceManagerConfig renders the file that every binary of the resource manager family reads; sections is the part that
// says what this one shall do.
func resourceManagerConfig(e environment, sections string) string {
	return fmt.Sprintf(`apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
sourceClientConnection: {kubeconfig: %q}
leaderElection: {leaderElect: true, resourceNamespace: %s}
server:
  healthProbes: {bindAddress: 127.0.0.1, port: %d}
  metrics: {bindAddress: 127.0.0.1, port: %d}
  webhooks: {bindAddress: 127.0.0.1, port: %d}
logFormat: text
%s`, e.kubeconfig, systemNamespace, e.probePort, e.metricsPort, e.webhookPort, sections)
}

// controllerManagerConfig renders the file of project-controller. A project that nothing uses is stale at once, has a day of
// grace, and is deleted after three.
func controllerManagerConfig(e environment) string {
	return fmt.Sprintf(`apiVersion: controllermanager.config.gardener.cloud/v1alpha1
kind: ControllerManagerConfiguration
gardenClientConnection: {kubeconfig: %q}
leaderElection: {leaderElect: true, resourceNamespace: %s}
server:
  healthProbes: {bindAddress: 127.0.0.1, port: %d}
  metrics: {bindAddress: 127.0.0.1, port: %d}
logFormat: text
controllers:
  project:
    minimumLifetimeDays: 0
    staleGracePeriodDays: 1
    staleExpirationTimeDays: 3
    quotas:
    - config:
        apiVersion: v1
        kind: ResourceQuota
        spec: {hard: {pods: "100"}}
espalier:
  project:
    webhooks: {bindAddress: 127.0.0.1, port: %[5]d, selfManaged: {url: "https://127.0.0.1:%[5]d"}}
`, e.kubeconfig, systemNamespace, e.probePort, e.metricsPort, e.webhookPort)
}

// environmentOf gives each binary files and ports of its own; index is its place in binaries().
func (s settings) environmentOf(b binary, index int) environment {
	first := s.port + binaryPorts + index*portsPerBinary
	return environment{
		kubeconfig: s.state(b.name, "kubeconfig"), probePort: first, metricsPort: first + 1, webhookPort: first + 2,
		foreign: s.cluster != "",
	}
}

func (s settings) recordOf(b binary) string { return s.state("pids", b.name+".json") }

func (s settings) logOf(b binary) string { return s.state(b.name, "log") }

func (s settings) deployOf(b binary) string { return filepath.Join(s.root, "deploy", b.name) }

func (s settings) exists(b binary) bool {
	_, err := os.Stat(filepath.Join(s.root, "cmd", b.name))
	return err == nil
}

package main

import (
	"embed"
	"strconv"
	"strings"

	"github.com/espalier-dev/espalier/internal/deployable"
)

// systemNamespace is the namespace of the ServiceAccounts and leases of our binaries.
const systemNamespace = "espalier-system"

// binary is a program of this repository: cmd/<name>, with its roles in deploy/<name> and deploy/<name>/rbac, the roles for its users in
// deploy/<name>/roles, and its CRDs in deploy/<name>/crds; the last two are optional.
type binary struct {
	name string
	// program is the file in bin/ that runs; empty: the one with the binary's name.
	program string
	// namespace is the namespace of its ServiceAccount; empty: systemNamespace.
	namespace string
	// config is its configuration file, with the variables of environment.render; empty: garden-operator has deployed it in a ConfigMap.
	config string
	// ownClusterOnly says why the binary must not run in the user's own cluster; empty: it may.
	ownClusterOnly string
	// hidden leaves the binary out of the walkthrough.
	hidden bool
}

// environment contains the values that a configuration depends on.
type environment struct {
	kubeconfig                          string
	probePort, metricsPort, webhookPort int
	// foreign is true if the cluster belongs to the user: then the binaries decide nothing about existing objects.
	foreign bool
}

// render replaces the variables in a configuration file. $OWN is whether make up started the cluster, $FOREIGN the opposite.
func (e environment) render(config string) string {
	return strings.NewReplacer(
		"$KUBECONFIG", strconv.Quote(e.kubeconfig), "$PROBES", strconv.Itoa(e.probePort), "$METRICS", strconv.Itoa(e.metricsPort),
		"$WEBHOOKS", strconv.Itoa(e.webhookPort), "$FOREIGN", strconv.FormatBool(e.foreign), "$OWN", strconv.FormatBool(!e.foreign),
	).Replace(config)
}

// managedResources is the binary that keeps the objects of ManagedResources applied.
const managedResources = "managedresource-controller"

// binaries returns the binaries in the order in which they are started.
func binaries() []binary {
	return []binary{
		{name: managedResources, config: resourceManagerConfig + configOf(managedResources)},
		{name: "token-controllers", config: resourceManagerConfig + configOf("token-controllers")},
		{name: "csr-approver", config: resourceManagerConfig + configOf("csr-approver")},
		{name: "netpol-controller", config: resourceManagerConfig + configOf("netpol-controller")},
		{
			name: "node-controller", config: resourceManagerConfig + configOf("node-controller"), hidden: true,
			ownClusterOnly: "it would act on nodes of yours",
		},
		{
			name: "webhook-server", config: resourceManagerConfig + configOf("webhook-server"),
			ownClusterOnly: "its API server cannot call this machine",
		},
		{
			name: "project-controller", config: configOf("project-controller"),
			ownClusterOnly: "it would act on projects of yours, and its API server cannot call this machine",
		},
		{
			name: "garden-operator", config: operatorConfig(),
			ownClusterOnly: "it would deploy definitions and a resource manager, and its API server cannot call this machine",
		},
	}
}

// resourceManager is managedresource-controller as garden-operator deploys it: with the ConfigMap and the ServiceAccount of this name.
func resourceManager() binary {
	return binary{name: "gardener-resource-manager", program: managedResources, namespace: deployable.GardenNamespace}
}

// processes returns everything that runs beside the control plane, in the order in which it is started.
func processes() []binary { return append(binaries(), resourceManager()) }

// configs are the configuration files of the binaries. Files of the resource manager family come after resourceManagerConfig.
//
//go:embed config
var configs embed.FS

// configOf returns the configuration file of a binary. A test reads all of them.
func configOf(name string) string {
	text, _ := configs.ReadFile("config/" + name + ".yaml")
	return string(text)
}

// resourceManagerConfig is the part of the configuration file that all binaries of the resource manager family have.
const resourceManagerConfig = `apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
leaderElection: {leaderElect: true, resourceNamespace: ` + systemNamespace + `}
logFormat: text
` + sourceConfig

// sourceConfig names the kubeconfig of the cluster; serverConfig has the addresses on which a binary listens.
const (
	sourceConfig = "sourceClientConnection: {kubeconfig: $KUBECONFIG}\n" + serverConfig
	serverConfig = `server:
  healthProbes: {bindAddress: 127.0.0.1, port: $PROBES}
  metrics: {bindAddress: 127.0.0.1, port: $METRICS}
  webhooks: {bindAddress: 127.0.0.1, port: $WEBHOOKS}
`
)

// operatorConfig is the shipped file of garden-operator with other addresses.
func operatorConfig() string {
	operator, _ := deployable.Named("garden-operator")
	const url = `selfManaged: {url: "https://127.0.0.1:$WEBHOOKS"}`
	return strings.Replace(operator.Config, "selfManaged: {}", url, 1) +
		"logFormat: text\nruntimeClientConnection: {kubeconfig: $KUBECONFIG}\n" + serverConfig
}

// environmentOf gives each binary its own files and ports; index is its place in processes().
func (s settings) environmentOf(b binary, index int) environment {
	first := s.port + binaryPorts + index*portsPerBinary
	return environment{
		kubeconfig: s.state(b.name, "kubeconfig"), probePort: first, metricsPort: first + 1, webhookPort: first + 2,
		foreign: s.cluster != "",
	}
}

func (s settings) recordOf(b binary) string { return s.state("pids", b.name+".json") }

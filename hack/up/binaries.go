package main

import (
	"bytes"
	"embed"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-dev/espalier/internal/config"
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

const (
	// managedResources is the binary that keeps the objects of ManagedResources applied.
	managedResources = "managedresource-controller"
	// gardenOperator is the binary that reconciles Gardens.
	gardenOperator = "garden-operator"
)

// embedded are the configuration files of the binaries that do not run with the shipped one, and the walkthrough.
//
//go:embed config walkthrough.sh
var embedded embed.FS

// binaries returns the binaries in the order in which they are started: the order of the walkthrough, and then the binaries that it
// does not show.
func binaries() []binary {
	script, _ := embedded.ReadFile("walkthrough.sh")
	place := func(b binary) int {
		if at := bytes.Index(script, []byte("\n"+b.name+"() {\n")); at >= 0 {
			return at
		}
		return len(script)
	}
	all := make([]binary, 0, len(deployable.All()))
	for _, each := range deployable.All() {
		b := binary{name: each.Name, config: configOf(each), ownClusterOnly: ownClusterOnly(each)}
		b.hidden = place(b) == len(script)
		all = append(all, b)
	}
	slices.SortStableFunc(all, func(a, b binary) int { return place(a) - place(b) })
	return all
}

// ownClusterOnly returns why a binary must not run in the user's own cluster; empty: it may.
func ownClusterOnly(b deployable.Binary) string {
	const uncalled = "its API server cannot call this machine"
	switch {
	case b.Name == "node-controller":
		return "it would act on nodes of yours"
	case b.Name == "project-controller":
		return "it would act on projects of yours, and " + uncalled
	case b.Name == gardenOperator:
		return "it would deploy definitions and a resource manager, and " + uncalled
	case b.WebhookPort != 0:
		return uncalled
	}
	return ""
}

// resourceManager is managedresource-controller as garden-operator deploys it: with the ConfigMap and the ServiceAccount of this name.
func resourceManager() binary {
	return binary{name: "gardener-resource-manager", program: managedResources, namespace: deployable.GardenNamespace}
}

// processes returns everything that runs beside the control plane, in the order in which it is started.
func processes() []binary { return append(binaries(), resourceManager()) }

// configOf returns the configuration file of a binary: its file in config, after resourceManagerConfig unless it has an API version of its
// own, or else the shipped one with other addresses. A test reads all of them.
func configOf(b deployable.Binary) string {
	text, err := embedded.ReadFile("config/" + b.Name + ".yaml")
	switch {
	case err != nil:
		return shippedConfig(b)
	case strings.Contains(string(text), "apiVersion: "+config.ControllerManagerAPIVersion):
		return string(text)
	}
	return resourceManagerConfig + string(text)
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

func shippedConfig(b deployable.Binary) string {
	const url = `selfManaged: {url: "https://127.0.0.1:$WEBHOOKS"}`
	connection := "sourceClientConnection"
	if b.Name == gardenOperator {
		connection = "runtimeClientConnection"
	}
	return strings.Replace(b.Config, "selfManaged: {}", url, 1) +
		"logFormat: text\n" + connection + ": {kubeconfig: $KUBECONFIG}\n" + serverConfig
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

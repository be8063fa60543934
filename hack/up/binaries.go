package main

import (
	"bytes"
	"embed"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-dev/espalier/internal/deployable"
)

// systemNamespace is the namespace of the ServiceAccounts and leases of this repository's binaries.
const systemNamespace = "espalier-system"

// binary is a program of this repository: cmd/<name>. Its roles are in deploy/<name> and deploy/<name>/rbac, the roles for its users in
// deploy/<name>/roles, and its CRDs in deploy/<name>/crds; the last two folders are optional.
type binary struct {
	name string
	// program is the file in bin/ to run; empty: the file with the name of the binary.
	program string
	// namespace is the namespace of the binary's ServiceAccount; empty: systemNamespace.
	namespace string
	// config is the configuration file, with the variables of environment.render; empty: garden-operator has deployed the file in a
	// ConfigMap.
	config string
	// ownClusterOnly is the reason why the binary must not run in a cluster of the user; empty: it may.
	ownClusterOnly string
	// hidden is true if the walkthrough does not show the binary.
	hidden bool
}

// environment contains the values that the configuration file of a binary depends on.
type environment struct {
	kubeconfig                          string
	probePort, metricsPort, webhookPort int
	// foreign is true if the cluster belongs to the user. Then the binaries make no decisions about existing objects.
	foreign bool
}

// render replaces the variables in a configuration file. $OWN is true if make up started the cluster, $FOREIGN is the opposite.
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

// embedded contains the configuration files of the binaries that do not run with the shipped ones, and the walkthrough.
//
//go:embed config walkthrough.sh
var embedded embed.FS

// binaries returns the binaries in the order in which they are started: first the binaries of the walkthrough, in its order, and then the
// others.
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

// ownClusterOnly returns the reason why a binary must not run in a cluster of the user; empty: it may.
func ownClusterOnly(b deployable.Binary) string {
	const uncalled = "its API server cannot call this machine"
	switch {
	case b.Name == "node-controller":
		return "it would act on nodes of yours"
	case b.Name == "extension-controller":
		return "it would install extensions beside a gardenlet of yours"
	case b.Name == "project-controller":
		return "it would act on projects of yours, and " + uncalled
	case b.Name == gardenOperator:
		return "it would deploy definitions and a resource manager, and " + uncalled
	case b.WebhookPort != 0:
		return uncalled
	}
	return ""
}

// resourceManager returns managedresource-controller in the form in which garden-operator deploys it: with the ConfigMap and the
// ServiceAccount of this name.
func resourceManager() binary {
	return binary{name: "gardener-resource-manager", program: managedResources, namespace: deployable.GardenNamespace}
}

// processes returns all processes beside the control plane, in the order in which they are started.
func processes() []binary { return append(binaries(), resourceManager()) }

// configOf returns the configuration file of a binary: its file in the folder config, after resourceManagerConfig unless the file has its
// own API version. Without such a file it is the shipped file with other addresses. A test reads all of them.
func configOf(b deployable.Binary) string {
	text, err := embedded.ReadFile("config/" + b.Name + ".yaml")
	switch {
	case err != nil:
		return shippedConfig(b)
	case strings.Contains(string(text), "\napiVersion: "):
		return string(text)
	}
	return resourceManagerConfig + string(text)
}

// resourceManagerConfig is the common part of the configuration files of type ResourceManagerConfiguration.
const resourceManagerConfig = `apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
leaderElection: {leaderElect: true, resourceNamespace: ` + systemNamespace + `}
logFormat: text
` + sourceConfig

// sourceConfig contains the kubeconfig of the cluster. serverConfig contains the addresses at which a binary listens.
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

// environmentOf returns the environment of a binary, with its own files and ports; index is its position in processes().
func (s settings) environmentOf(b binary, index int) environment {
	first := s.port + binaryPorts + index*portsPerBinary
	return environment{
		kubeconfig: s.state(b.name, "kubeconfig"), probePort: first, metricsPort: first + 1, webhookPort: first + 2,
		foreign: s.cluster != "",
	}
}

func (s settings) recordOf(b binary) string { return s.state("pids", b.name+".json") }

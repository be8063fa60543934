package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// systemNamespace holds the ServiceAccounts and leases of our binaries.
const systemNamespace = "espalier-system"

// binary is a program of this repository: cmd/<name>, with its roles in deploy/<name> and deploy/<name>/rbac.
type binary struct {
	name string
	// clusterRoles are given to its ServiceAccount, which bears its name, besides every Role that it ships. Here one
	// cluster is source and target.
	clusterRoles []string
	// config renders its configuration file.
	config func(environment) string
}

// environment is what a configuration depends on.
type environment struct {
	kubeconfig                          string
	probePort, metricsPort, webhookPort int
}

// binaries in the order in which they are started.
func binaries() []binary {
	return []binary{{
		name: "managedresource-controller",
		clusterRoles: []string{
			"espalier-managedresource-controller-source",
			"espalier-managedresource-controller-target-base",
			"espalier-managedresource-controller-target-garbagecollector",
			"espalier-managedresource-controller-target-restricted",
		},
		config: func(e environment) string { return resourceManagerConfig(e, managedResourceSections) },
	}}
}

// managedResourceSections enable the garbage collector too, but only to report: the cluster may not be ours.
const managedResourceSections = `controllers:
  garbageCollector: {enabled: true}
espalier:
  managedResource: {garbageCollectionReportOnly: true}
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

// environmentOf gives each binary files and ports of its own; index is its place in binaries().
func (s settings) environmentOf(b binary, index int) environment {
	first := s.port + binaryPorts + index*portsPerBinary
	return environment{kubeconfig: s.state(b.name, "kubeconfig"), probePort: first, metricsPort: first + 1, webhookPort: first + 2}
}

func (s settings) recordOf(b binary) string { return s.state("pids", b.name+".json") }

func (s settings) logOf(b binary) string { return s.state(b.name, "log") }

func (s settings) deployOf(b binary) string { return filepath.Join(s.root, "deploy", b.name) }

func (s settings) exists(b binary) bool {
	_, err := os.Stat(filepath.Join(s.root, "cmd", b.name))
	return err == nil
}

package main

import (
	"fmt"
	"path/filepath"
	"strconv"
)

const (
	// defaultPort is the first of the ports in use; unusual on purpose, and below what systems give to outgoing connections.
	defaultPort = 26443
	// binaryPorts is how far the ports of the binaries are from the first one, which with the next two is the control plane's.
	binaryPorts = 10
	// portsPerBinary are its probes, its metrics, and its webhooks.
	portsPerBinary = 3
)

// settings are where everything is.
type settings struct {
	root string
	// port is the first one in use.
	port int
	// cluster is the kubeconfig of an existing cluster; empty means that one is started.
	cluster string
}

// readSettings reads the environment. KUBECONFIG is not looked at: the cluster that a shell happens to point to must not
// be written to by accident.
func readSettings(root string, getenv func(string) string) (settings, error) {
	s := settings{root: root, port: defaultPort, cluster: getenv("ESPALIER_KUBECONFIG")}
	if text := getenv("ESPALIER_PORT"); text != "" {
		port, err := strconv.Atoi(text)
		if last := 65535 - binaryPorts - portsPerBinary*len(binaries()); err != nil || port < 1 || port > last {
			return settings{}, fmt.Errorf("ESPALIER_PORT: %q is not a port from 1 to %d", text, last)
		}
		s.port = port
	}
	if s.cluster != "" {
		path, err := filepath.Abs(s.cluster)
		if err != nil {
			return settings{}, fmt.Errorf("ESPALIER_KUBECONFIG: %w", err)
		}
		s.cluster = path
	}
	return s, nil
}

// suggestedPort is a first port from which nothing reaches the taken one.
func suggestedPort(taken int) int {
	if taken > 60000 {
		return defaultPort
	}
	return (taken/1000+1)*1000 + defaultPort%1000
}

func (s settings) state(parts ...string) string {
	return filepath.Join(append([]string{s.root, ".local"}, parts...)...)
}

func (s settings) bin(name string) string { return filepath.Join(s.root, "bin", name) }

func (s settings) controlPlane() string { return s.state("controlplane") }

// kubeconfig is the administrator's.
func (s settings) kubeconfig() string {
	if s.cluster != "" {
		return s.cluster
	}
	return s.state("kubeconfig")
}

// externalCluster is a file that remembers an existing cluster for `make down`.
func (s settings) externalCluster() string { return s.state("cluster") }

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

const (
	// defaultPort is the first port; it is unusual on purpose, and below the range for outgoing connections.
	defaultPort = 26443
	// binaryPorts is the offset of the ports of the binaries from the first port. The first three ports are the control plane's.
	binaryPorts = 10
	// portsPerBinary are one port for probes, one for metrics, and one for webhooks.
	portsPerBinary = 3
)

// settings contain the paths and ports of a run.
type settings struct {
	root string
	// port is the first port to use.
	port int
	// cluster is the kubeconfig of an existing cluster; empty means that a cluster is started.
	cluster string
}

// readSettings reads the environment. It ignores KUBECONFIG, so that the current cluster of a shell is not changed by accident.
func readSettings(root string, getenv func(string) string) (settings, error) {
	s := settings{root: root, port: defaultPort, cluster: getenv("ESPALIER_KUBECONFIG")}
	if text := getenv("ESPALIER_PORT"); text != "" {
		port, err := strconv.Atoi(text)
		if last := 65535 - binaryPorts - portsPerBinary*len(processes()); err != nil || port < 1 || port > last {
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

// suggestedPort returns a first port with which a run does not use the taken port.
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

// kubeconfig is the path of the administrator's kubeconfig.
func (s settings) kubeconfig() string {
	if s.cluster != "" {
		return s.cluster
	}
	return s.state("kubeconfig")
}

// lock prevents two runs from using the same state. The operating system releases the lock when the process ends in any way.
func (s settings) lock() (unlock func(), err error) {
	if err = os.MkdirAll(s.state(), 0o700); err != nil {
		return nil, fmt.Errorf("create state folder: %w", err)
	}
	file, err := os.OpenFile(s.state("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock state folder: %w", err)
	}
	if err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.New("another make up or make down is running; wait for its end")
		}
		return nil, fmt.Errorf("lock state folder: %w", err)
	}
	return func() { _ = file.Close() }, nil
}

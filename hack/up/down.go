package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

// stopGrace is how long a binary may take to end before it is killed; it gives its lease back in that time.
const stopGrace = 10 * time.Second

// down stops what is recorded, binaries first, and removes the state. Nothing recorded is not an error.
func down(s settings, r *report) error {
	if _, err := os.Stat(s.state()); errors.Is(err, os.ErrNotExist) {
		r.say("Nothing runs.")
		return nil
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	var stopped []string
	for _, b := range slices.Backward(binaries()) {
		ran, stopErr := s.stop(b)
		if stopErr != nil {
			return stopErr
		}
		if ran {
			stopped = append(stopped, b.name)
		}
	}
	parts, err := local.StopRecorded(s.controlPlane())
	if err != nil {
		return err
	}
	cluster, _ := os.ReadFile(s.externalCluster()) // missing unless a cluster was given
	if err := s.removeState(); err != nil {
		return err
	}
	if stopped = append(stopped, parts...); len(stopped) > 0 {
		r.step("stopped %s", strings.Join(stopped, ", "))
	} else {
		r.step("nothing ran any more; removed what it had left")
	}
	if len(cluster) > 0 {
		r.say(leftInCluster(string(cluster)))
	}
	return nil
}

// removeState leaves alone what others have in that folder: the node of `make up-node`, images, and reports of end-to-end tests.
func (s settings) removeState() error {
	entries, err := os.ReadDir(s.state())
	if err != nil {
		return fmt.Errorf("remove state: %w", err)
	}
	for _, entry := range entries {
		if slices.Contains([]string{"node", "images", "e2e"}, entry.Name()) {
			continue
		}
		if err := os.RemoveAll(s.state(entry.Name())); err != nil {
			return fmt.Errorf("remove state: %w", err)
		}
	}
	_ = os.Remove(s.state()) // unless there is something left
	return nil
}

// stop ends the binary if it runs.
func (s settings) stop(b binary) (ran bool, err error) {
	p, err := child.Find(s.recordOf(b))
	if err != nil || p == nil {
		return false, err
	}
	return true, p.Stop(stopGrace)
}

// leftInCluster: a cluster that is not ours may hold other ManagedResources, which would go with their CRD.
func leftInCluster(kubeconfig string) string {
	return fmt.Sprintf(`
The cluster of %s was not started by make up, so these were left in it: the example and its namespace %q, the namespace
%q, ClusterRoles and their bindings whose names begin with "espalier-", and the CRDs of deploy/crds. With no controller
running, the ManagedResource keeps its finalizer: run make up and delete it before you delete its namespace.`,
		kubeconfig, exampleNamespace, systemNamespace)
}

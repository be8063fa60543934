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

// stopGrace is how long a binary may take to stop before it is killed; it releases its lease in that time.
const stopGrace = 10 * time.Second

// down stops the recorded processes, binaries first, and removes the state. If no process is recorded, that is not an error.
func down(s settings, r *local.Report) error {
	if _, err := os.Stat(s.state()); errors.Is(err, os.ErrNotExist) {
		r.Say("Nothing runs.")
		return nil
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	var stopped []string
	for _, b := range slices.Backward(processes()) {
		ran, stopErr := child.StopRecorded(s.recordOf(b), stopGrace)
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
	cluster, _ := os.ReadFile(s.state("cluster")) // this file exists only if the user named a cluster
	if err := s.removeState(); err != nil {
		return err
	}
	if stopped = append(stopped, parts...); len(stopped) > 0 {
		r.Step("stopped %s", strings.Join(stopped, ", "))
	} else {
		r.Step("nothing ran any more; removed what it had left")
	}
	if len(cluster) > 0 {
		r.Say(leftInCluster(string(cluster)))
	}
	return nil
}

// removeState keeps the files of other commands in the state folder: the node of `make up-node`, images, and reports of end-to-end tests.
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
	_ = os.Remove(s.state()) // fails if the folder contains other files
	return nil
}

// leftInCluster returns a text about the objects that stay in a cluster of the user. The CRDs are among these objects, because the cluster
// may contain other ManagedResources, which would be deleted with their CRD.
func leftInCluster(kubeconfig string) string {
	return fmt.Sprintf(`
The cluster of %s was not started by make up, so these were left in it: the example and its namespace %q, the namespace
%q, ClusterRoles and their bindings whose names begin with "espalier-", and the CRDs of deploy/crds. With no controller
running, the ManagedResource keeps its finalizer: run make up and delete it before you delete its namespace.`,
		kubeconfig, "orchard", systemNamespace)
}

package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// A process that would do nothing reports that before it connects to a cluster.
func TestNothingToDo(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "config.yaml")
	g.Expect(os.WriteFile(file, []byte("apiVersion: resourcemanager.config.gardener.cloud/v1alpha1\nkind: ResourceManagerConfiguration\n"+
		"leaderElection: {resourceNamespace: garden}\ncontrollers: {kubeletCSRApprover: {enabled: false}}\n"), 0o600)).To(Succeed())
	g.Expect(run(t.Context(), []string{"--config", file}, io.Discard)).
		To(MatchError("nothing to do: set controllers.kubeletCSRApprover.enabled: true, or do not run csr-approver"))
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// A token that is not used any more must not open the virtual cluster for ever.
func TestBootstrapTokenExpires(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	kubectl, applied := filepath.Join(dir, "kubectl"), filepath.Join(dir, "applied.yaml")
	g.Expect(os.WriteFile(kubectl, []byte("#!/bin/sh\ncase \"$*\" in apply*--kubeconfig*) cat >\""+applied+
		"\" ;; *apply*) cat >/dev/null ;; *) echo authority ;; esac\n"), 0o700)).To(Succeed())
	command := exec.CommandContext(t.Context(), "bash", "cluster.sh", "bootstrap")
	command.Env = append(os.Environ(), "KUBECTL="+kubectl, "VIRTUAL=kubeconfig")
	output, err := command.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(output))
	content, err := os.ReadFile(applied)
	g.Expect(err).NotTo(HaveOccurred())
	secret := &corev1.Secret{}
	g.Expect(yaml.UnmarshalStrict(content, secret)).To(Succeed())
	g.Expect(secret.Type).To(Equal(corev1.SecretTypeBootstrapToken))
	expiration, err := time.Parse(time.RFC3339, secret.StringData["expiration"])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(time.Until(expiration)).To(And(BeNumerically(">", 30*time.Minute), BeNumerically("<=", time.Hour)))
}

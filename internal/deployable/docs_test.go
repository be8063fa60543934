package deployable_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/test/local"
)

// TestTheDocumentationForgetsNoBinary holds what docs/deploying.md lists to what there is.
func TestTheDocumentationForgetsNoBinary(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root(t), "docs", "deploying.md"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, each := range deployable.All() {
		t.Run(each.Name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(string(content)).To(ContainSubstring("\n- {name: espalier.local/" + each.Name + ", newName: registry.example.com/espalier/" + each.Name + ", newTag: "))
			g.Expect(string(content)).To(ContainSubstring("\n   kubectl delete --ignore-not-found -k deploy/" + each.Name + "\n"))
			g.Expect(string(content)).To(ContainSubstring("\n| " + each.Name + " | "))
		})
	}
}

// TestDocumentedCommandsMakeAMatchingCertificate runs the commands of the documentation for servers that are not self-managed:
// the certificate is valid for the Service, the Deployment mounts it, and every registered webhook trusts its authority.
func TestDocumentedCommandsMakeAMatchingCertificate(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("needs openssl")
	}
	for _, binary := range []string{"webhook-server", "project-controller"} {
		t.Run(binary, func(t *testing.T) {
			g, folder, name := NewWithT(t), t.TempDir(), "espalier-"+binary
			keys := filepath.Join(folder, ".local", binary)
			g.Expect(os.Symlink(filepath.Join(root(t), "deploy"), filepath.Join(folder, "deploy"))).To(Succeed())
			// Other tests create Pods, which these webhooks would refuse. The context of the test ends before functions of Cleanup run.
			defer kubectl(t, "delete", "--ignore-not-found", "mutatingwebhookconfiguration,validatingwebhookconfiguration", name)
			for _, block := range []string{"certificate", "overlay", "registration"} {
				shell(t, folder, commandsOf(t, binary+".md", block))
			}

			entries, err := filepath.Glob(filepath.Join(folder, "*.key"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(entries).To(BeEmpty(), "keys outside of the folder that Git ignores")
			authority, err := os.ReadFile(filepath.Join(keys, "ca.crt"))
			g.Expect(err).NotTo(HaveOccurred())
			roots := x509.NewCertPool()
			g.Expect(roots.AppendCertsFromPEM(authority)).To(BeTrue())
			_, err = certificateIn(t, filepath.Join(keys, "tls.crt")).Verify(x509.VerifyOptions{DNSName: name + ".espalier-system.svc", Roots: roots})
			g.Expect(err).NotTo(HaveOccurred())

			g.Expect(kubectl(t, "-n", "espalier-system", "get", "deployment", name, "-o",
				"jsonpath={.spec.template.spec.volumes[?(@.name=='tls')].secret.secretName} {.spec.template.spec.containers[0].volumeMounts[?(@.name=='tls')].mountPath}")).
				To(Equal(name + "-tls /var/run/espalier/tls"))
			expectValidWithoutWarning(t, binary, kubectl(t, "-n", "espalier-system", "get", "configmap", name, "-o", `jsonpath={.data.config\.yaml}`))
			for _, kind := range []string{"mutatingwebhookconfiguration", "validatingwebhookconfiguration"} {
				bundles := strings.Fields(kubectl(t, "get", kind, name, "-o", "jsonpath={.webhooks[*].clientConfig.caBundle}"))
				names := strings.Fields(kubectl(t, "get", kind, name, "-o", "jsonpath={.webhooks[*].name}"))
				g.Expect(bundles).To(HaveLen(len(names)))
				g.Expect(bundles).To(HaveEach(base64.StdEncoding.EncodeToString(authority)))
			}
		})
	}
}

// commandsOf returns the named block of shell commands of a page.
func commandsOf(t *testing.T, page, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root(t), "docs", page))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	_, after, found := strings.Cut(string(content), "<!-- commands: "+name+" -->\n```sh\n")
	NewWithT(t).Expect(found).To(BeTrue(), "%s has no commands %q", page, name)
	block, _, _ := strings.Cut(after, "\n```\n")
	return block
}

// shell runs commands as administrator of the source, with the kubectl of the control plane.
func shell(t *testing.T, folder, commands string) {
	t.Helper()
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	assets, err := local.Assets(t.Context(), os.Stderr)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(folder, "kubeconfig"), servers.Source.Kubeconfig, 0o600)).To(Succeed())
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "PATH="+assets+":"+os.Getenv("PATH"), "KUBECONFIG="+filepath.Join(folder, "kubeconfig"))
	output, err := cmd.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(output))
}

func certificateIn(t *testing.T, file string) *x509.Certificate {
	t.Helper()
	content, err := os.ReadFile(file)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	block, _ := pem.Decode(content)
	NewWithT(t).Expect(block).NotTo(BeNil())
	certificate, err := x509.ParseCertificate(block.Bytes)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return certificate
}

func expectValidWithoutWarning(t *testing.T, binary, content string) {
	t.Helper()
	g := NewWithT(t)
	if binary == "project-controller" {
		c, warnings, err := config.ControllerManager([]byte(content))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(warnings).To(BeEmpty())
		g.Expect(c.Validate()).To(BeEmpty())
		return
	}
	c, warnings, err := config.ResourceManager([]byte(content))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(warnings).To(BeEmpty())
	g.Expect(c.Validate()).To(BeEmpty())
}

package deployable_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/test/local"
)

// TestDocumentedCommandsMakeAMatchingCertificate runs the documented commands for servers that do not manage their own certificate: the
// certificate is valid for the Service, the Deployment mounts the certificate, and every registered webhook has the authority of the
// certificate as its CA bundle. The repository does not require openssl: without openssl, the test creates the keys itself, and adds a
// note to the table of CI.
func TestDocumentedCommandsMakeAMatchingCertificate(t *testing.T) {
	_, missing := exec.LookPath("openssl")
	if missing != nil {
		noteForCI(t, "SKIPPED in part: openssl is not installed, so the documented openssl commands were not run")
	}
	for _, binary := range []string{"webhook-server", "project-controller"} {
		t.Run(binary, func(t *testing.T) {
			g, folder, name := NewWithT(t), t.TempDir(), "espalier-"+binary
			keys := filepath.Join(folder, ".local", binary)
			g.Expect(os.Symlink(filepath.Join(root(t), "deploy"), filepath.Join(folder, "deploy"))).To(Succeed())
			// The webhooks would refuse the Pods that other tests create, so they are deleted at once. Functions of Cleanup run only after
			// the context of the test has ended.
			defer kubectl(t, "delete", "--ignore-not-found", "mutatingwebhookconfiguration,validatingwebhookconfiguration", name)
			before := ""
			if missing != nil {
				writeKeys(t, keys, name+".espalier-system.svc")
				before = `openssl() { [ "$1" != base64 ] || base64 -w0 "$4"; }` + "\n"
			}
			for _, block := range []string{"certificate", "overlay", "registration"} {
				shell(t, folder, before+commandsOf(t, binary+".md", block))
			}

			entries, err := filepath.Glob(filepath.Join(folder, "*.key"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(entries).To(BeEmpty(), "keys outside of the folder that Git ignores")
			authority, err := os.ReadFile(filepath.Join(keys, "ca.crt"))
			g.Expect(err).NotTo(HaveOccurred())
			roots := x509.NewCertPool()
			g.Expect(roots.AppendCertsFromPEM(authority)).To(BeTrue())
			_, err = certificateIn(t, filepath.Join(keys, "tls.crt")).
				Verify(x509.VerifyOptions{DNSName: name + ".espalier-system.svc", Roots: roots})
			g.Expect(err).NotTo(HaveOccurred())

			g.Expect(kubectl(t, "-n", "espalier-system", "get", "deployment", name, "-o",
				"jsonpath={.spec.template.spec.volumes[?(@.name=='tls')].secret.secretName} "+
					"{.spec.template.spec.containers[0].volumeMounts[?(@.name=='tls')].mountPath}")).To(Equal(name + "-tls /var/run/espalier/tls"))
			expectValidWithoutWarning(t, binary,
				kubectl(t, "-n", "espalier-system", "get", "configmap", name, "-o", `jsonpath={.data.config\.yaml}`))
			for _, kind := range []string{"mutatingwebhookconfiguration", "validatingwebhookconfiguration"} {
				bundles := strings.Fields(kubectl(t, "get", kind, name, "-o", "jsonpath={.webhooks[*].clientConfig.caBundle}"))
				names := strings.Fields(kubectl(t, "get", kind, name, "-o", "jsonpath={.webhooks[*].name}"))
				g.Expect(bundles).To(HaveLen(len(names)))
				g.Expect(bundles).To(HaveEach(base64.StdEncoding.EncodeToString(authority)))
			}
		})
	}
}

// TestDocumentedCommandsGrantRights runs commands of the documentation, and asks the API server whether they have granted the right.
func TestDocumentedCommandsGrantRights(t *testing.T) {
	for name, tc := range map[string]struct{ page, user, right string }{
		"lease": {
			"running.md", "managedresource-controller", "update leases.coordination.k8s.io/gardener-resource-manager -n garden",
		},
		"names":             {"webhook-server.md", "webhook-server", "patch mutatingwebhookconfigurations.admissionregistration.k8s.io/hooks"},
		"creation":          {"project-controller.md", "", "create projects.core.gardener.cloud --as-group=team-leads"},
		"quota":             {"project-controller.md", "", "choose-quota projects.core.gardener.cloud --as-group=quota-administrators"},
		"source-namespace":  {"security.md", "managedresource-controller", "patch secrets -n shop"},
		"restricted-target": {"security.md", "managedresource-controller", "delete configmaps -n default"},
		"identity":          {"token-controllers.md", "token-controllers", "get namespaces/kube-system -n kube-system"},
	} {
		t.Run(tc.page+" "+name, func(t *testing.T) {
			folder, user := t.TempDir(), "no-account"
			NewWithT(t).Expect(os.Symlink(filepath.Join(root(t), "deploy"), filepath.Join(folder, "deploy"))).To(Succeed())
			// Other tests bind roles to the ServiceAccounts of the binaries. So the commands are run for a ServiceAccount that only this
			// case uses.
			commands := strings.ReplaceAll(commandsOf(t, tc.page, name), "espalier-system:espalier-", "espalier-system:"+name+"-")
			if tc.user != "" {
				user = "system:serviceaccount:espalier-system:" + name + "-" + tc.user
			}
			shell(t, folder, "kubectl apply --server-side -f deploy/namespace -f deploy/project-controller/crds -f "+
				"deploy/project-controller/roles\n"+
				"for each in garden shop; do kubectl create namespace $each --dry-run=client -o yaml | kubectl apply --server-side -f -; done\n"+
				"kubectl apply --server-side -f deploy/managedresource-controller/rbac\n"+
				"if kubectl auth can-i "+tc.right+" --as="+user+"; then exit 1; fi\n"+
				commands+"\n"+
				"for _ in $(seq 300); do kubectl auth can-i "+tc.right+" --as="+user+" && exit; sleep 0.1; done; exit 1")
		})
	}
}

// noteForCI logs a note, which also appears in the table of .ci/run.
func noteForCI(t *testing.T, note string) {
	t.Helper()
	t.Log(note)
	if file := os.Getenv("CI_NOTE"); file != "" {
		NewWithT(t).Expect(os.WriteFile(file, []byte(note), 0o600)).To(Succeed())
	}
}

// writeKeys writes the same files as the documented openssl commands: an authority, and a certificate for a host that it has signed.
func writeKeys(t *testing.T, folder, host string) {
	t.Helper()
	g := NewWithT(t)
	now := time.Now()
	key := func() *ecdsa.PrivateKey {
		made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		g.Expect(err).NotTo(HaveOccurred())
		return made
	}
	authorityKey, servingKey := key(), key()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	serving := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: authority.NotBefore, NotAfter: authority.NotAfter, DNSNames: []string{host},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	g.Expect(os.MkdirAll(folder, 0o700)).To(Succeed())
	write := func(name, kind string, content []byte, err error) {
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600)).To(Succeed())
	}
	content, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	write("ca.crt", "CERTIFICATE", content, err)
	content, err = x509.CreateCertificate(rand.Reader, serving, authority, servingKey.Public(), authorityKey)
	write("tls.crt", "CERTIFICATE", content, err)
	content, err = x509.MarshalPKCS8PrivateKey(servingKey)
	write("tls.key", "PRIVATE KEY", content, err)
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

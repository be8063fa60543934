package proof_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/proof"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

const host = "api.example.com"

// place is a folder with credentials of two generations.
type place struct {
	*WithT
	t      *testing.T
	folder string
	source secretconfig.Source
	ca     map[string][]byte
}

func (p *place) generate(config secretconfig.Config) map[string][]byte {
	p.t.Helper()
	data, err := config.Generate(p.source)
	p.Expect(err).NotTo(HaveOccurred())
	return data
}

func (p *place) authority(name string) map[string][]byte {
	return p.generate(secretconfig.Certificate{Name: name, CommonName: name, Type: secretconfig.CA})
}

func (p *place) signed(authority map[string][]byte, certificate secretconfig.Certificate) map[string][]byte {
	p.t.Helper()
	var err error
	certificate.SigningCA, err = secretconfig.ParseAuthority(authority)
	p.Expect(err).NotTo(HaveOccurred())
	return p.generate(certificate)
}

func (p *place) write(name string, content ...[]byte) string {
	p.t.Helper()
	file := filepath.Join(p.folder, name)
	p.Expect(os.WriteFile(file, []byte(strings.Join(texts(content), "\n")), 0o600)).To(Succeed())
	return file
}

func texts(content [][]byte) []string {
	all := make([]string, 0, len(content))
	for _, each := range content {
		all = append(all, string(each))
	}
	return all
}

// start starts a replica of kube-apiserver that knows these authorities of clients and keys for tokens. It signs tokens with the last key.
func (p *place) start(name string, clients, keys [][]byte) proof.Server {
	p.t.Helper()
	port, release, err := local.FreePort()
	p.Expect(err).NotTo(HaveOccurred())
	release()
	of := func(elements ...string) string {
		return filepath.Join(append([]string{os.Getenv(local.TestServersVariable), "source"}, elements...)...)
	}
	content, err := os.ReadFile(of("ports.json"))
	p.Expect(err).NotTo(HaveOccurred())
	var ports local.Ports
	p.Expect(json.Unmarshal(content, &ports)).To(Succeed())
	serving := p.signed(p.ca, secretconfig.Certificate{
		Name: "server", CommonName: "server", DNSNames: []string{host}, Type: secretconfig.Server,
	})
	assets, err := local.Assets(p.t.Context(), io.Discard)
	p.Expect(err).NotTo(HaveOccurred())
	server, err := child.Start(child.Spec{
		Name: "kube-apiserver", Path: filepath.Join(assets, "kube-apiserver"), Dir: p.folder, Args: []string{
			"--tls-cert-file=" + p.write(name+".crt", serving["tls.crt"]), "--tls-private-key-file=" + p.write(name+".key", serving["tls.key"]),
			"--client-ca-file=" + p.write(name+"-clients.crt", clients...),
			"--service-account-key-file=" + p.write(name+"-keys", keys...),
			"--service-account-signing-key-file=" + p.write(name+"-key", keys[len(keys)-1]),
			"--service-account-issuer=https://" + host, "--api-audiences=kubernetes", fmt.Sprintf("--secure-port=%d", port),
			fmt.Sprintf("--etcd-servers=https://127.0.0.1:%d", ports.Etcd), "--etcd-prefix=/" + filepath.Base(filepath.Dir(p.folder)),
			"--etcd-cafile=" + of("pki", "etcd-ca.crt"), "--etcd-certfile=" + of("pki", "etcd.crt"), "--etcd-keyfile=" + of("pki", "etcd.key"),
			"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--cert-dir=" + p.folder,
		},
		LogFile: filepath.Join(p.folder, name+".log"), RecordFile: filepath.Join(p.folder, name+".json"),
	})
	p.Expect(err).NotTo(HaveOccurred())
	p.t.Cleanup(func() { p.Expect(server.Stop(0)).To(Succeed()) })
	return proof.Server{Name: name, Host: host, Port: port, Path: "/api"}
}

// Real API servers show that credentials of both generations are made right: a credential that every server refuses would prove nothing.
// They also serve anonymous users, and a client that shows no certificate would be one.
func TestReplicaThatAcceptsTheFormerGenerationIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("starts API servers")
	}
	p := &place{WithT: NewWithT(t), t: t, folder: t.TempDir(), source: secretconfig.RandomSource(clock.RealClock{}.Now())}
	_, err := local.ForTests() // it uses their etcd
	p.Expect(err).NotTo(HaveOccurred())
	p.ca = p.authority("ca")
	formerClients, clients := p.authority("former"), p.authority("current")
	formerKey := p.generate(secretconfig.RSAKey{Name: "former", Bits: 2048})["id_rsa"]
	key := p.generate(secretconfig.RSAKey{Name: "current", Bits: 2048})["id_rsa"]
	replicas := map[string]proof.Server{
		"behind":  p.start("behind", [][]byte{clients["ca.crt"], formerClients["ca.crt"]}, [][]byte{formerKey, key}),
		"current": p.start("current", [][]byte{clients["ca.crt"]}, [][]byte{key}),
	}

	certificate := func(authority map[string][]byte) proof.Credential {
		data := p.signed(authority, secretconfig.Certificate{Name: "probe", CommonName: proof.User, Type: secretconfig.Client})
		credential, failure := proof.Certificate(data)
		p.Expect(failure).NotTo(HaveOccurred())
		return credential
	}
	own := p.signed(clients, secretconfig.Certificate{
		Name: "admin", CommonName: "admin", Organization: []string{"system:masters"}, Type: secretconfig.Client,
	})
	admin, err := client.New(&rest.Config{
		Host: fmt.Sprintf("https://127.0.0.1:%d", replicas["current"].Port), TLSClientConfig: rest.TLSClientConfig{
			CAData: p.ca["ca.crt"], ServerName: host, CertData: own["tls.crt"], KeyData: own["tls.key"],
		},
	}, client.Options{})
	p.Expect(err).NotTo(HaveOccurred())
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "rotation-probe"}}
	p.Expect(local.Await(t.Context(), 2*time.Minute, "kube-apiserver to serve", func(ctx context.Context) error {
		return admin.Create(ctx, account.DeepCopy())
	})).To(Succeed())
	p.Expect(admin.Get(t.Context(), client.ObjectKeyFromObject(account), account)).To(Succeed())
	token := func(uid string, key []byte) proof.Credential {
		claims, err := proof.Scope{Issuer: "https://" + host, Audience: "kubernetes", UID: uid}.Claims(p.source.Now)
		p.Expect(err).NotTo(HaveOccurred())
		signed, err := proof.Token(claims, key)
		p.Expect(err).NotTo(HaveOccurred())
		return proof.Credential{Token: signed}
	}

	ask := func(replica string, demand proof.Demand) string {
		t.Helper()
		server := replicas[replica]
		var problem string
		p.Eventually(func() error {
			status, err := server.Ask(t.Context(), proof.Client{}, "127.0.0.1", p.ca["ca.crt"], demand.Credential)
			problem = demand.Problem(replica, status, err)
			if err != nil || status >= 500 {
				return fmt.Errorf("status %d: %w", status, err) // it has just started
			}
			return nil
		}, time.Minute).Should(Succeed())
		return problem
	}
	uid := string(account.UID)
	for name, tc := range map[string]struct{ former, current proof.Credential }{
		"a certificate": {certificate(formerClients), certificate(clients)},
		"a token":       {token(uid, formerKey), token(uid, key)},
	} {
		former := proof.Demand{Sends: "former " + name, Credential: tc.former, Wants: proof.Refused}
		current := proof.Demand{Sends: "current " + name, Credential: tc.current, Wants: proof.Accepted}
		p.Expect(ask("behind", former)).To(Equal("Pod behind still accepts former " + name))
		p.Expect(ask("current", former)).To(BeEmpty())
		p.Expect(ask("behind", current)).To(BeEmpty())
		p.Expect(ask("current", current)).To(BeEmpty())
		former.Wants = proof.Accepted
		p.Expect(ask("current", former)).To(Equal("Pod current refuses former " + name))
	}
	gone := proof.Demand{Sends: "a token of another UID", Credential: token("none", key), Wants: proof.Accepted}
	p.Expect(ask("current", gone)).To(Equal("Pod current refuses a token of another UID"), "it would be no proof")
}

func TestAnswersThatAreNoProof(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	for name, tc := range map[string]struct {
		wants  proof.Answer
		status int
		err    error
		want   string
	}{
		"a right that is missing":         {wants: proof.Accepted, status: 403},
		"an error of the server":          {proof.Accepted, 500, nil, "Pod a answers with status 500 to x"},
		"an error is no refusal":          {proof.Refused, 503, nil, "Pod a answers with status 503 to x"},
		"a redirect is no refusal":        {proof.Refused, 302, nil, "Pod a answers with status 302 to x"},
		"a missing right is no refusal":   {proof.Refused, 403, nil, "Pod a still accepts x"},
		"any answer":                      {wants: proof.Any, status: 500},
		"no answer, without the own port": {proof.Refused, 0, refused, "Pod a does not answer to x: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			demand := proof.Demand{Sends: "x", Wants: tc.wants}
			NewWithT(t).Expect(demand.Problem("a", tc.status, tc.err)).To(Equal(tc.want))
		})
	}
}

func TestStoredProbeNamesAServiceAccountThatWasCreatedAgain(t *testing.T) {
	g := NewWithT(t)
	former, err := proof.Scope{Issuer: "a", Audience: "b", UID: "1"}.Claims(time.Unix(0, 0))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(proof.Scope{Issuer: "c", UID: "1"}.Problem(former)).To(BeEmpty())
	g.Expect(proof.Scope{Issuer: "a", Audience: "b", UID: "2"}.Problem(former)).To(And(
		HavePrefix("ServiceAccount kube-system/rotation-probe of the virtual cluster was created again"),
		ContainSubstring("its UID is 2, but the probe is for UID 1"), ContainSubstring("espalier.dev/skipped-checks: rotation-proof"),
	))
}

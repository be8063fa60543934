package local

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

// syncBuffer may be written and read by several goroutines.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func (b *syncBuffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buffer.Reset()
}

func TestCheckPortNamesATakenPort(t *testing.T) {
	g := NewWithT(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	_, text, err := net.SplitHostPort(l.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	port, err := strconv.Atoi(text)
	g.Expect(err).NotTo(HaveOccurred())

	err = Ports{APIServer: port, Etcd: port, EtcdPeer: port}.check()
	var taken *PortTakenError
	g.Expect(errors.As(err, &taken)).To(BeTrue())
	g.Expect(*taken).To(Equal(PortTakenError{Port: port, User: "kube-apiserver"}))
	g.Expect(taken.Error()).To(MatchRegexp(`^port \d+ on 127.0.0.1 is taken by another program, kube-apiserver cannot listen there$`))

	g.Expect(l.Close()).To(Succeed())
	g.Expect(CheckPort(port, "kube-apiserver")).To(Succeed())
}

func TestReservedBlocksDoNotOverlap(t *testing.T) {
	g := NewWithT(t)
	seen := map[int]bool{}
	for range 300 { // enough that two would be equal without the reservation
		ports, lock, err := reserve()
		g.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() { _ = lock.Close() })
		for _, p := range []int{ports.APIServer, ports.Etcd, ports.EtcdPeer} {
			g.Expect(p).To(And(BeNumerically(">", 20000), BeNumerically("<", 32768)))
			g.Expect(seen).NotTo(HaveKey(p))
			seen[p] = true
		}
	}
}

func TestAFreePortIsGivenToOneOnly(t *testing.T) {
	g := NewWithT(t)
	seen := map[int]bool{}
	for range 300 { // enough that two would be equal without the reservation
		port, release, err := FreePort()
		g.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(release)
		g.Expect(port).To(And(BeNumerically(">", 12000), BeNumerically("<", 20000)))
		g.Expect(seen).NotTo(HaveKey(port))
		seen[port] = true
		g.Expect(CheckPort(port, "a test")).To(Succeed())
	}
}

func TestPortsAreKeptInAFile(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "ports.json")
	g.Expect(readPorts(file)).To(Equal(Ports{}))
	g.Expect(writePorts(file, Ports{APIServer: 1, Etcd: 2, EtcdPeer: 3})).To(Succeed())
	g.Expect(readPorts(file)).To(Equal(Ports{APIServer: 1, Etcd: 2, EtcdPeer: 3}))
	g.Expect(os.WriteFile(file, []byte("{"), 0o600)).To(Succeed())
	_, err := readPorts(file)
	g.Expect(err).To(MatchError(ContainSubstring("read ports from " + file)))
}

func TestOptionsAreChecked(t *testing.T) {
	assets := t.TempDir()
	for _, tool := range []string{"etcd", "kube-apiserver"} {
		NewWithT(t).Expect(os.WriteFile(filepath.Join(assets, tool), nil, 0o700)).To(Succeed())
	}
	for name, tc := range map[string]struct {
		options Options
		want    string
	}{
		"no folder":                    {Options{Assets: assets}, "both a state folder and the folder of the binaries are needed"},
		"no room for etcd's ports":     {Options{Dir: "x", Assets: assets, Port: 65534}, "port 65534 is out of range"},
		"a part that was not built":    {Options{Dir: "x", Assets: assets, Scheduler: true}, "find kube-scheduler: "},
		"what envtest has is enough":   {Options{Dir: "x", Assets: assets}, ""},
		"a part that is not asked for": {Options{Dir: "x", Assets: assets, Port: 65533}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tc.options.prepare()
			if tc.want == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestTheEnvironmentAddsArgumentsOfAPIServers(t *testing.T) {
	t.Setenv("ESPALIER_API_SERVER_ARGS", "--audit-log-path=/$HOME/$PORT.log --feature-gates=WatchList=false")
	arguments := commandLine("kube-apiserver", "dir", Ports{APIServer: 4711}, Options{APIServerArgs: []string{"--own"}})
	NewWithT(t).Expect(arguments[len(arguments)-3:]).
		To(Equal([]string{"--own", "--audit-log-path=/$HOME/4711.log", "--feature-gates=WatchList=false"}))
}

func TestTheEnvironmentAddsArgumentsOfEtcd(t *testing.T) {
	t.Setenv("ESPALIER_ETCD_ARGS", "--quota-backend-bytes=1  --auto-compaction-retention=$PORT")
	arguments := commandLine("etcd", "dir", Ports{APIServer: 4711}, Options{})
	NewWithT(t).Expect(arguments[len(arguments)-2:]).To(Equal([]string{"--quota-backend-bytes=1", "--auto-compaction-retention=$PORT"}))
}

func TestCreatePKI(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "pki")
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	g.Expect(createPKI(dir, now)).To(Succeed())

	verify := func(ca, leaf string, usage x509.ExtKeyUsage) error {
		roots := x509.NewCertPool()
		roots.AddCert(certificate(t, filepath.Join(dir, ca)))
		_, err := certificate(t, filepath.Join(dir, leaf)).Verify(x509.VerifyOptions{
			Roots: roots, DNSName: "127.0.0.1", KeyUsages: []x509.ExtKeyUsage{usage}, CurrentTime: now.AddDate(9, 0, 0),
		})
		return err
	}
	g.Expect(verify("ca.crt", "kube-apiserver.crt", x509.ExtKeyUsageServerAuth)).To(Succeed())
	g.Expect(verify("etcd-ca.crt", "etcd.crt", x509.ExtKeyUsageServerAuth)).To(Succeed())
	g.Expect(verify("etcd-ca.crt", "etcd.crt", x509.ExtKeyUsageClientAuth)).To(Succeed())
	g.Expect(verify("ca.crt", "etcd.crt", x509.ExtKeyUsageClientAuth)).NotTo(Succeed(), "who may reach the API server must not reach etcd")

	g.Expect(certificate(t, filepath.Join(dir, "kube-apiserver.crt")).Subject.Organization).To(BeEmpty(), "only the client may do everything")
	kubelets := certificate(t, filepath.Join(dir, "kube-apiserver-kubelet-client.crt"))
	g.Expect(kubelets.Subject.String()).To(Equal("CN=kube-apiserver-kubelet-client,O=system:masters"))

	before, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(createPKI(dir, now)).To(Succeed())
	g.Expect(os.ReadFile(filepath.Join(dir, "ca.crt"))).To(Equal(before), "a second run keeps what running parts use")
	g.Expect(certificate(t, filepath.Join(dir, "kube-apiserver-kubelet-client.crt"))).To(Equal(kubelets))

	g.Expect(os.Remove(filepath.Join(dir, "kube-apiserver-kubelet-client.crt"))).To(Succeed())
	g.Expect(os.Remove(filepath.Join(dir, "kube-apiserver-kubelet-client.key"))).To(Succeed())
	g.Expect(createPKI(dir, now)).To(Succeed(), "a folder of an earlier version")
	g.Expect(os.ReadFile(filepath.Join(dir, "ca.crt"))).To(Equal(before))
	_, err = tls.LoadX509KeyPair(
		filepath.Join(dir, "kube-apiserver-kubelet-client.crt"), filepath.Join(dir, "kube-apiserver-kubelet-client.key"))
	g.Expect(err).NotTo(HaveOccurred())
	info, err := os.Stat(filepath.Join(dir, "ca.key"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
}

func TestUserKubeconfig(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "pki")
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	g.Expect(createPKI(dir, now)).To(Succeed())
	data, err := userKubeconfig(dir, 4711, "system:node:n1", []string{"system:nodes"}, now)
	g.Expect(err).NotTo(HaveOccurred())

	config, err := clientcmd.Load(data)
	g.Expect(err).NotTo(HaveOccurred())
	user := config.AuthInfos["espalier"]
	block, _ := pem.Decode(user.ClientCertificateData)
	cert, err := x509.ParseCertificate(block.Bytes)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cert.Subject.String()).To(Equal("CN=system:node:n1,O=system:nodes"))
	g.Expect(config.Clusters["espalier"].Server).To(Equal("https://127.0.0.1:4711"))
	g.Expect(config.CurrentContext).To(Equal("espalier"))
	g.Expect(restConfig(data)).To(HaveField("QPS", BeEquivalentTo(-1)))
}

func TestClusterOfCarriesNoCredentials(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	g.Expect(os.WriteFile(file, []byte("trusted"), 0o600)).To(Succeed())
	for name, tc := range map[string]struct {
		config *rest.Config
		want   *clientcmdapi.Cluster
	}{
		"inline authority": {
			&rest.Config{
				Host: "https://h:1", BearerToken: "secret",
				TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca"), CertData: []byte("c"), KeyData: []byte("k")},
			},
			&clientcmdapi.Cluster{Server: "https://h:1", CertificateAuthorityData: []byte("ca")},
		},
		"authority in a file": {
			&rest.Config{Host: "https://h:1/prefix", TLSClientConfig: rest.TLSClientConfig{CAFile: file, ServerName: "n"}},
			&clientcmdapi.Cluster{Server: "https://h:1/prefix", TLSServerName: "n", CertificateAuthorityData: []byte("trusted")},
		},
		"no verification, as the administrator has it": {
			&rest.Config{Host: "https://h:1", TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
			&clientcmdapi.Cluster{Server: "https://h:1", InsecureSkipTLSVerify: true},
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(clusterOf(tc.config)).To(Equal(tc.want)) })
	}
}

func TestForTestsSaysHowToGetServers(t *testing.T) {
	t.Setenv("ESPALIER_TEST_SERVERS", "")
	_, err := ForTests()
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("go run ./test/local/testservers run -- go test")))
}

func certificate(t *testing.T, file string) *x509.Certificate {
	t.Helper()
	g := NewWithT(t)
	certs, err := cert.CertsFromFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(certs).To(HaveLen(1))
	return certs[0]
}

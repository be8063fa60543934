package kubeapiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

// A real kube-apiserver starts with the arguments and files of the Deployment, on the etcd of a test server, below a prefix of its own.
func TestKubeAPIServerStarts(t *testing.T) {
	if testing.Short() {
		t.Skip("starts API servers")
	}
	_, err := local.ForTests() // it uses their etcd
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, settings := range map[string]string{"everything": everything, "oidc": oidcSettings(), "plain": "{}"} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			v := garden(t, settings)
			m := newMachine(t)
			found := existing(t)
			authentication := found.ConfigMaps["authentication"].Data
			// No egress selector is configured.
			authentication["config.yaml"] = strings.Replace(authentication["config.yaml"], ", egressSelectorType: cluster", "", 1)
			refs, err := kubeapiserver.Resolve(v, found)
			g.Expect(err).NotTo(HaveOccurred())
			m.contents["certificate"] = found.Secrets["certificate"].Data
			in := kubeapiserver.Input{Secrets: m.generate(g, v), References: refs}
			objects, err := kubeapiserver.Objects(v, in)
			g.Expect(err).NotTo(HaveOccurred())

			server := m.start(t, objects)
			user, err := rest.HTTPClientFor(&rest.Config{
				BearerToken: in.Secrets.HealthToken, TLSClientConfig: rest.TLSClientConfig{CAData: m.authority, ServerName: "api.example.com"},
			})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(local.Await(t.Context(), time.Minute, "kube-apiserver to be ready", func(ctx context.Context) error {
				_, err := local.Get(ctx, user, fmt.Sprintf("https://127.0.0.1:%d/readyz", m.port))
				if failure := server.Failure(); failure != nil {
					return local.GiveUp(failure)
				}
				return err
			})).To(Succeed())
			if name == "plain" {
				tls := rest.TLSClientConfig{CAData: m.authority, ServerName: "api.example.com"}
				anonymous, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: tls})
				g.Expect(err).NotTo(HaveOccurred())
				codes := map[string]int{}
				for _, path := range []string{"/livez", "/readyz", "/readyz/etcd", "/healthz", "/version", "/api"} {
					codes[path] = status(t, anonymous, fmt.Sprintf("https://127.0.0.1:%d%s", m.port, path))
				}
				g.Expect(codes).To(Equal(map[string]int{
					"/livez": 200, "/readyz": 200, "/readyz/etcd": 401, "/healthz": 401, "/version": 401, "/api": 401,
				}))
			}
		})
	}
}

// status returns the status code of the answer to a request.
func status(t *testing.T, c *http.Client, url string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	answer, err := c.Do(request)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	defer func() { _ = answer.Body.Close() }()
	return answer.StatusCode
}

// machine is a folder of this machine in which kube-apiserver runs as a process.
type machine struct {
	root      string
	port      int
	contents  map[string]map[string][]byte
	authority []byte
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	defer func() { _ = listener.Close() }()
	address, _ := listener.Addr().(*net.TCPAddr)
	return &machine{root: t.TempDir(), port: address.Port, contents: map[string]map[string][]byte{}}
}

// generate generates all Secrets, and returns their names.
func (m *machine) generate(g Gomega, v values.Values) kubeapiserver.Secrets {
	source := secretconfig.RandomSource(clock.RealClock{}.Now())
	add := func(name string, config secretconfig.Config) map[string][]byte {
		data, err := config.Generate(source)
		g.Expect(err).NotTo(HaveOccurred())
		m.contents[name] = data
		return data
	}
	authorities := map[string]*secretconfig.Authority{}
	for _, name := range []string{"ca", "ca-client", "ca-front-proxy"} {
		data := add(name, secretconfig.Certificate{Name: name, CommonName: name, Type: secretconfig.CA})
		data["bundle.crt"] = data["ca.crt"]
		authority, err := secretconfig.ParseAuthority(data)
		g.Expect(err).NotTo(HaveOccurred())
		authorities[name] = authority
	}
	signed := func(name string, request secrets.Request) {
		certificate, ok := request.Config.(secretconfig.Certificate)
		g.Expect(ok).To(BeTrue())
		certificate.SigningCA = authorities[request.SignedBy]
		add(name, certificate)
	}
	signed("server", kubeapiserver.ServerCertificate(v))
	signed("aggregator", kubeapiserver.AggregatorCertificate(v))
	m.authority = m.contents["ca"]["ca.crt"]
	key := add("key", kubeapiserver.ServiceAccountKey(v).Config)
	m.contents["keys"] = map[string][]byte{"bundle.key": key["id_rsa"]}
	add("tokens", kubeapiserver.StaticTokens(v).Config)
	token, err := kubeapiserver.HealthToken(&corev1.Secret{Data: m.contents["tokens"]})
	g.Expect(err).NotTo(HaveOccurred())
	encryption := add("encryption", kubeapiserver.EncryptionKey(v).Config)
	keys, err := apiserver.EncryptionKeys(v, &corev1.Secret{Data: encryption}, nil, nil, nil)
	g.Expect(err).NotTo(HaveOccurred())
	m.contents["etcd-ca"] = map[string][]byte{"bundle.crt": pki(g, "etcd-ca.crt")}
	m.contents["etcd-client"] = map[string][]byte{"tls.crt": pki(g, "etcd.crt"), "tls.key": pki(g, "etcd.key")}
	return kubeapiserver.Secrets{
		Authority: "ca", ClientAuthority: "ca-client", FrontProxyAuthority: "ca-front-proxy", ETCDAuthority: "etcd-ca", ETCDClient: "etcd-client",
		Server: "server", Aggregator: "aggregator", ServiceAccountKey: "key", ServiceAccountKeys: "keys", StaticTokens: "tokens",
		HealthToken: token, GardenerAuthority: m.authority, EncryptionKeys: keys,
	}
}

// testServer is the folder of a file of the test server whose etcd is used.
func testServer(elements ...string) string {
	return filepath.Join(append([]string{os.Getenv(local.TestServersVariable), "source"}, elements...)...)
}

func pki(g Gomega, name string) []byte {
	content, err := os.ReadFile(testServer("pki", name))
	g.Expect(err).NotTo(HaveOccurred())
	return content
}

// start writes the files of the volumes, and starts the container as a process that ends with the test.
func (m *machine) start(t *testing.T, objects []client.Object) *child.Process {
	t.Helper()
	g := NewWithT(t)
	for _, each := range objects {
		switch o := each.(type) {
		case *corev1.Secret:
			m.contents[o.Name] = o.Data
		case *corev1.ConfigMap:
			m.contents[o.Name] = map[string][]byte{}
			for key, value := range o.Data {
				m.contents[o.Name][key] = []byte(value)
			}
		}
	}
	d, ok := objects[len(objects)-1].(*appsv1.Deployment)
	g.Expect(ok).To(BeTrue())
	pod := d.Spec.Template.Spec
	for i, volume := range pod.Volumes {
		var name string
		if volume.Secret != nil {
			name = volume.Secret.SecretName
		} else {
			name = volume.ConfigMap.Name
		}
		folder := filepath.Join(m.root, pod.Containers[0].VolumeMounts[i].MountPath)
		g.Expect(os.MkdirAll(folder, 0o700)).To(Succeed())
		g.Expect(m.contents).To(HaveKey(name))
		for key, value := range m.contents[name] {
			g.Expect(os.WriteFile(filepath.Join(folder, key), []byte(m.here(string(value))), 0o600)).To(Succeed())
		}
	}
	var ports local.Ports
	content, err := os.ReadFile(testServer("ports.json"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(json.Unmarshal(content, &ports)).To(Succeed())
	etcd := fmt.Sprintf("https://127.0.0.1:%d", ports.Etcd)
	args := make([]string, 0, len(pod.Containers[0].Args))
	for _, each := range pod.Containers[0].Args {
		each = strings.ReplaceAll(each, "https://virtual-garden-etcd-main-client:2379", etcd)
		args = append(args, m.here(strings.ReplaceAll(each, "https://virtual-garden-etcd-events-client:2379", etcd)))
	}
	args = append(args, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--etcd-prefix=/"+filepath.Base(m.root)+"-"+strconv.Itoa(m.port), fmt.Sprintf("--secure-port=%d", m.port))
	assets, err := local.Assets(t.Context(), io.Discard)
	g.Expect(err).NotTo(HaveOccurred())
	server, err := child.Start(child.Spec{
		Name: "kube-apiserver", Path: filepath.Join(assets, "kube-apiserver"), Args: args, Dir: m.root,
		LogFile: filepath.Join(m.root, "log"), RecordFile: filepath.Join(m.root, "record.json"),
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { NewWithT(t).Expect(server.Stop(0)).To(Succeed()) })
	return server
}

// here replaces the folders of the container in a text by folders of the machine.
func (m *machine) here(text string) string {
	for _, folder := range []string{"/srv/kubernetes/", "/etc/kubernetes/"} {
		text = strings.ReplaceAll(text, folder, m.root+folder)
	}
	return text
}

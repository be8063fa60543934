// Package charttest packs charts and serves them by a registry in the process of a test.
package charttest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"k8s.io/utils/clock"
)

// Metadata is the Chart.yaml of a chart named shop.
const Metadata = "apiVersion: v2\nname: shop\nversion: 1.2.3\n"

// MediaType is the media type of charts in registries, and configType the media type of the configurations of their manifests.
const (
	MediaType  = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	configType = "application/vnd.cncf.helm.config.v1+json"
)

// Ease sets the time limit of a sandbox to a minute, because the machine may be busy. With the race detector, it also removes the memory
// limit, because the race detector needs more memory than every limit of the sandbox.
func Ease(memory *uint64, limit *time.Duration) {
	*limit = time.Minute
	if WithRaceDetector {
		*memory = math.MaxUint64
	}
}

// Files are the files of a chart by their paths in it.
type Files map[string]string

// Archive packs a chart. Chart.yaml is added if it is missing.
func Archive(tb testing.TB, content Files) []byte {
	tb.Helper()
	g := NewWithT(tb)
	content = maps.Clone(content)
	if content == nil {
		content = Files{}
	}
	if content["Chart.yaml"] == "" {
		content["Chart.yaml"] = Metadata
	}
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	tarred := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(content)) {
		g.Expect(tarred.WriteHeader(&tar.Header{Name: "shop/" + name, Mode: 0o600, Size: int64(len(content[name]))})).To(Succeed())
		_, err := tarred.Write([]byte(content[name]))
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(tarred.Close()).To(Succeed())
	g.Expect(compressed.Close()).To(Succeed())
	return packed.Bytes()
}

// Registry is a registry with one repository, shop. It serves with TLS.
type Registry struct {
	*httptest.Server
	// Password is the password that the registry demands; empty: it demands none.
	Password string
	// Storage is the URL to which requests of blobs are redirected; empty for none.
	Storage string

	mu sync.Mutex // guards the fields below
	// content contains the responses. A key is the end of a path, such as manifests/1.0.
	content map[string]stored
	pulls   int
}

type stored struct {
	mediaType string
	data      []byte
}

// NewRegistry starts a registry that serves until the test ends.
func NewRegistry(tb testing.TB) *Registry {
	tb.Helper()
	r := &Registry{content: map[string]stored{}}
	r.Server = httptest.NewTLSServer(r)
	tb.Cleanup(r.Close)
	return r
}

// NewRegistryAt starts a registry at a listener, with a certificate for its address. It serves until the test ends.
func NewRegistryAt(tb testing.TB, listener net.Listener) *Registry {
	tb.Helper()
	g := NewWithT(tb)
	host, _, err := net.SplitHostPort(listener.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: clock.RealClock{}.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.ParseIP(host)},
		BasicConstraintsValid: true, IsCA: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	g.Expect(err).NotTo(HaveOccurred())
	r := &Registry{content: map[string]stored{}}
	r.Server = httptest.NewUnstartedServer(r)
	g.Expect(r.Listener.Close()).To(Succeed())
	r.Listener, r.TLS = listener, &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}},
	}
	r.StartTLS()
	tb.Cleanup(r.Close)
	return r
}

// ServeHTTP implements http.Handler.
func (r *Registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, given, _ := request.BasicAuth(); given != r.Password {
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	name := strings.TrimPrefix(request.URL.Path, "/v2/shop/")
	found, ok := r.content[name]
	switch {
	case name == "/v2/": // go-containerregistry, the client of gardenlet, asks first whether this is a registry
		w.WriteHeader(http.StatusOK)
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	case r.Storage != "" && strings.HasPrefix(name, "blobs/"):
		http.Redirect(w, request, r.Storage, http.StatusTemporaryRedirect)
	default:
		w.Header().Set("Content-Type", found.mediaType)
		w.Header().Set("Content-Length", strconv.Itoa(len(found.data)))
		if request.Method == http.MethodGet {
			r.pulls++
			_, _ = w.Write(found.data)
			return
		}
		w.Header().Set("Docker-Content-Digest", digest.FromBytes(found.data).String())
	}
}

// Pulls returns how often content was served.
func (r *Registry) Pulls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pulls
}

// Put stores content under the end of a path.
func (r *Registry) Put(name, mediaType string, data []byte) ocispec.Descriptor {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.content[name] = stored{mediaType, data}
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
}

// Copy serves the content of a path under the end of another path, too.
func (r *Registry) Copy(from, to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.content[to] = r.content[from]
}

// Blob stores content under its digest.
func (r *Registry) Blob(mediaType string, data []byte) ocispec.Descriptor {
	return r.Put("blobs/"+digest.FromBytes(data).String(), mediaType, data)
}

// Manifest stores a manifest under a tag and its digest, which it returns. Its configuration is empty; go-containerregistry needs one.
func (r *Registry) Manifest(tb testing.TB, tag string, layers ...ocispec.Descriptor) string {
	tb.Helper()
	config := r.Blob(configType, []byte("{}"))
	encoded, err := json.Marshal(ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: layers})
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	r.Put("manifests/"+tag, ocispec.MediaTypeImageManifest, encoded)
	return r.Put("manifests/"+digest.FromBytes(encoded).String(), ocispec.MediaTypeImageManifest, encoded).Digest.String()
}

// Push stores a chart under a tag and returns its digest.
func (r *Registry) Push(tb testing.TB, tag string, chart []byte) string {
	tb.Helper()
	return r.Manifest(tb, tag, r.Blob(MediaType, chart))
}

// Host returns host and port.
func (r *Registry) Host() string { return strings.TrimPrefix(r.URL, "https://") }

// Repository returns the repository without tag and digest.
func (r *Registry) Repository() string { return r.Host() + "/shop" }

// CA returns the certificate of the registry in PEM.
func (r *Registry) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})
}

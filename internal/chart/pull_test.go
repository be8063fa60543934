package chart

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

const password = "hunter2"

// registry is a registry with one repository, shop.
type registry struct {
	*httptest.Server

	mu sync.Mutex
	// content is by the end of the path, such as manifests/1.0.
	content map[string]stored
	// protected makes the registry ask for the password.
	protected bool
	// storage is the URL to which requests of blobs are redirected; empty for none.
	storage string
}

type stored struct {
	mediaType string
	data      []byte
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	r := &registry{content: map[string]stored{}}
	r.Server = httptest.NewTLSServer(r)
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP implements http.Handler.
func (r *registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, given, _ := request.BasicAuth(); r.protected && given != password {
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	name := strings.TrimPrefix(request.URL.Path, "/v2/shop/")
	found, ok := r.content[name]
	switch {
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	case r.storage != "" && strings.HasPrefix(name, "blobs/"):
		http.Redirect(w, request, r.storage, http.StatusTemporaryRedirect)
	default:
		w.Header().Set("Content-Type", found.mediaType)
		w.Header().Set("Content-Length", strconv.Itoa(len(found.data)))
		if request.Method == http.MethodGet {
			_, _ = w.Write(found.data)
			return
		}
		w.Header().Set("Docker-Content-Digest", digest.FromBytes(found.data).String())
	}
}

func (r *registry) put(name, mediaType string, data []byte) ocispec.Descriptor {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.content[name] = stored{mediaType, data}
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
}

func (r *registry) blob(mediaType string, data []byte) ocispec.Descriptor {
	return r.put("blobs/"+digest.FromBytes(data).String(), mediaType, data)
}

// manifest stores a manifest under a tag and its digest, which it returns.
func (r *registry) manifest(t *testing.T, tag string, layers ...ocispec.Descriptor) string {
	t.Helper()
	encoded, err := json.Marshal(ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Layers: layers})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	r.put("manifests/"+tag, ocispec.MediaTypeImageManifest, encoded)
	return r.put("manifests/"+digest.FromBytes(encoded).String(), ocispec.MediaTypeImageManifest, encoded).Digest.String()
}

// push stores a chart under a tag and returns its digest.
func (r *registry) push(t *testing.T, tag, chart string) string {
	t.Helper()
	return r.manifest(t, tag, r.blob(mediaTypeChart, []byte(chart)))
}

func (r *registry) host() string { return strings.TrimPrefix(r.URL, "https://") }

// source is a tag of the repository, with the CA of the registry.
func (r *registry) source(tag string) Source {
	return Source{
		Reference: r.host() + "/shop:" + tag,
		CA:        pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw}),
	}
}

func TestTagsAreResolvedOnce(t *testing.T) {
	g := NewWithT(t)
	r := newRegistry(t)
	first := r.push(t, "1.0", "first")
	source := r.source("1.0")
	pulled, err := Policy{}.Pull(t.Context(), source)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pulled).To(Equal(Pulled{Digest: first, Archive: []byte("first")}))

	moved := r.push(t, "1.0", "second")
	source.Digest = pulled.Digest
	g.Expect(Policy{}.Pull(t.Context(), source)).To(Equal(pulled), "the tag was moved")
	source.Digest = ""
	g.Expect(Policy{}.Pull(t.Context(), source)).To(Equal(Pulled{Digest: moved, Archive: []byte("second")}))
	source.Reference = "oci://" + r.host() + "/shop@" + first
	g.Expect(Policy{}.Pull(t.Context(), source)).To(Equal(pulled))
}

func TestPullSecretsOpenRegistries(t *testing.T) {
	g := NewWithT(t)
	r := newRegistry(t)
	r.push(t, "1.0", "chart")
	r.protected = true
	source := r.source("1.0")
	_, err := Policy{}.Pull(t.Context(), source)
	g.Expect(err).To(MatchError(ContainSubstring("credential not found")))

	secret := func(password string) []byte {
		auth := base64.StdEncoding.EncodeToString([]byte("me:" + password))
		return fmt.Appendf(nil, `{"auths": {%q: {"auth": %q}}}`, r.host(), auth)
	}
	source.PullSecret = secret(password)
	g.Expect(Policy{}.Pull(t.Context(), source)).To(HaveField("Archive", []byte("chart")))
	source.PullSecret = secret("wrong-" + password)
	_, err = Policy{}.Pull(t.Context(), source)
	g.Expect(err).To(MatchError(And(ContainSubstring("401"), Not(ContainSubstring(password)))))
	source.PullSecret = []byte(`{"auths": {"a": {"auth": "` + password + `"}}}`)
	_, err = Policy{}.Pull(t.Context(), source)
	g.Expect(err).To(MatchError("pull chart: pull Secret is not a .dockerconfigjson"))
}

func TestAttacksByRegistriesAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		serve  func(t *testing.T, r *registry)
		change func(r *registry, s *Source)
		want   string
	}{
		"a registry with another certificate": {
			change: func(_ *registry, s *Source) { s.CA = nil }, want: "certificate signed by unknown authority",
		},
		"a CA bundle without certificates": {
			change: func(_ *registry, s *Source) { s.CA = []byte(password) }, want: "pull chart: CA bundle contains no certificate",
		},
		"no reference": {
			change: func(_ *registry, s *Source) { s.Reference = "a b" }, want: `pull chart: reference "a b" is not valid`,
		},
		"neither tag nor digest": {
			change: func(r *registry, s *Source) { s.Reference = r.host() + "/shop" }, want: "has neither tag nor digest",
		},
		"a digest that is none":   {change: func(_ *registry, s *Source) { s.Digest = "1.0" }, want: `pull chart: digest "1.0" is not valid`},
		"a tag that is absent":    {change: func(r *registry, s *Source) { s.Reference = r.host() + "/shop:2.0" }, want: "not found"},
		"a digest that is absent": {change: func(_ *registry, s *Source) { s.Digest = digest.FromString("a").String() }, want: "not found"},
		"a manifest that was swapped": {
			serve: func(t *testing.T, r *registry) {
				t.Helper()
				pushed := r.push(t, "1.0", "chart")
				r.put("manifests/"+pushed, ocispec.MediaTypeImageManifest, []byte(`{"layers": []}`))
			},
			want: "mismatch",
		},
		"a chart that was swapped": {
			serve: func(t *testing.T, r *registry) {
				t.Helper()
				r.push(t, "1.0", "chart")
				r.put("blobs/"+digest.FromString("chart").String(), mediaTypeChart, []byte("other"))
			},
			want: "mismatch",
		},
		"a manifest of several platforms": {
			serve: func(_ *testing.T, r *registry) { r.put("manifests/1.0", ocispec.MediaTypeImageIndex, []byte(`{}`)) },
			want:  `media type "application/vnd.oci.image.index.v1+json" is not a manifest`,
		},
		"a manifest that is no JSON": {
			serve: func(_ *testing.T, r *registry) {
				r.put("manifests/1.0", ocispec.MediaTypeImageManifest, []byte("a"))
				r.put("manifests/"+digest.FromString("a").String(), ocispec.MediaTypeImageManifest, []byte("a"))
			},
			want: "manifest is not JSON",
		},
		"a manifest that is too large": {
			serve: func(_ *testing.T, r *registry) {
				r.put("manifests/1.0", ocispec.MediaTypeImageManifest, make([]byte, maxManifest+1))
			},
			want: "content is larger than 1048576 bytes",
		},
		"a chart that is too large": {
			serve: func(t *testing.T, r *registry) {
				t.Helper()
				r.manifest(t, "1.0", ocispec.Descriptor{MediaType: mediaTypeChart, Digest: digest.FromString("a"), Size: MaxArchive + 1})
			},
			want: "content is larger than 8388608 bytes",
		},
		"a chart of a negative size": {
			serve: func(t *testing.T, r *registry) {
				t.Helper()
				layer := r.blob(mediaTypeChart, []byte("chart"))
				layer.Size = -1
				r.manifest(t, "1.0", layer)
			},
			want: "mismatch Content-Length",
		},
		"an image instead of a chart": {
			serve: func(t *testing.T, r *registry) { t.Helper(); r.manifest(t, "1.0") }, want: "manifest has no layer of type",
		},
		"two charts": {
			serve: func(t *testing.T, r *registry) {
				t.Helper()
				layer := r.blob(mediaTypeChart, []byte("chart"))
				r.manifest(t, "1.0", layer, layer)
			},
			want: "manifest has more than one chart",
		},
		"a redirection without TLS": {
			change: func(r *registry, _ *Source) { r.storage = "http://" + r.host() + "/?signature=" + password },
			want:   "redirected to a URL without TLS",
		},
		"a redirection that never ends": {
			change: func(r *registry, _ *Source) { r.storage = "/v2/shop/blobs/" + digest.FromString("chart").String() },
			want:   "redirected too often",
		},
		"a storage that refuses": {
			change: func(r *registry, _ *Source) { r.storage = r.URL + "/absent?signature=" + password }, want: "not found",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := newRegistry(t)
			r.push(t, "1.0", "chart")
			if tc.serve != nil {
				tc.serve(t, r)
			}
			source := r.source("1.0")
			if tc.change != nil {
				tc.change(r, &source)
			}
			_, err := Policy{}.Pull(t.Context(), source)
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
			g.Expect(err.Error()).NotTo(ContainSubstring(password))
		})
	}
}

func TestCredentialsStayWithTheirRegistry(t *testing.T) {
	g := NewWithT(t)
	r := newRegistry(t)
	r.push(t, "1.0", "chart")
	r.protected = true
	var authorization atomic.Value
	storage := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		authorization.Store(request.Header.Get("Authorization"))
		_, _ = w.Write([]byte("chart"))
	}))
	listener, err := net.Listen("tcp", "[::1]:0") //nolint:noctx // ends with the test
	if err != nil {
		t.Skipf("a second host for the test needs IPv6: %v", err)
	}
	g.Expect(storage.Listener.Close()).To(Succeed())
	storage.Listener = listener
	storage.StartTLS()
	t.Cleanup(storage.Close)
	r.storage = storage.URL
	source := r.source("1.0")
	source.PullSecret = fmt.Appendf(nil, `{"auths": {%q: {"username": "me", "password": %q}}}`, r.host(), password)
	g.Expect(Policy{}.Pull(t.Context(), source)).To(HaveField("Archive", []byte("chart")))
	g.Expect(authorization.Load()).To(Equal(""))
}

func newKey(t *testing.T) (private *ecdsa.PrivateKey, public string) {
	t.Helper()
	g := NewWithT(t)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	return private, publicPEM(t, &private.PublicKey)
}

func publicPEM(t *testing.T, key any) string {
	t.Helper()
	encoded, err := x509.MarshalPKIXPublicKey(key)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: encoded}))
}

// signature stores a payload about a digest and returns its layer, as cosign does.
func (r *registry) signature(t *testing.T, kind, about string, key *ecdsa.PrivateKey) ocispec.Descriptor {
	t.Helper()
	data := fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":"example.org/shop"},`+
		`"image":{"docker-manifest-digest":%q},"type":%q},"optional":null}`, about, kind)
	sum := sha256.Sum256(data)
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	layer := r.blob(mediaTypeSignature, data)
	layer.Annotations = map[string]string{annotationSignature: base64.StdEncoding.EncodeToString(signature)}
	return layer
}

func TestSignaturesAreVerified(t *testing.T) {
	ours, public := newKey(t)
	theirs, _ := newKey(t)
	const refused = "none of 1 signatures is one of the policy's keys for this digest"
	for name, tc := range map[string]struct {
		layers func(t *testing.T, r *registry, pushed string) []ocispec.Descriptor
		want   string // "" accepts
	}{
		"a signature": {layers: func(t *testing.T, r *registry, pushed string) []ocispec.Descriptor {
			t.Helper()
			return []ocispec.Descriptor{r.signature(t, payloadType, pushed, ours)}
		}},
		"a signature after one of another": {layers: func(t *testing.T, r *registry, pushed string) []ocispec.Descriptor {
			t.Helper()
			return []ocispec.Descriptor{r.signature(t, payloadType, pushed, theirs), r.signature(t, payloadType, pushed, ours)}
		}},
		"no signature": {want: ".sig: "},
		"a signature of another": {want: refused, layers: func(t *testing.T, r *registry, pushed string) []ocispec.Descriptor {
			t.Helper()
			return []ocispec.Descriptor{r.signature(t, payloadType, pushed, theirs)}
		}},
		"a signature of another chart": {want: refused, layers: func(t *testing.T, r *registry, _ string) []ocispec.Descriptor {
			t.Helper()
			return []ocispec.Descriptor{r.signature(t, payloadType, digest.FromString("a").String(), ours)}
		}},
		"a signature of another type": {want: refused, layers: func(t *testing.T, r *registry, pushed string) []ocispec.Descriptor {
			t.Helper()
			return []ocispec.Descriptor{r.signature(t, "promise", pushed, ours)}
		}},
		"a signature that is no base64": {want: refused, layers: func(t *testing.T, r *registry, pushed string) []ocispec.Descriptor {
			t.Helper()
			layer := r.signature(t, payloadType, pushed, ours)
			layer.Annotations[annotationSignature] = "?"
			return []ocispec.Descriptor{layer}
		}},
		"a signature of another payload": {want: refused, layers: func(t *testing.T, r *registry, pushed string) []ocispec.Descriptor {
			t.Helper()
			layer, other := r.signature(t, payloadType, pushed, ours), r.signature(t, payloadType, digest.FromString("a").String(), ours)
			layer.Annotations = other.Annotations
			return []ocispec.Descriptor{layer}
		}},
		"a payload that is too large": {want: "larger than 65536 bytes", layers: func(_ *testing.T, r *registry, _ string) []ocispec.Descriptor {
			return []ocispec.Descriptor{r.blob(mediaTypeSignature, bytes.Repeat([]byte("a"), maxPayload+1))}
		}},
		"a layer that is no signature": {want: "none of 0 signatures", layers: func(_ *testing.T, r *registry, _ string) []ocispec.Descriptor {
			return []ocispec.Descriptor{r.blob(mediaTypeChart, []byte("{}"))}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := newRegistry(t)
			pushed := r.push(t, "1.0", "chart")
			if tc.layers != nil {
				r.manifest(t, strings.Replace(pushed, ":", "-", 1)+".sig", tc.layers(t, r, pushed)...)
			}
			pulled, err := Policy{SignatureKeys: []string{public}}.Pull(t.Context(), r.source("1.0"))
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(pulled).To(Equal(Pulled{Digest: pushed, Archive: []byte("chart")}))
				return
			}
			g.Expect(err).To(MatchError(And(HavePrefix("verify signature of chart "), ContainSubstring(tc.want))))
			g.Expect(pulled).To(BeZero(), "nothing is returned before it is verified")
		})
	}
}

func TestKeysOfPoliciesAreChecked(t *testing.T) {
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for key, want := range map[string]string{
		"a": "key 1 is not in PEM format",
		"-----BEGIN PUBLIC KEY-----\nYQ==\n-----END PUBLIC KEY-----\n": "key 1 is not a public key: ",
		publicPEM(t, &other.PublicKey):                                 "key 1: only ECDSA keys, as cosign makes them, are supported",
	} {
		_, err := Policy{SignatureKeys: []string{key}}.Pull(t.Context(), Source{Reference: "example.org/shop:1.0"})
		NewWithT(t).Expect(err).To(MatchError(HavePrefix("read keys of the chart policy: " + want)))
	}
}

func TestRawChartsHaveADigest(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Policy{}.Raw([]byte("chart"))).To(Equal(Pulled{Digest: digest.FromString("chart").String(), Archive: []byte("chart")}))
	_, err := Policy{SignatureKeys: []string{"a"}}.Raw([]byte("chart"))
	g.Expect(err).To(MatchError("the chart policy requires a signature, which a raw chart cannot have"))
	_, err = Policy{}.Raw(make([]byte, MaxArchive+1))
	g.Expect(err).To(MatchError("render chart: archive is larger than 8388608 bytes"))
}

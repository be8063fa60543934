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
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/espalier-dev/espalier/internal/chart/charttest"
	"github.com/espalier-dev/espalier/internal/chart/registry"
)

const password = "hunter2"

// sourceOf is a tag of the repository, with the CA of the registry.
func sourceOf(r *charttest.Registry, tag string) Source {
	return Source{Reference: r.Repository() + ":" + tag, CA: r.CA()}
}

func TestTagsAreResolvedOnce(t *testing.T) {
	g := NewWithT(t)
	r := charttest.NewRegistry(t)
	first := r.Push(t, "1.0", []byte("first"))
	source := sourceOf(r, "1.0")
	pulled, err := Policy{}.Pull(t.Context(), source)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pulled).To(Equal(Pulled{Digest: first, Archive: []byte("first")}))

	moved := r.Push(t, "1.0", []byte("second"))
	source.Digest = pulled.Digest
	g.Expect(Policy{}.Pull(t.Context(), source)).To(Equal(pulled), "the tag was moved")
	source.Digest = ""
	g.Expect(Policy{}.Pull(t.Context(), source)).To(Equal(Pulled{Digest: moved, Archive: []byte("second")}))
	source.Reference = "oci://" + r.Host() + "/shop@" + first
	g.Expect(Policy{}.Pull(t.Context(), source)).To(Equal(pulled))
}

func TestRegistriesAreAskedWhetherTheyHaveAnArtifact(t *testing.T) {
	g := NewWithT(t)
	r := charttest.NewRegistry(t)
	r.Push(t, "1.0", []byte("chart"))
	g.Expect(sourceOf(r, "1.0").Exists(t.Context())).To(BeTrue())
	g.Expect(sourceOf(r, "2.0").Exists(t.Context())).To(BeFalse())
	r.Password = password
	_, err := sourceOf(r, "1.0").Exists(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("credential not found")))
	_, err = Source{Reference: "shop"}.Exists(t.Context())
	g.Expect(err).To(MatchError(`reference "shop" is not valid`))
}

func TestPullSecretsOpenRegistries(t *testing.T) {
	g := NewWithT(t)
	r := charttest.NewRegistry(t)
	r.Push(t, "1.0", []byte("chart"))
	r.Password = password
	source := sourceOf(r, "1.0")
	_, err := Policy{}.Pull(t.Context(), source)
	g.Expect(err).To(MatchError(ContainSubstring("credential not found")))

	secret := func(password string) []byte {
		auth := base64.StdEncoding.EncodeToString([]byte("me:" + password))
		return fmt.Appendf(nil, `{"auths": {%q: {"auth": %q}}}`, r.Host(), auth)
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
		serve  func(t *testing.T, r *charttest.Registry)
		change func(r *charttest.Registry, s *Source)
		want   string
	}{
		"a registry with another certificate": {
			change: func(_ *charttest.Registry, s *Source) { s.CA = nil }, want: "certificate signed by unknown authority",
		},
		"a CA bundle without certificates": {
			change: func(_ *charttest.Registry, s *Source) { s.CA = []byte(password) }, want: "pull chart: CA bundle contains no certificate",
		},
		"no reference": {
			change: func(_ *charttest.Registry, s *Source) { s.Reference = "a b" }, want: `pull chart: reference "a b" is not valid`,
		},
		"neither tag nor digest": {
			change: func(r *charttest.Registry, s *Source) { s.Reference = r.Host() + "/shop" }, want: "has neither tag nor digest",
		},
		"a digest that is none": {
			change: func(_ *charttest.Registry, s *Source) { s.Digest = "1.0" }, want: `pull chart: digest "1.0" is not valid`,
		},
		"a tag that is absent": {change: func(r *charttest.Registry, s *Source) { s.Reference = r.Host() + "/shop:2.0" }, want: "not found"},
		"a digest that is absent": {
			change: func(_ *charttest.Registry, s *Source) { s.Digest = digest.FromString("a").String() }, want: "not found",
		},
		"a manifest that was swapped": {
			serve: func(t *testing.T, r *charttest.Registry) {
				t.Helper()
				pushed := r.Push(t, "1.0", []byte("chart"))
				r.Put("manifests/"+pushed, ocispec.MediaTypeImageManifest, []byte(`{"layers": []}`))
			},
			want: "mismatch",
		},
		"a chart that was swapped": {
			serve: func(t *testing.T, r *charttest.Registry) {
				t.Helper()
				r.Push(t, "1.0", []byte("chart"))
				r.Put("blobs/"+digest.FromString("chart").String(), mediaTypeChart, []byte("other"))
			},
			want: "mismatch",
		},
		"a manifest of several platforms": {
			serve: func(_ *testing.T, r *charttest.Registry) {
				r.Put("manifests/1.0", ocispec.MediaTypeImageIndex, []byte(`{}`))
			},
			want: `media type "application/vnd.oci.image.index.v1+json" is not a manifest`,
		},
		"a manifest that is no JSON": {
			serve: func(_ *testing.T, r *charttest.Registry) {
				r.Put("manifests/1.0", ocispec.MediaTypeImageManifest, []byte("a"))
				r.Put("manifests/"+digest.FromString("a").String(), ocispec.MediaTypeImageManifest, []byte("a"))
			},
			want: "manifest is not JSON",
		},
		"a manifest that is too large": {
			serve: func(_ *testing.T, r *charttest.Registry) {
				r.Put("manifests/1.0", ocispec.MediaTypeImageManifest, make([]byte, registry.MaxManifest+1))
			},
			want: "content is larger than 1048576 bytes",
		},
		"a chart that is too large": {
			serve: func(t *testing.T, r *charttest.Registry) {
				t.Helper()
				r.Manifest(t, "1.0", ocispec.Descriptor{MediaType: mediaTypeChart, Digest: digest.FromString("a"), Size: MaxArchive + 1})
			},
			want: "content is larger than 8388608 bytes",
		},
		"a chart of a negative size": {
			serve: func(t *testing.T, r *charttest.Registry) {
				t.Helper()
				layer := r.Blob(mediaTypeChart, []byte("chart"))
				layer.Size = -1
				r.Manifest(t, "1.0", layer)
			},
			want: "mismatch Content-Length",
		},
		"an image instead of a chart": {
			serve: func(t *testing.T, r *charttest.Registry) { t.Helper(); r.Manifest(t, "1.0") }, want: "manifest has no layer of type",
		},
		"two charts": {
			serve: func(t *testing.T, r *charttest.Registry) {
				t.Helper()
				layer := r.Blob(mediaTypeChart, []byte("chart"))
				r.Manifest(t, "1.0", layer, layer)
			},
			want: "manifest has more than one chart",
		},
		"a redirection without TLS": {
			change: func(r *charttest.Registry, _ *Source) { r.Storage = "http://" + r.Host() + "/?signature=" + password },
			want:   "redirected to a URL without TLS",
		},
		"a redirection that never ends": {
			change: func(r *charttest.Registry, _ *Source) {
				r.Storage = "/v2/shop/blobs/" + digest.FromString("chart").String()
			},
			want: "redirected too often",
		},
		"a storage that refuses": {
			change: func(r *charttest.Registry, _ *Source) { r.Storage = r.URL + "/absent?signature=" + password }, want: "not found",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := charttest.NewRegistry(t)
			r.Push(t, "1.0", []byte("chart"))
			if tc.serve != nil {
				tc.serve(t, r)
			}
			source := sourceOf(r, "1.0")
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
	r := charttest.NewRegistry(t)
	r.Push(t, "1.0", []byte("chart"))
	r.Password = password
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
	r.Storage = storage.URL
	source := sourceOf(r, "1.0")
	source.PullSecret = fmt.Appendf(nil, `{"auths": {%q: {"username": "me", "password": %q}}}`, r.Host(), password)
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
func signature(t *testing.T, r *charttest.Registry, kind, about string, key *ecdsa.PrivateKey) ocispec.Descriptor {
	t.Helper()
	data := fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":"example.org/shop"},`+
		`"image":{"docker-manifest-digest":%q},"type":%q},"optional":null}`, about, kind)
	sum := sha256.Sum256(data)
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	layer := r.Blob(mediaTypeSignature, data)
	layer.Annotations = map[string]string{annotationSignature: base64.StdEncoding.EncodeToString(signature)}
	return layer
}

func TestSignaturesAreVerified(t *testing.T) {
	ours, public := newKey(t)
	theirs, _ := newKey(t)
	const refused = "none of 1 signatures is one of the policy's keys for this digest"
	for name, tc := range map[string]struct {
		layers func(t *testing.T, r *charttest.Registry, pushed string) []ocispec.Descriptor
		want   string // "" accepts
	}{
		"a signature": {layers: func(t *testing.T, r *charttest.Registry, pushed string) []ocispec.Descriptor {
			t.Helper()
			return []ocispec.Descriptor{signature(t, r, payloadType, pushed, ours)}
		}},
		"a signature after one of another": {layers: func(t *testing.T, r *charttest.Registry, pushed string) []ocispec.Descriptor {
			t.Helper()
			return []ocispec.Descriptor{signature(t, r, payloadType, pushed, theirs), signature(t, r, payloadType, pushed, ours)}
		}},
		"no signature": {want: ".sig: "},
		"a signature of another": {want: refused, layers: func(t *testing.T, r *charttest.Registry, pushed string) []ocispec.Descriptor {
			t.Helper()
			return []ocispec.Descriptor{signature(t, r, payloadType, pushed, theirs)}
		}},
		"a signature of another chart": {want: refused, layers: func(t *testing.T, r *charttest.Registry, _ string) []ocispec.Descriptor {
			t.Helper()
			return []ocispec.Descriptor{signature(t, r, payloadType, digest.FromString("a").String(), ours)}
		}},
		"a signature of another type": {want: refused, layers: func(t *testing.T, r *charttest.Registry, pushed string) []ocispec.Descriptor {
			t.Helper()
			return []ocispec.Descriptor{signature(t, r, "promise", pushed, ours)}
		}},
		"a signature that is no base64": {want: refused, layers: func(t *testing.T, r *charttest.Registry, pushed string) []ocispec.Descriptor {
			t.Helper()
			layer := signature(t, r, payloadType, pushed, ours)
			layer.Annotations[annotationSignature] = "?"
			return []ocispec.Descriptor{layer}
		}},
		"a signature of another payload": {want: refused, layers: func(t *testing.T, r *charttest.Registry, pushed string) []ocispec.Descriptor {
			t.Helper()
			layer, other := signature(t, r, payloadType, pushed, ours), signature(t, r, payloadType, digest.FromString("a").String(), ours)
			layer.Annotations = other.Annotations
			return []ocispec.Descriptor{layer}
		}},
		"a payload that is too large": {
			want: "larger than 65536 bytes", layers: func(_ *testing.T, r *charttest.Registry, _ string) []ocispec.Descriptor {
				return []ocispec.Descriptor{r.Blob(mediaTypeSignature, bytes.Repeat([]byte("a"), maxPayload+1))}
			},
		},
		"a layer that is no signature": {
			want: "none of 0 signatures", layers: func(_ *testing.T, r *charttest.Registry, _ string) []ocispec.Descriptor {
				return []ocispec.Descriptor{r.Blob(mediaTypeChart, []byte("{}"))}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := charttest.NewRegistry(t)
			pushed := r.Push(t, "1.0", []byte("chart"))
			if tc.layers != nil {
				r.Manifest(t, strings.Replace(pushed, ":", "-", 1)+".sig", tc.layers(t, r, pushed)...)
			}
			pulled, err := Policy{SignatureKeys: []string{public}}.Pull(t.Context(), sourceOf(r, "1.0"))
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

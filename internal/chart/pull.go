package chart

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Source describes a chart in a registry.
type Source struct {
	// Reference is "host/repository:tag" or "host/repository@sha256:…", with or without the prefix "oci://". A digest wins over a tag.
	Reference string
	// Digest is the digest that an earlier pull returned. If it is set, the tag is not resolved again.
	Digest string
	// PullSecret is the content of .dockerconfigjson of a pull Secret, empty for access without credentials. An entry applies to all
	// repositories of its host.
	PullSecret []byte
	// CA are PEM certificates that replace the authorities of the system; empty for these.
	CA []byte
}

// Pulled is a chart from a registry.
type Pulled struct {
	// Digest identifies the content. The caller stores it and sets it in the Source of its next pulls, so that a moved tag does not change
	// the installation.
	Digest  string
	Archive []byte
}

const (
	mediaTypeChart = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	// maxManifest is the limit of a manifest, in bytes.
	maxManifest = 1 << 20
	// pullTimeout bounds a pull from a registry that answers slowly.
	pullTimeout = time.Minute
	// maxRedirects is the limit of Go's own client.
	maxRedirects = 10
)

// Pull gets a chart from a registry, by HTTPS only, and verifies its digests. If the policy has keys, it verifies the signature, too.
// Errors contain neither credentials nor queries of URLs.
func (p Policy) Pull(ctx context.Context, source Source) (Pulled, error) {
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	keys, err := parseKeys(p.SignatureKeys)
	if err != nil {
		return Pulled{}, fmt.Errorf("read keys of the chart policy: %w", err)
	}
	repository, transport, err := source.connect()
	if err != nil {
		return Pulled{}, fmt.Errorf("pull chart: %w", err)
	}
	defer transport.CloseIdleConnections()
	name := excerpt.Of(repository.Reference.Registry+"/"+repository.Reference.Repository, maxName)
	manifest, identity, err := fetchManifest(ctx, repository, repository.Reference.Reference)
	if err != nil {
		return Pulled{}, fmt.Errorf("pull chart %s: %w", name, err)
	}
	if len(keys) > 0 {
		if err = verifySignature(ctx, repository, identity, keys); err != nil {
			return Pulled{}, fmt.Errorf("verify signature of chart %s@%s: %w", name, identity, err)
		}
	}
	archive, err := fetchChart(ctx, repository, manifest)
	if err != nil {
		return Pulled{}, fmt.Errorf("pull chart %s@%s: %w", name, identity, err)
	}
	return Pulled{Digest: identity.String(), Archive: archive}, nil
}

// Raw returns a chart that is part of an object instead of a registry. A policy with keys refuses it, because it cannot be signed.
func (p Policy) Raw(archive []byte) (Pulled, error) {
	if len(p.SignatureKeys) > 0 {
		return Pulled{}, errors.New("the chart policy requires a signature, which a raw chart cannot have")
	}
	if len(archive) > MaxArchive {
		return Pulled{}, failure("", fmt.Sprintf("archive is larger than %d bytes", MaxArchive))
	}
	return Pulled{Digest: digest.FromBytes(archive).String(), Archive: archive}, nil
}

func (s Source) connect() (*remote.Repository, *http.Transport, error) {
	repository, err := remote.NewRepository(strings.TrimPrefix(s.Reference, "oci://"))
	if err != nil {
		return nil, nil, fmt.Errorf("reference %q is not valid", excerpt.Quoted(s.Reference))
	}
	if s.Digest != "" {
		if digest.Digest(s.Digest).Validate() != nil {
			return nil, nil, fmt.Errorf("digest %q is not valid", excerpt.Quoted(s.Digest))
		}
		repository.Reference.Reference = s.Digest
	}
	if repository.Reference.Reference == "" {
		return nil, nil, fmt.Errorf("reference %q has neither tag nor digest", excerpt.Quoted(s.Reference))
	}
	transport, err := s.transport()
	if err != nil {
		return nil, nil, err
	}
	client := &auth.Client{Client: &http.Client{Transport: transport, CheckRedirect: onlyHTTPS}, Cache: auth.NewCache()}
	if len(s.PullSecret) > 0 {
		store, err := credentials.NewMemoryStoreFromDockerConfig(s.PullSecret)
		if err != nil { // the message may quote the Secret
			return nil, nil, errors.New("pull Secret is not a .dockerconfigjson")
		}
		client.Credential = credentials.Credential(store)
	}
	repository.Client, repository.MaxMetadataBytes = client, maxManifest
	return repository, transport, nil
}

func (s Source) transport() (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(s.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(s.CA) {
			return nil, errors.New("CA bundle contains no certificate")
		}
	}
	return &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true}, nil
}

func onlyHTTPS(request *http.Request, via []*http.Request) error {
	if request.URL.Scheme != "https" {
		return errors.New("redirected to a URL without TLS")
	}
	if len(via) >= maxRedirects {
		return errors.New("redirected too often")
	}
	return nil
}

// fetchManifest returns a manifest by tag or digest, and its digest.
func fetchManifest(ctx context.Context, repository *remote.Repository, reference string) (ocispec.Manifest, digest.Digest, error) {
	var manifest ocispec.Manifest
	descriptor, err := repository.Resolve(ctx, reference)
	if err != nil {
		return manifest, "", withoutQuery(err)
	}
	if descriptor.MediaType != ocispec.MediaTypeImageManifest {
		return manifest, "", fmt.Errorf("media type %q is not a manifest", excerpt.Quoted(descriptor.MediaType))
	}
	encoded, err := fetch(ctx, repository.Manifests(), descriptor, maxManifest)
	if err != nil {
		return manifest, "", err
	}
	if err := json.Unmarshal(encoded, &manifest); err != nil {
		return manifest, "", errors.New("manifest is not JSON")
	}
	return manifest, descriptor.Digest, nil
}

func fetchChart(ctx context.Context, repository *remote.Repository, manifest ocispec.Manifest) ([]byte, error) {
	var chart *ocispec.Descriptor
	for i, layer := range manifest.Layers {
		if layer.MediaType != mediaTypeChart {
			continue
		}
		if chart != nil {
			return nil, errors.New("manifest has more than one chart")
		}
		chart = &manifest.Layers[i]
	}
	if chart == nil {
		return nil, fmt.Errorf("manifest has no layer of type %s", mediaTypeChart)
	}
	return fetch(ctx, repository.Blobs(), *chart, MaxArchive)
}

// fetch returns content of at most limit bytes whose digest equals the digest in the descriptor.
func fetch(ctx context.Context, from content.Fetcher, descriptor ocispec.Descriptor, limit int64) ([]byte, error) {
	if descriptor.Size > limit {
		return nil, fmt.Errorf("content is larger than %d bytes", limit)
	}
	data, err := content.FetchAll(ctx, from, descriptor)
	return data, withoutQuery(err)
}

var query = regexp.MustCompile(`\?[^\s"]*`)

// withoutQuery returns an error without the queries of URLs, which contain signatures if a registry redirects to a storage, and with
// bounded texts of the registry.
func withoutQuery(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(excerpt.Ends(query.ReplaceAllString(err.Error(), ""), maxCause))
}

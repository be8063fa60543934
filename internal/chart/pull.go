package chart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/espalier-dev/espalier/internal/chart/registry"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Source describes a chart in a registry. Its Reference must contain a tag or a digest unless its Digest is set.
type Source = registry.Source

// Pulled is a chart from a registry.
type Pulled struct {
	// Digest identifies the content. The caller stores it and sets it in the Source of its next pulls, so that a moved tag does not change
	// the installation.
	Digest  string
	Archive []byte
}

const (
	mediaTypeChart = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	// pullTimeout bounds a pull from a registry that answers slowly.
	pullTimeout = time.Minute
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
	repository, transport, err := source.Connect()
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

// fetchManifest returns a manifest by tag or digest, and its digest.
func fetchManifest(ctx context.Context, repository *remote.Repository, reference string) (ocispec.Manifest, digest.Digest, error) {
	var manifest ocispec.Manifest
	descriptor, err := repository.Resolve(ctx, reference)
	if err != nil {
		return manifest, "", registry.WithoutQuery(err)
	}
	if descriptor.MediaType != ocispec.MediaTypeImageManifest {
		return manifest, "", fmt.Errorf("media type %q is not a manifest", excerpt.Quoted(descriptor.MediaType))
	}
	encoded, err := fetch(ctx, repository.Manifests(), descriptor, registry.MaxManifest)
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
	return data, registry.WithoutQuery(err)
}

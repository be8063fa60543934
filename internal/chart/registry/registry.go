// Package registry connects to OCI registries, by HTTPS only.
package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Source describes an artifact in a registry: a chart or an image.
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

// MaxManifest is the limit of a manifest, in bytes.
const MaxManifest = 1 << 20

const (
	// maxCause is the limit of an error of a registry, in bytes.
	maxCause = 512
	// maxRedirects is the limit of Go's own client.
	maxRedirects = 10
)

// Connect returns the repository of the source. The caller closes the idle connections of the transport.
func (s Source) Connect() (*remote.Repository, *http.Transport, error) {
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
	repository.Client, repository.MaxMetadataBytes = client, MaxManifest
	return repository, transport, nil
}

// Exists reports whether the registry has the artifact. An error says that the registry gives no answer, or denies it.
func (s Source) Exists(ctx context.Context) (bool, error) {
	repository, transport, err := s.Connect()
	if err != nil {
		return false, err
	}
	defer transport.CloseIdleConnections()
	_, err = repository.Resolve(ctx, repository.Reference.Reference)
	if errors.Is(err, errdef.ErrNotFound) {
		return false, nil
	}
	return err == nil, WithoutQuery(err)
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

var query = regexp.MustCompile(`\?[^\s"]*`)

// WithoutQuery returns an error whose text has no queries of URLs, because queries contain signatures if a registry redirects to a
// storage. It shortens the text to maxCause bytes, because the text may come from the registry.
func WithoutQuery(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(excerpt.Ends(query.ReplaceAllString(err.Error(), ""), maxCause))
}

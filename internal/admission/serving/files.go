package serving

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// Names of the files in a mounted Secret.
const (
	certificateFile = "tls.crt"
	keyFile         = "tls.key"
)

// certificates returns the function that chooses the certificate of a connection. This is GetCertificate of the server if it is set.
// Otherwise the function serves the certificate files, which are watched until the context ends. If the new content of the files cannot be
// read, the certificate before stays in use.
func (s *Server) certificates(ctx context.Context) (GetCertificate, error) {
	if s.GetCertificate != nil {
		return s.GetCertificate, nil
	}
	certificate, key, remedy := s.files()
	watcher, err := certwatcher.New(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("read certificate of webhook server: %w; %s", err, remedy)
	}
	go func() {
		if err := watcher.Start(ctx); err != nil {
			s.options.Log.Error(err, "Certificate files are not watched: the server uses a new certificate only after a restart")
		}
	}()
	return watcher.GetCertificate, nil
}

// files returns the paths of certificate and key, and the remedy that the error message names if they cannot be used.
func (s *Server) files() (certificate, key, remedy string) {
	o := s.options
	if o.CertFile != "" {
		return o.CertFile, o.KeyFile, "the two files must exist and belong together, or change " + o.Setting
	}
	dir := cmp.Or(o.CertDir, filepath.Join(os.TempDir(), "k8s-webhook-server", "serving-certs"))
	remedy = fmt.Sprintf("put %s and %s, which belong together, into %s, or change %s", certificateFile, keyFile, dir, o.Setting)
	return filepath.Join(dir, certificateFile), filepath.Join(dir, keyFile), remedy
}

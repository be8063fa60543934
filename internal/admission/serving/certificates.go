package serving

import (
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

// certificates returns what chooses the certificate of a connection. Files are watched until the context ends; a pair that
// cannot be read again leaves the one before in use.
func (s *Server) certificates(ctx context.Context) (GetCertificate, error) {
	if s.source != nil {
		return s.source, nil
	}
	pair := s.files()
	watcher, err := certwatcher.New(pair.certificate, pair.key)
	if err != nil {
		return nil, fmt.Errorf("read certificate of webhook server: %w; %s", err, pair.remedy)
	}
	go func() {
		if err := watcher.Start(ctx); err != nil {
			s.options.Log.Error(err, "Certificate files are not watched: a new pair is used after a restart only")
		}
	}()
	return watcher.GetCertificate, nil
}

// files are the two that make up a certificate, and what to do if they cannot be used.
type files struct{ certificate, key, remedy string }

func (s *Server) files() files {
	setting := s.options.Setting
	if setting == "" {
		setting = "server.webhooks.tls.serverCertDir"
	}
	if s.options.CertFile != "" {
		return files{s.options.CertFile, s.options.KeyFile, "the two files must exist and belong together, or change " + setting}
	}
	dir := s.options.CertDir
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "k8s-webhook-server", "serving-certs")
	}
	remedy := fmt.Sprintf("put %s and %s, which belong together, into %s, or change %s", certificateFile, keyFile, dir, setting)
	return files{filepath.Join(dir, certificateFile), filepath.Join(dir, keyFile), remedy}
}

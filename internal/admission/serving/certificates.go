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
	dir := s.options.CertDir
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "k8s-webhook-server", "serving-certs")
	}
	watcher, err := certwatcher.New(filepath.Join(dir, certificateFile), filepath.Join(dir, keyFile))
	if err != nil {
		return nil, fmt.Errorf("read certificate of webhook server: %w; put %s and %s, which belong together, into %s, or change server.webhooks.tls.serverCertDir",
			err, certificateFile, keyFile, dir)
	}
	go func() {
		if err := watcher.Start(ctx); err != nil {
			s.options.Log.Error(err, "Certificate files are not watched: a new pair is used after a restart only")
		}
	}()
	return watcher.GetCertificate, nil
}

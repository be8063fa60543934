package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// dialTimeout limits the connection that the readiness check opens.
const dialTimeout = 10 * time.Second

// StartedChecker returns the readiness check. It fails until the server listens, from the moment the process is asked to end, and whenever
// no TLS connection to the server's own address succeeds. The certificate is not verified.
func (s *Server) StartedChecker() healthz.Checker {
	dialer := &tls.Dialer{
		NetDialer: &net.Dialer{Timeout: dialTimeout},
		//nolint:gosec // It checks whether a server answers; the API server verifies the certificate.
		Config: &tls.Config{InsecureSkipVerify: true},
	}
	return func(req *http.Request) error {
		if _, ending := s.endingFor(); ending {
			return errors.New("webhook server is shutting down: it answers what still arrives, new connections belong elsewhere")
		}
		port := s.Port()
		if port == 0 {
			return errors.New("webhook server has not been started yet")
		}
		if s.GetCertificate != nil {
			if _, err := s.GetCertificate(&tls.ClientHelloInfo{}); err != nil {
				return fmt.Errorf("webhook server cannot serve: %w", err)
			}
		}
		ctx, cancel := context.WithTimeout(req.Context(), dialTimeout)
		defer cancel()
		connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(s.options.BindAddress, strconv.Itoa(port)))
		if err != nil {
			return fmt.Errorf("webhook server is not reachable: %w", err)
		}
		if err := connection.Close(); err != nil {
			return fmt.Errorf("webhook server is not reachable: close connection: %w", err)
		}
		return nil
	}
}

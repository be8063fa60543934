package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"
)

const (
	// dialTimeout limits one attempt to reach the server.
	dialTimeout = 5 * time.Second
	// reachableRetry is how long the loop waits when the server was not reached.
	reachableRetry = time.Second
)

// errUnreachable is the reason why configurations get no first webhooks yet.
var errUnreachable = errors.New("the webhook server cannot be reached yet")

// Dial opens a TLS connection to an address, "host:port", and requires a certificate for serverName that the bundle trusts, as
// API servers do.
func Dial(ctx context.Context, address, serverName string, caBundle []byte) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(caBundle) {
		return fmt.Errorf("connect to %s: the bundle has no certificate", address)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	dialer := &tls.Dialer{NetDialer: &net.Dialer{}, Config: &tls.Config{RootCAs: roots, ServerName: serverName, MinVersion: tls.VersionTLS12}}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", address, err)
	}
	if err := connection.Close(); err != nil {
		return fmt.Errorf("connect to %s: close connection: %w", address, err)
	}
	return nil
}

// reach returns an error that wraps errUnreachable if the server cannot be reached.
func (k *Keeper) reach(ctx context.Context, bundle []byte) error {
	if k.options.Reachable == nil {
		return nil
	}
	if err := k.options.Reachable(ctx, bundle); err != nil {
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	return nil
}

package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// dialTimeout limits one attempt to reach the server.
	dialTimeout = 5 * time.Second
	// reachableRetry is how long the loop waits when the server was not reached.
	reachableRetry = time.Second
)

// errUnreachable is why configurations are not created yet.
var errUnreachable = errors.New("the webhook server cannot be reached yet")

// Dial returns a function for Options.Reachable: it opens a TLS connection to an address, "host:port", and requires a
// certificate for serverName that the bundle trusts, as API servers do.
func Dial(address, serverName string) func(ctx context.Context, caBundle []byte) error {
	return func(ctx context.Context, caBundle []byte) error {
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
}

// begins says whether writing a configuration makes API servers call webhooks of a configuration that had none.
func (c configuration) begins(live client.Object) (bool, error) {
	have, err := newConfiguration(live)
	if err != nil {
		return false, err
	}
	return len(c.webhooks) > 0 && len(have.webhooks) == 0, nil
}

// reach asks once per call of the function that it returns first whether the server can be reached.
func (k *Keeper) reach(ctx context.Context, bundle []byte) func() error {
	asked := false
	var answer error
	return func() error {
		if asked || k.options.Reachable == nil {
			return answer
		}
		asked = true
		if err := k.options.Reachable(ctx, bundle); err != nil {
			answer = fmt.Errorf("%w: %w", errUnreachable, err)
		}
		return answer
	}
}

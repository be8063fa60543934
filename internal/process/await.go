package process

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
)

// Patience is how long a process in a cluster waits at its start for API servers that do not answer. If the process exited instead, the
// kubelet would restart it after pauses that grow to minutes. Outside of a cluster a user waits for the error, so the process does not
// wait.
const Patience = time.Minute

// pause is the time between two checks of an API server that did not answer.
const pause = time.Second

// patience returns Patience if the process runs in a cluster, and otherwise 0. A process runs in a cluster if it has an environment
// variable that the kubelet sets in every container.
func patience(getenv func(string) string) time.Duration {
	if getenv("KUBERNETES_SERVICE_HOST") == "" {
		return 0
	}
	return Patience
}

// awaitAccess repeats checkAccess until it succeeds or until the deadline. It waits if the API server, or the server of an aggregated API
// with a required kind, does not answer. It also waits if the API server's list of the kinds of a required group is outdated. It returns
// any other first error at once. After the first pause, it retries after every error: an API server that has just started may refuse all
// requests until it has read its roles.
func (s *Setup) awaitAccess(
	ctx context.Context, at side, from *Connection, required []Requirement, rights []Right, deadline time.Time,
) error {
	reason, limit := "", accessTimeout
	for {
		err := checkAccess(ctx, at, s.Program.Name, from.Config, from.HTTPClient, required, rights, limit)
		if err == nil {
			err = at.checkDiscovery(from.Mapper, required)
		}
		left := deadline.Sub(s.clock().Now())
		if err == nil || ctx.Err() != nil || left <= 0 || reason == "" && !isAway(err) {
			return err
		}
		if now := err.Error(); now != reason {
			s.Log.Info("Waiting for the API server", "cluster", at.name, "host", from.Config.Host, "atMost", left.Round(time.Second).String(),
				"reason", now)
			reason = now
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the API server of the %s cluster: %w", at.name, ctx.Err())
		case <-s.clock().After(pause):
		}
		if limit = min(limit, left-pause); limit <= 0 {
			return err
		}
	}
}

// Await repeats a request until s.Patience has passed while the API server does not answer.
func (s *Setup) Await(ctx context.Context, request func(context.Context) error) error {
	deadline := s.clock().Now().Add(s.Patience)
	for {
		err := request(ctx)
		if err == nil || ctx.Err() != nil || !isAway(err) || !s.clock().Now().Before(deadline) {
			return err
		}
		s.Log.Info("Waiting for an API server", "reason", err.Error())
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for an API server: %w", ctx.Err())
		case <-s.clock().After(pause):
		}
	}
}

// checkDiscovery returns an error while the API server's list of the kinds of a required group is outdated. The API server asks the servers
// of aggregated APIs for their kinds once a minute, so its list may be outdated for a minute after an APIService or a
// CustomResourceDefinition changed. checkDiscovery ignores all other errors of the mapper: the clients that use the mapper report them.
func (s side) checkDiscovery(mapper meta.RESTMapper, required []Requirement) error {
	for _, each := range required {
		_, err := mapper.RESTMapping(each.Kind.GroupKind(), each.Kind.Version)
		if _, outdated := errors.AsType[discovery.StaleGroupVersionError](err); outdated {
			return absence{s.explain(err)}
		}
	}
	return nil
}

// absence is an error that is caused by a server that may come back.
type absence struct{ error }

func (a absence) Unwrap() error { return a.error }

// isAway reports whether an error means that a server does not answer and may come back. The HTTP codes from 500 and the code 429 count as
// such errors. isAway returns false for other answers of a server, for a wrong server, and for mistakes on our side.
func isAway(err error) bool {
	if _, away := errors.AsType[absence](err); away {
		return true
	}
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		return answer.Status().Code >= http.StatusInternalServerError || answer.Status().Code == http.StatusTooManyRequests
	}
	if _, wrong := errors.AsType[*tls.CertificateVerificationError](err); wrong {
		return false
	}
	if operation, ok := errors.AsType[*net.OpError](err); ok {
		return operation.Op != "remote error" // this is the error of the TLS library if the server refuses our certificate
	}
	// The HTTP/2 client does not export its errors for lost or closed connections.
	if strings.Contains(err.Error(), "http2: client connection ") {
		return true
	}
	var network net.Error
	return errors.As(err, &network) && network.Timeout() || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF)
}

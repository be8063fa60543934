package process

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// Patience is how long a process that runs in a cluster waits at start for API servers that are away. One that ends is
// started again by the kubelet only after pauses that grow to minutes. Elsewhere somebody waits for the error.
const Patience = time.Minute

// pause is between two looks whether an API server is back.
const pause = time.Second

// patience tells by what the kubelet sets in every container whether this one runs in a cluster.
func patience(getenv func(string) string) time.Duration {
	if getenv("KUBERNETES_SERVICE_HOST") == "" {
		return 0
	}
	return Patience
}

// awaitAccess is checkAccess that is repeated until the deadline while the API server is away. One that has just come back
// may refuse everybody until it has read its roles, so that what it says is believed in the end only.
func (s *Setup) awaitAccess(ctx context.Context, at side, cfg *rest.Config, httpClient *http.Client, required []Requirement, rights []right, deadline time.Time) error {
	for waited := false; ; waited = true {
		err := checkAccess(ctx, at, s.Program.Name, cfg, httpClient, required, rights)
		if err == nil || !waited && !isAway(err) {
			return err
		}
		left := deadline.Sub(s.clock().Now())
		if left <= 0 {
			return err
		}
		s.Log.Info("Waiting for the API server", "cluster", at.name, "host", cfg.Host, "atMost", left.Round(time.Second).String(), "reason", err.Error())
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the API server of the %s cluster: %w", at.name, ctx.Err())
		case <-s.clock().After(min(pause, left)):
		}
	}
}

// isAway tells an API server that may come back from one that answers, or that is not the one it should be.
func isAway(err error) bool {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		return answer.Status().Code >= http.StatusInternalServerError || answer.Status().Code == http.StatusTooManyRequests
	}
	if _, wrong := errors.AsType[*tls.CertificateVerificationError](err); wrong {
		return false
	}
	_, silent := errors.AsType[*url.Error](err)
	return silent
}

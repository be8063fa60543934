package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"
)

// The time limits of the requests to a child are shorter than the time limits of the probes that gardenlet declares, 5 s and 1 s, so that
// the answer names the child.
const (
	healthTimeout    = 4 * time.Second
	readinessTimeout = 900 * time.Millisecond
)

// checkHealth fails if /healthz of the child fails. A child that waits for the lease is healthy. So is a child that does not listen yet,
// because it first waits for API servers, for a limited time.
func (c *child) checkHealth(req *http.Request) error {
	at := c.serving.Load()
	if at == nil {
		return nil
	}
	// This process itself asks the API server, which is the only request of that check.
	_, err := get(req.Context(), healthTimeout, "http://"+at.probes+"/healthz?exclude=apiserver-healthz")
	if err == nil {
		at.answered.Store(true)
	} else if errors.Is(err, syscall.ECONNREFUSED) && !at.answered.Load() {
		return nil
	}
	return err
}

// checkReadiness fails if /readyz of the child fails. A child that waits for the lease is ready, as the standby of another replica.
func (c *child) checkReadiness(req *http.Request) error {
	at := c.serving.Load()
	if at == nil && !c.everyReplica {
		return nil
	}
	if at == nil {
		return errors.New("it does not run")
	}
	_, err := get(req.Context(), readinessTimeout, "http://"+at.probes+"/readyz")
	return err
}

// get returns the body of a successful answer.
func get(ctx context.Context, timeout time.Duration, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", response.Status, body)
	}
	return body, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// await calls probe until it succeeds. The error contains the awaited state and the last error.
func await(ctx context.Context, limit time.Duration, what string, probe func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := probe(limited)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limited.Done():
			return fmt.Errorf("wait for %s: not within %s: %w", what, limit, err)
		case <-ticker.C:
		}
	}
}

// get succeeds if the URL returns 200.
func get(ctx context.Context, url string) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

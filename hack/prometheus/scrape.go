package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// scrape reads the metrics in the text format.
func scrape(ctx context.Context, url string) (content []byte, contentType string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, "", err
	}
	request.Header.Set("Accept", "text/plain; version=0.0.4")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, "", fmt.Errorf("read metrics: %w", err)
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return nil, "", fmt.Errorf("read metrics: %s answers %s", url, response.Status)
	}
	content, err = io.ReadAll(response.Body)
	return content, response.Header.Get("Content-Type"), err
}

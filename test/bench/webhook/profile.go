package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
)

// profile writes a CPU profile of the server during the higher rate. The channel reports the end.
func (b *bench) profile(ctx context.Context, s size, rate int) <-chan error {
	done := make(chan error, 1)
	if s.profile == "" || rate < 1000 {
		done <- nil
		return done
	}
	go func() { done <- b.writeProfile(ctx, s) }()
	return done
}

func (b *bench) writeProfile(ctx context.Context, s size) error {
	url := fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/profile?seconds=%d", b.ports.metrics, max(1, int(s.load.Seconds())-1))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(s.profile, content, 0o600)
}

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// profile takes CPU profiles of the controller and of the API server for that long, during the measurement, and then a profile of the
// controller's heap. The returned function waits until they are written. Without a folder for profiles it does nothing.
func (b *bench) profile(ctx context.Context, phase string, length time.Duration) (wait func()) {
	if b.profiles == "" {
		return func() {}
	}
	whole := max(1, int(length.Round(time.Second)/time.Second))
	done := make(chan error, 2)
	go func() {
		done <- b.profileAPIServer(ctx, phase, whole)
	}()
	go func() {
		address := b.controller.profiles()
		// The process may just have been started.
		err := await(ctx, 10*time.Second, "profiles to be served", func(ctx context.Context) error {
			_, err := get(ctx, address)
			return err
		})
		if err == nil {
			err = b.saveProfile(ctx, fmt.Sprintf("%sprofile?seconds=%d", address, whole), phase, "cpu")
		}
		if err == nil {
			err = b.saveProfile(ctx, address+"heap", phase, "heap")
		}
		done <- err
	}()
	return func() {
		for range cap(done) {
			if err := <-done; err != nil {
				b.report.detail("a profile of this phase is missing: %v", err)
			}
		}
	}
}

func (b *bench) saveProfile(ctx context.Context, url, phase, kind string) error {
	data, err := get(ctx, url)
	if err != nil {
		return err
	}
	return b.writeProfile(data, phase, kind)
}

func (b *bench) profileAPIServer(ctx context.Context, phase string, seconds int) error {
	data, err := b.target.discovery.RESTClient().Get().AbsPath("/debug/pprof/profile").Param("seconds", strconv.Itoa(seconds)).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("profile API server: %w", err)
	}
	return b.writeProfile(data, phase, "apiserver")
}

func (b *bench) writeProfile(data []byte, phase, kind string) error {
	if err := os.MkdirAll(b.profiles, 0o750); err != nil {
		return fmt.Errorf("create folder of profiles: %w", err)
	}
	file := filepath.Join(b.profiles, fmt.Sprintf("%s-%s.%s.pprof", fileName(b.workload.String()), phase, kind))
	return os.WriteFile(file, data, 0o600)
}

// fileName replaces characters that are not suitable for a file name.
func fileName(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '×':
			return 'x'
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z':
			return r
		case r == ' ':
			return '-'
		default:
			return -1
		}
	}, text)
}

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/espalier-dev/espalier/internal/webhook/registrations"
)

const burst = 10

// figures are the results of one load.
type figures struct {
	// processor is the server's processor time per request, in ms; objects and bytes are its allocations.
	processor, objects, bytes float64
	median, tail              time.Duration
}

// loads measures Pods at two rates, mixed over all handlers for Pods, and the floor for each.
func (b *bench) loads(ctx context.Context, s size, recorded map[string][]byte) (bool, error) {
	bare, err := b.startFloor(ctx, b.ports.floor, "")
	if err != nil {
		return false, err
	}
	mixed := pods(b, recorded)
	if _, err := b.send(ctx, target{b.server.ID, b.ports.webhooks, b.ports.metrics}, mixed, 500, s.single); err != nil { // warm-up
		return false, err
	}
	met := true
	for _, rate := range []int{500, 1500} {
		floor, err := b.send(ctx, target{bare.ID, b.ports.floor, 0}, mixed, rate, s.load)
		if err != nil {
			return false, err
		}
		written := b.profile(ctx, s, rate)
		own, err := b.send(ctx, target{b.server.ID, b.ports.webhooks, b.ports.metrics}, mixed, rate, s.load)
		if err != nil {
			return false, err
		}
		if err := <-written; err != nil {
			return false, err
		}
		fmt.Printf("\nPods at %d requests/s, all %d handlers for Pods in turn, bodies of %d bytes\n", rate, len(mixed), len(mixed[0].body))
		met = report.Show("processor time of the server for each request, in ms", own.processor, 0.25) && met
		met = report.Show("median, in ms", milliseconds(own.median), 1.2) && met
		met = report.Show("99th percentile, in ms", milliseconds(own.tail), 4) && met
		report.Inform("÷ floor: processor time", own.processor/floor.processor)
		report.Inform("÷ floor: median", milliseconds(own.median)/milliseconds(floor.median))
		report.Inform("floor: 99th percentile, in ms", milliseconds(floor.tail))
		report.Inform("allocated objects for each request", own.objects)
		report.Inform("allocated KiB for each request", own.bytes/1024)
	}
	return met, nil
}

// handlers measures each handler alone.
func (b *bench) handlers(ctx context.Context, s size, recorded map[string][]byte) (bool, error) {
	fmt.Printf("\n%-75s %8s %8s %8s %8s %8s\n", "each handler alone, 1000 requests/s", "CPU ms", "p50 ms", "p99 ms", "objects", "KiB")
	met := true
	for _, path := range slices.Sorted(maps.Keys(recorded)) {
		found, err := b.send(ctx, target{b.server.ID, b.ports.webhooks, b.ports.metrics}, []review{{path, recorded[path]}}, 1000, s.single)
		if err != nil {
			return false, err
		}
		fmt.Printf("%-75s %8.3f %8.2f %8.2f %8.0f %8.1f\n", path, found.processor, milliseconds(found.median), milliseconds(found.tail), found.objects, found.bytes/1024)
		met = met && found.processor <= 0.25
	}
	return met, nil
}

// pods returns the reviews about Pods.
func pods(b *bench, recorded map[string][]byte) []review {
	var found []review
	for _, each := range registrations.Enabled("", b.cfg.Webhooks, registrations.Own{}) {
		if each.Rules[0].Resources[0] == "pods" {
			found = append(found, review{each.Path, recorded[each.Path]})
		}
	}
	return found
}

// target is a measured process. Without metrics, allocations are not measured.
type target struct{ pid, port, metrics int }

// send sends requests at a rate for a duration, in bursts, from one client with one connection.
func (b *bench) send(ctx context.Context, to target, reviews []review, rate int, d time.Duration) (figures, error) {
	c := b.newClient()
	defer c.CloseIdleConnections()
	if _, _, err := post(ctx, c, to.port, reviews[0]); err != nil { // opens the connection
		return figures{}, err
	}
	before, err := usageOf(ctx, to)
	if err != nil {
		return figures{}, err
	}
	latencies, err := bursts(ctx, c, to.port, reviews, rate, d)
	if err != nil {
		return figures{}, err
	}
	after, err := usageOf(ctx, to)
	if err != nil {
		return figures{}, err
	}
	slices.Sort(latencies)
	n := float64(len(latencies))
	return figures{
		processor: (after.processor - before.processor).Seconds() * 1000 / n, objects: (after.objects - before.objects) / n, bytes: (after.bytes - before.bytes) / n,
		median: latencies[len(latencies)/2], tail: latencies[len(latencies)*99/100],
	}, nil
}

// newClient returns a client that uses one connection.
func (b *bench) newClient() *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(b.authority)
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}}
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

func bursts(ctx context.Context, c *http.Client, port int, reviews []review, rate int, d time.Duration) ([]time.Duration, error) {
	count := max(1, int(d.Seconds()*float64(rate)/burst))
	latencies := make([]time.Duration, count*burst)
	errs := make([]error, count*burst)
	every := time.NewTicker(time.Second * burst / time.Duration(rate))
	defer every.Stop()
	var running sync.WaitGroup
	for i := range count {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-every.C:
		}
		for j := range burst {
			running.Go(func() {
				at := i*burst + j
				latencies[at], _, errs[at] = post(ctx, c, port, reviews[at%len(reviews)])
			})
		}
	}
	running.Wait()
	return latencies, errors.Join(errs...)
}

// post sends one review, and returns the response and the time that it took.
func post(ctx context.Context, c *http.Client, port int, r review) (took time.Duration, answer []byte, err error) {
	begin := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("https://127.0.0.1:%d%s?timeout=10s", port, r.path), bytes.NewReader(r.body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, err
	}
	if response.ProtoMajor != 2 || !bytes.Contains(answer, []byte(`"allowed":true`)) {
		return 0, nil, fmt.Errorf("%s by %s: %s", r.path, response.Proto, answer)
	}
	return time.Since(begin), answer, nil
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

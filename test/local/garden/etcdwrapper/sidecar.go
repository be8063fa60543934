package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/transport"
)

// sidecar is etcd-backup-restore in the same Pod.
type sidecar struct {
	client *http.Client
	url    string
	log    *log.Logger
	// interval is the time between two requests for the state. pause is the time to wait after a failed initialization.
	interval, pause time.Duration
}

// Modes of the initialization. Both restore bad data from the backup; full also checks the database for corruption.
const (
	full   = "full"
	sanity = "sanity"
)

const (
	requestTimeout = 10 * time.Second
	// configTimeout is long, because the sidecar may have to add a member before it answers.
	configTimeout = 2 * time.Minute
)

func newSidecar(s settings, logger *log.Logger) (*sidecar, error) {
	c := &sidecar{client: &http.Client{}, url: "http://" + s.sidecar, log: logger, interval: time.Second, pause: 5 * time.Second}
	if !s.sidecarTLS {
		return c, nil
	}
	var err error
	c.url = "https://" + s.sidecar
	c.client, err = tlsClient(transport.TLSConfig{CAFile: s.sidecarCA})
	return c, err
}

func tlsClient(files transport.TLSConfig) (*http.Client, error) {
	files.NextProtos = []string{"http/1.1"}
	connections, err := transport.New(&transport.Config{TLS: files})
	if err != nil {
		return nil, fmt.Errorf("read certificates: %w", err)
	}
	return &http.Client{Transport: connections}, nil
}

// prepare waits until the sidecar has initialized the data, however long a restore takes, and returns the configuration of etcd.
func (c *sidecar) prepare(ctx context.Context, mode string) ([]byte, error) {
	if err := c.initialize(ctx, mode); err != nil {
		return nil, err
	}
	for {
		config, err := get(ctx, c.client, c.url+"/config", configTimeout)
		if err == nil {
			return config, nil
		}
		c.log.Print("read configuration of etcd: ", err)
		if err := wait(ctx, c.interval); err != nil {
			return nil, err
		}
	}
}

// initialize requests the state until the initialization has succeeded. The sidecar reports the success only once.
func (c *sidecar) initialize(ctx context.Context, mode string) error {
	for {
		pause := c.interval
		state, err := get(ctx, c.client, c.url+"/initialization/status", requestTimeout)
		switch strings.Trim(string(state), "\" \n") {
		case "Successful":
			return nil
		case "New":
			c.log.Printf("starting initialization in mode %s", mode)
			_, err = get(ctx, c.client, c.url+"/initialization/start?mode="+mode, requestTimeout)
		case "Failed":
			mode, pause, err = full, c.pause, errors.New("the sidecar says that it has failed")
		}
		if err != nil {
			c.log.Print("initialize data: ", err)
		}
		if err := wait(ctx, pause); err != nil {
			return err
		}
	}
}

// get returns the body of a response with status 200.
func get(ctx context.Context, client *http.Client, url string, timeout time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read answer of %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers with status %d: %.1000s", url, response.StatusCode, body)
	}
	return body, nil
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

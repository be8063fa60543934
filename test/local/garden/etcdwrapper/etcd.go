package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/transport"
	"sigs.k8s.io/yaml"
)

const (
	// stopGrace is the longest time for etcd to hand over its leadership and to close its database. The kubelet allows 30 seconds.
	stopGrace     = 25 * time.Second
	probeInterval = 2 * time.Second
	probeTimeout  = 5 * time.Second
)

// marker is the path of a file that contains inOrder if etcd has stopped in order. Then its database need not be checked.
func (s settings) marker() string { return filepath.Join(s.data, "exit_code") }

const inOrder = "terminated"

// takeMode returns the mode of the initialization according to the marker, and removes the marker, which would otherwise be wrong if the
// coming run fails.
func takeMode(s settings) (string, error) {
	content, err := os.ReadFile(s.marker())
	if errors.Is(err, os.ErrNotExist) {
		return full, nil
	}
	if err = errors.Join(err, os.Remove(s.marker())); err != nil {
		return "", fmt.Errorf("find out how etcd has stopped: %w", err)
	}
	if string(content) == inOrder {
		return sanity, nil
	}
	return full, nil
}

type etcd struct {
	settings

	log *log.Logger
	// ready is the result of the last probe.
	ready atomic.Bool
}

// run runs etcd and returns when it has ended. The error is nil if etcd has stopped in order because the context has ended.
func (e *etcd) run(ctx context.Context, config []byte) error {
	client, err := e.client(config)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, e.etcd, "--config-file="+e.config)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.WaitDelay = stopGrace
	command.Cancel = func() error {
		e.ready.Store(false)
		return command.Process.Signal(syscall.SIGTERM)
	}
	if err = command.Start(); err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	probing, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.probe(probing, client)
	}()
	err = command.Wait()
	stop()
	<-done
	e.ready.Store(false)
	if !wasAskedToStop(ctx) || !endedInOrder(command.ProcessState) {
		return fmt.Errorf("etcd has stopped: %w", errors.Join(err, context.Cause(ctx)))
	}
	if err := os.WriteFile(e.marker(), []byte(inOrder), 0o600); err != nil {
		return fmt.Errorf("remember that etcd has stopped in order: %w", err)
	}
	return nil
}

// wasAskedToStop reports whether the program stops because of a signal or request, and not because of a failure.
func wasAskedToStop(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), errServer)
}

// endedInOrder reports whether etcd has ended by itself, or by the signal SIGTERM, which etcd sends to itself when it has closed its
// database.
func endedInOrder(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return state.Success() || ok && status.Signaled() && status.Signal() == syscall.SIGTERM
}

// probe updates ready until the context ends.
func (e *etcd) probe(ctx context.Context, client *http.Client) {
	for {
		err := e.healthy(ctx, client)
		if ready := err == nil; e.ready.Swap(ready) != ready && ctx.Err() == nil {
			e.log.Printf("ready: %t, %v", ready, err)
		}
		if wait(ctx, probeInterval) != nil {
			return
		}
	}
}

// healthy makes etcd read a key with the agreement of its members. It ignores alarms: without space, etcd still serves reads.
func (e *etcd) healthy(ctx context.Context, client *http.Client) error {
	scheme := "http"
	if e.clientTLS() {
		scheme = "https"
	}
	url := scheme + "://" + net.JoinHostPort(e.serverName, strconv.Itoa(e.clientPort)) + "/health?exclude=NOSPACE&exclude=CORRUPT"
	_, err := get(ctx, client, url, probeTimeout)
	return err
}

// client returns an HTTP client for etcd. It trusts the authority in the configuration of etcd.
func (e *etcd) client(config []byte) (*http.Client, error) {
	if !e.clientTLS() {
		return &http.Client{}, nil
	}
	file := struct {
		Clients struct {
			CA string `json:"trusted-ca-file"`
		} `json:"client-transport-security"`
	}{}
	if err := yaml.Unmarshal(config, &file); err != nil {
		return nil, fmt.Errorf("decode configuration of etcd: %w", err)
	}
	return tlsClient(transport.TLSConfig{CAFile: file.Clients.CA, CertFile: e.clientCert, KeyFile: e.clientKey})
}

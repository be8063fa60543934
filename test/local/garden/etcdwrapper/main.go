// Command etcdwrapper runs etcd in the Pods that etcd-druid creates. First it makes the sidecar, etcd-backup-restore, check the data and
// restore them if necessary, and reads the configuration of etcd from the sidecar. While etcd runs, it serves the health of etcd to the
// kubelet and the sidecar.
//
// It starts the program etcd, which is in the same image. It does not change the data itself, and sends no request to the API server. If a
// certificate changes, a new Secret contains it, and the Pod is replaced.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	syscall.Umask(0o077)
	logger := log.New(os.Stderr, "etcd-wrapper: ", log.LstdFlags|log.LUTC)
	s, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, s, logger)
	}
	cancel()
	if err != nil {
		logger.Print("error: ", err)
		os.Exit(1)
	}
}

// settings are the flags with which etcd-druid starts the program, and paths that are the same in all Pods.
type settings struct {
	sidecar               string
	sidecarTLS            bool
	sidecarCA             string
	serverName            string
	clientCert, clientKey string
	clientPort, port      int

	// etcd is the program of etcd, data the folder of its volume, config the file for its configuration, and certificates the folder of the
	// certificate for the port that clients use.
	etcd, data, config, certificates string
}

// clientTLS reports whether clients of etcd, and of this program, use TLS.
func (s settings) clientTLS() bool { return s.clientCert != "" }

func parse(args []string) (settings, error) {
	const command = "start-etcd"
	s := settings{etcd: "/etcd", data: "/var/etcd/data", config: "/tmp/etcd.conf.yaml", certificates: "/var/etcd/ssl/server"}
	if len(args) == 0 || args[0] != command {
		return s, errors.New("usage: etcdwrapper " + command + " [flags]")
	}
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.StringVar(&s.sidecar, "backup-restore-host-port", "", "host and port of the sidecar")
	flags.BoolVar(&s.sidecarTLS, "backup-restore-tls-enabled", false, "whether the sidecar serves TLS")
	flags.StringVar(&s.sidecarCA, "backup-restore-ca-cert-bundle-path", "", "certificate authorities of the sidecar")
	flags.StringVar(&s.serverName, "etcd-server-name", "", "host name of etcd, in its certificate")
	flags.StringVar(&s.clientCert, "etcd-client-cert-path", "", "certificate of clients of etcd")
	flags.StringVar(&s.clientKey, "etcd-client-key-path", "", "its private key")
	flags.IntVar(&s.clientPort, "etcd-client-port", 2379, "port of etcd")
	flags.IntVar(&s.port, "etcd-wrapper-port", 9095, "port of this program")
	if err := flags.Parse(args[1:]); err != nil {
		return s, err
	}
	if s.sidecar == "" || s.serverName == "" {
		return s, errors.New("--backup-restore-host-port and --etcd-server-name are required")
	}
	return s, nil
}

// run runs etcd. It returns nil if a signal or a request has asked it to stop, and etcd has stopped in order.
func run(ctx context.Context, s settings, logger *log.Logger) error {
	group, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	e := &etcd{settings: s, log: logger}
	server := &server{ready: &e.ready, stop: stop}
	if err := server.listen(ctx, s); err != nil {
		return err
	}
	group.Go(func() error { return server.serve(ctx) })
	group.Go(func() error {
		defer stop()
		return prepareAndRun(ctx, s, e, logger)
	})
	return group.Wait()
}

func prepareAndRun(ctx context.Context, s settings, e *etcd, logger *log.Logger) error {
	sidecar, err := newSidecar(s, logger)
	if err != nil {
		return err
	}
	mode, err := takeMode(s)
	if err != nil {
		return err
	}
	config, err := sidecar.prepare(ctx, mode)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it was asked to stop before etcd was started
	}
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.config, config, 0o600); err != nil {
		return fmt.Errorf("write configuration of etcd: %w", err)
	}
	return e.run(ctx, config)
}

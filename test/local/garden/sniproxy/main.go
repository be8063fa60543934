// Command sniproxy takes the place of Envoy in a gateway of Istio: it passes TLS connections through to the Service that Gateways and
// VirtualServices name for the host name in the first message of the client. It never decrypts anything, and closes connections that match
// nothing. Of Istio's objects it knows only servers of port 443 with the mode PASSTHROUGH and routes for TLS; istiod plays no part.
//
// It runs with the arguments, ports and volumes of the gateway's Deployment. Its ServiceAccount must be allowed to read Gateways and
// VirtualServices of all namespaces.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// address is the target of port 443 of the gateway's Service, probes that of the readiness probe.
	address = ":9443"
	probes  = ":15021"
	// labelsFile has the labels of this Pod, which Gateways select.
	labelsFile = "/etc/istio/pod/labels"
	// drain is how long connections may go on after a signal.
	drain = 45 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctrllog.SetLogger(logr.Discard())
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	text, err := os.ReadFile(labelsFile)
	if err != nil {
		return fmt.Errorf("read labels of Pod: %w", err)
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find API server: %w", err)
	}
	objects, err := cache.New(config, cache.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		return fmt.Errorf("create cache: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	source := &source{reader: objects, gateway: gateway{namespace: os.Getenv("POD_NAMESPACE"), labels: labelsOf(string(text))}}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return objects.Start(ctx) })
	if err := source.sync(ctx); err != nil {
		return err
	}
	group.Go(func() error { return serveProbes(ctx) })
	group.Go(func() error { return pass(ctx, listener, source.destination) })
	return group.Wait()
}

// serveProbes answers when the objects are known and the listener is open.
func serveProbes(ctx context.Context) error {
	routes := http.NewServeMux()
	routes.HandleFunc("GET /healthz/ready", func(http.ResponseWriter, *http.Request) {})
	server := &http.Server{Addr: probes, Handler: routes, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve probes: %w", err)
	}
	return nil
}

// pass accepts connections until the context ends, and then gives them time to end.
func pass(ctx context.Context, listener net.Listener, destination func(context.Context, string) (string, error)) error {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	connections, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var open sync.WaitGroup
	for {
		client, err := listener.Accept()
		if ctx.Err() != nil {
			time.AfterFunc(drain, end)
			open.Wait()
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		from, ok := client.(*net.TCPConn)
		if !ok {
			return fmt.Errorf("accept: %T is no TCP connection", client)
		}
		open.Go(func() {
			if err := handle(connections, from, destination); err != nil {
				log.Printf("connection of %s: %v", client.RemoteAddr(), err)
			}
		})
	}
}

// Command sniproxy replaces Envoy in a gateway of Istio: it forwards TLS connections, without decrypting them, to the Service that Gateways
// and VirtualServices define for the host name in the client's first message. It closes connections for all other host names. It supports
// only servers of port 443 with the mode PASSTHROUGH and routes for TLS. It does not use istiod. It serves the number of connections as the
// metric of Envoy.
//
// It runs with the arguments, ports and volumes of the gateway's Deployment. Its ServiceAccount must have the right to read Gateways and
// VirtualServices in all namespaces.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/espalier-dev/espalier/test/local/relay"
)

const (
	// address is the address for port 443 of the gateway's Service. probes is the address of the readiness probe, and metrics of the metrics.
	address = ":9443"
	probes  = ":15021"
	metrics = ":15090"
	// labelsFile contains the labels of this Pod, by which Gateways select it.
	labelsFile = "/etc/istio/pod/labels"
	// drain is how long open connections may continue after a signal.
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
	group.Go(func() error { return probeServer().Start(ctx) })
	counted := &countedListener{Listener: listener}
	group.Go(func() error { return metricsServer(counted).Start(ctx) })
	group.Go(func() error { return relay.Serve(ctx, counted, drain, connectTo(source.destination)) })
	return group.Wait()
}

// probeServer serves the readiness probe once the objects are read and the listener is open.
func probeServer() *manager.Server {
	routes := http.NewServeMux()
	routes.HandleFunc("GET /healthz/ready", func(http.ResponseWriter, *http.Request) {})
	return &manager.Server{Server: &http.Server{Addr: probes, Handler: routes, ReadHeaderTimeout: 10 * time.Second}}
}

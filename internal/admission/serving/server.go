package serving

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// DefaultShutdownLimit is the default of Options.ShutdownLimit. It is shorter than the grace period of the process, so that the runnables
// that stop later have time, too.
const DefaultShutdownLimit = 4300 * time.Millisecond

// DefaultReadTimeout is how long a client may take to send a request, body included. API servers wait at most 30 s for an answer. So no
// client is waiting for the answer to a request that takes longer to arrive.
const DefaultReadTimeout = 30 * time.Second

// Limits of connections, with the values of the library.
const (
	idleTimeout    = 90 * time.Second
	maxHeaderBytes = 1 << 20
)

// GetCertificate returns the certificate for a new connection. If it returns an error, the connection is refused and the server is not
// ready; the readiness check shows the error.
type GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// Options say how a Server is reached and how it ends.
type Options struct {
	// BindAddress is the address at which the server listens; empty for all addresses.
	BindAddress string
	// Port is the port; 0 for any free port.
	Port int
	// CertDir is the folder of tls.crt and tls.key, which are read again when they change. Empty: the default of the library,
	// k8s-webhook-server/serving-certs in the folder for temporary files.
	CertDir string
	// CertFile and KeyFile are the two files, instead of CertDir; they are also read again. Both or neither must be set.
	CertFile, KeyFile string
	// Setting is the field of the configuration that names the folder or files, for messages; empty: server.webhooks.tls.serverCertDir.
	Setting string
	// ShutdownDelay is how long the server accepts requests after the process is asked to end.
	ShutdownDelay time.Duration
	// ShutdownLimit is the longest time from that moment until the server has ended; 0 for DefaultShutdownLimit.
	ShutdownLimit time.Duration
	// ReadTimeout is how long a client may take to send a request, body included; 0 for DefaultReadTimeout.
	ReadTimeout time.Duration
	// Clock measures the delay.
	Clock clock.Clock
	// Log receives starts, stops and failed connections.
	Log logr.Logger
}

// Server serves webhooks by TLS. A manager runs it: set manager.Options.WebhookServer to it, then call Add.
type Server struct {
	// Server is the server of controller-runtime. It registers handlers and measures them; it is never started.
	webhook.Server
	// GetCertificate is called for each connection; nil to use the files of the options. It must not change after Start.
	GetCertificate GetCertificate

	options Options
	// port is the port at which the server listens; 0 before.
	port atomic.Int64
	// asked is when the process was asked to end; nil before.
	asked atomic.Pointer[time.Time]
	// workers answer requests.
	workers workers
}

var _ webhook.Server = (*Server)(nil)

// New returns a server that has not started.
func New(options Options) *Server {
	options.Setting = cmp.Or(options.Setting, "server.webhooks.tls.serverCertDir")
	options.ShutdownLimit = cmp.Or(options.ShutdownLimit, DefaultShutdownLimit)
	options.ReadTimeout = cmp.Or(options.ReadTimeout, DefaultReadTimeout)
	return &Server{
		Server:  webhook.NewServer(webhook.Options{}),
		options: options,
		workers: workers{tasks: make(chan *task)},
	}
}

// Port returns the port at which the server listens; 0 before it listens.
func (s *Server) Port() int { return int(s.port.Load()) }

// Start serves until the context ends, and then as long as the package comment describes. It returns an error if there is no usable
// certificate, or the address is in use. It returns nil even if requests are still in flight at the shutdown limit.
func (s *Server) Start(ctx context.Context) error {
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatching()
	getCertificate, err := s.certificates(watching)
	if err != nil {
		return err
	}
	listener, err := s.listen(ctx, getCertificate)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:        http.HandlerFunc(s.serveHTTP),
		BaseContext:    func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ErrorLog:       stdlog.New(connectionLog{s.options.Log}, "", 0),
		IdleTimeout:    idleTimeout,
		ReadTimeout:    s.options.ReadTimeout,
		MaxHeaderBytes: maxHeaderBytes,
	}
	stopWorkers := s.workers.start()
	defer stopWorkers()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	s.options.Log.Info("Serving webhooks", "address", listener.Addr().String())
	select {
	case err := <-served:
		s.port.Store(0)
		return fmt.Errorf("serve webhooks: %w", err)
	case <-ctx.Done():
	}
	s.endServing(ctx, server)
	return nil
}

// listen opens the port. The server offers HTTP/2; clients that do not request it get HTTP/1.1.
func (s *Server) listen(ctx context.Context, getCertificate GetCertificate) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(s.options.BindAddress, strconv.Itoa(s.options.Port)))
	if err != nil {
		return nil, fmt.Errorf("listen for webhooks: %w", err)
	}
	if address, ok := listener.Addr().(*net.TCPAddr); ok {
		s.port.Store(int64(address.Port))
	}
	return tls.NewListener(listener, &tls.Config{NextProtos: []string{"h2"}, GetCertificate: getCertificate}), nil
}

// serveHTTP answers a request. In the second half of the shutdown delay, it also asks the client to close the connection.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if since, ending := s.endingFor(); ending && since >= s.options.ShutdownDelay/2 {
		w.Header().Set("Connection", "close")
	}
	s.workers.serve(s.WebhookMux(), w, r)
}

// connectionLog logs the errors of net/http. It logs a client that does not finish its TLS handshake at V(1), for example a probe that only
// opens a connection.
type connectionLog struct{ log logr.Logger }

func (l connectionLog) Write(line []byte) (int, error) {
	text := string(line)
	if strings.Contains(text, "TLS handshake error") {
		l.log.V(1).Info("Connection refused", "reason", text)
	} else {
		l.log.Info("Connection failed", "reason", text)
	}
	return len(line), nil
}

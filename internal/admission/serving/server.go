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

// DefaultShutdownLimit is the longest shutdown of a server: the grace period of the process minus the time of later runnables.
const DefaultShutdownLimit = 4300 * time.Millisecond

// DefaultReadTimeout is how long a client may take to send a request, body included. API servers wait at most 30 s for the
// answer to a request, so no request that is still being sent after that time has a reader for its answer.
const DefaultReadTimeout = 30 * time.Second

// Limits of connections, with the values of the library.
const (
	idleTimeout    = 90 * time.Second
	maxHeaderBytes = 1 << 20
)

// GetCertificate returns the certificate for a new connection. An error refuses the connection, and says why the server
// is not ready.
type GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// Options say how a Server is reached and how it ends.
type Options struct {
	// BindAddress is where it listens; empty for every address.
	BindAddress string
	// Port is the port; 0 for any that is free.
	Port int
	// CertDir is the folder of tls.crt and tls.key, which are read again when they change. Empty: the default of the library,
	// k8s-webhook-server/serving-certs in the folder for temporary files.
	CertDir string
	// CertFile and KeyFile are the two files instead of a folder, read again likewise; both or none.
	CertFile, KeyFile string
	// Setting is the field of the configuration that names folder or files, for messages; empty: server.webhooks.tls.serverCertDir.
	Setting string
	// ShutdownDelay is how long requests are taken after the process was asked to end.
	ShutdownDelay time.Duration
	// ShutdownLimit is when the end must have come, counted from the same moment; 0 for DefaultShutdownLimit.
	ShutdownLimit time.Duration
	// ReadTimeout is how long a client may take to send a request, body included; 0 for DefaultReadTimeout.
	ReadTimeout time.Duration
	// Clock measures the delay.
	Clock clock.Clock
	// Log receives starts, stops and failed connections.
	Log logr.Logger
}

// Server serves webhooks by TLS. It is the server of a manager: give it to manager.Options.WebhookServer, then call Add.
type Server struct {
	// Server is the library's server. It registers handlers and measures them; it never starts.
	webhook.Server
	// GetCertificate is asked for the certificate of each connection; nil to use the files of the options. It must not change
	// after Start.
	GetCertificate GetCertificate

	options Options
	// port is where it listens; 0 until then.
	port atomic.Int64
	// asked is when the process was asked to end; nil until then.
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

// Port returns the port it listens at; 0 until it does.
func (s *Server) Port() int { return int(s.port.Load()) }

// Start serves until the context ends, and then as long as the package comment says. It returns an error if there is no
// usable certificate, or the address is taken; none if requests were still in flight when time was up.
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

// listen opens the port. HTTP/2 is offered, and clients that do not request it get HTTP/1.1.
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

// serveHTTP asks clients to leave when the end is near.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if since, ending := s.endingFor(); ending && since >= s.options.ShutdownDelay/2 {
		w.Header().Set("Connection", "close")
	}
	s.workers.serve(s.WebhookMux(), w, r)
}

// connectionLog receives the errors that net/http logs. A client that does not finish its handshake, such as a probe that only
// opens a connection, is logged at V(1).
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

package proof

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// requestTimeout bounds a request to a Pod.
const requestTimeout = 10 * time.Second

// Server is a program of the virtual cluster that serves HTTPS.
type Server struct {
	// Name is the name of its Deployment or StatefulSet.
	Name string
	// Labels are the labels of its Pods, which serve at the port.
	Labels map[string]string
	Port   int
	// Host is a name in its certificate, and Authority the logical name of the authority that signs the certificate.
	Host, Authority string
	// Path is the path of requests.
	Path string
}

// Credential is the identity that a client shows to a server.
type Credential struct {
	// Certificate is the client certificate. Nil: the client has none.
	Certificate *tls.Certificate
	// Token is the token. Empty: the client has none.
	Token string
	// PassedUser is the user whose request a proxy passes on. Empty: the client is no proxy.
	PassedUser string
}

// Client are the settings of requests.
type Client struct {
	// Dial connects to Pods. Nil: like net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Now returns the time at which certificates of servers must be valid. Nil: time.Now.
	Now func() time.Time
}

// Ask sends a request to a Pod of the server, by its IP address, and returns the status of the answer. The bundle verifies the certificate
// of the server. The request has a connection of its own.
func (s *Server) Ask(ctx context.Context, c Client, ip string, bundle []byte, credential Credential) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	config := &tls.Config{RootCAs: roots, ServerName: s.Host, Time: c.Now, MinVersion: tls.VersionTLS12}
	if credential.Certificate != nil {
		// Unlike with Certificates, the client also shows a certificate of an authority that the server does not ask for.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return credential.Certificate, nil }
	}
	address := url.URL{Scheme: "https", Host: net.JoinHostPort(ip, strconv.Itoa(s.Port)), Path: s.Path}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("build request: %w", err)
	}
	if credential.Token != "" {
		request.Header.Set("Authorization", "Bearer "+credential.Token)
	}
	if credential.PassedUser != "" {
		request.Header.Set("X-Remote-User", credential.PassedUser)
	}
	transport := &http.Transport{TLSClientConfig: config, DialContext: c.Dial, DisableKeepAlives: true}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

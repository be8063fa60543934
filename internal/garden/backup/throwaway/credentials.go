package throwaway

import (
	"fmt"
	"net"

	"github.com/espalier-dev/espalier/internal/garden/component/object"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// Credentials are the certificates of a server and of the only client of this server. The key of the certificate authority is not kept, so
// that no further certificate can be issued.
type Credentials struct {
	// Authority is the certificate of the authority, Server and Client are the data of Secrets with certificates.
	Authority      []byte
	Server, Client map[string][]byte
}

// newCredentials generates the credentials of a server and of its client. The parameter server is the name of the server. The Service of
// the server has the same name, and is in the namespace Namespace.
func newCredentials(server string, source secretconfig.Source) (Credentials, error) {
	made, err := secretconfig.Certificate{Name: server, CommonName: Namespace + ":" + server, Type: secretconfig.CA}.Generate(source)
	if err != nil {
		return Credentials{}, fmt.Errorf("generate certificate authority: %w", err)
	}
	authority, err := secretconfig.ParseAuthority(made)
	if err != nil {
		return Credentials{}, fmt.Errorf("read generated certificate authority: %w", err)
	}
	c := Credentials{Authority: made[secretconfig.DataKeyCACertificate]}
	// The gateway of etcd connects to etcd with the certificate of etcd.
	c.Server, err = secretconfig.Certificate{
		Name: server, CommonName: server, DNSNames: append(object.DNSNames(Namespace, server), "localhost"),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, Type: secretconfig.ServerAndClient, SigningCA: authority,
	}.Generate(source)
	if err != nil {
		return Credentials{}, fmt.Errorf("generate certificate of %s: %w", server, err)
	}
	c.Client, err = secretconfig.Certificate{
		Name: server + "-client", CommonName: Namespace, Type: secretconfig.Client, SigningCA: authority,
	}.Generate(source)
	if err != nil {
		return Credentials{}, fmt.Errorf("generate certificate of the client of %s: %w", server, err)
	}
	return c, nil
}

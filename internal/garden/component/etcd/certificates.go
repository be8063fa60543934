package etcd

import (
	"net"
	"slices"

	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// Certificate authorities of etcds.
const (
	Authority     = rotation.ETCDAuthority
	PeerAuthority = rotation.ETCDPeerAuthority
)

// Logical names of Secrets; names of serving certificates end with the role of the etcd.
const (
	ClientCertificateName = "etcd-client"
	serverCertificate     = "etcd-server-"
	peerCertificate       = "etcd-peer-server-"
)

// Certificates are requests for the certificates of an etcd. Peer is nil without high availability.
type Certificates struct {
	Server secrets.Request
	Peer   *secrets.Request
}

// ClientCertificate returns the request for the certificate that all clients of the etcds use.
func ClientCertificate(values.Values) secrets.Request {
	return secrets.Request{SignedBy: Authority, Config: secretconfig.Certificate{
		Name: ClientCertificateName, CommonName: "etcd-client", Type: secretconfig.Client, SkipPublishingCACertificate: true,
	}}
}

// ServerCertificates returns the requests for the certificates of an etcd.
func ServerCertificates(v values.Values, role Role) Certificates {
	name, members := role.Name(), "*."+role.Name()+"-peer"
	requests := Certificates{Server: secrets.Request{
		SignedBy: Authority,
		Config: serverConfig(serverCertificate+string(role), slices.Concat(
			[]string{name + "-local"}, object.DNSNames(v.Namespace, name+"-client", members),
		)),
	}}
	if v.HighAvailability {
		requests.Peer = &secrets.Request{
			SignedBy: PeerAuthority, Signer: secrets.CurrentSigner,
			Config: serverConfig(peerCertificate+string(role), object.DNSNames(v.Namespace, name+"-peer", members)),
		}
	}
	return requests
}

func serverConfig(name string, dnsNames []string) secretconfig.Certificate {
	return secretconfig.Certificate{
		Name: name, CommonName: "etcd-server", DNSNames: dnsNames, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		Type: secretconfig.ServerAndClient, SkipPublishingCACertificate: true,
	}
}

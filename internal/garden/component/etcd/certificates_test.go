package etcd_test

import (
	"net"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

func TestCertificates(t *testing.T) {
	g := NewWithT(t)
	loopback := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	got := etcd.ServerCertificates(plain(highlyAvailable), etcd.Events)
	g.Expect(got.Server).To(Equal(secrets.Request{SignedBy: "ca-etcd", Config: secretconfig.Certificate{
		Name: "etcd-server-events", CommonName: "etcd-server", Type: secretconfig.ServerAndClient, SkipPublishingCACertificate: true,
		IPAddresses: loopback, DNSNames: []string{
			"virtual-garden-etcd-events-local",
			"virtual-garden-etcd-events-client", "virtual-garden-etcd-events-client.garden",
			"virtual-garden-etcd-events-client.garden.svc", "virtual-garden-etcd-events-client.garden.svc.cluster.local",
			"*.virtual-garden-etcd-events-peer", "*.virtual-garden-etcd-events-peer.garden",
			"*.virtual-garden-etcd-events-peer.garden.svc", "*.virtual-garden-etcd-events-peer.garden.svc.cluster.local",
		},
	}}))
	g.Expect(*got.Peer).To(Equal(secrets.Request{
		SignedBy: "ca-etcd-peer", Signer: secrets.CurrentSigner, Config: secretconfig.Certificate{
			Name: "etcd-peer-server-events", CommonName: "etcd-server", Type: secretconfig.ServerAndClient, SkipPublishingCACertificate: true,
			IPAddresses: loopback, DNSNames: []string{
				"virtual-garden-etcd-events-peer", "virtual-garden-etcd-events-peer.garden",
				"virtual-garden-etcd-events-peer.garden.svc", "virtual-garden-etcd-events-peer.garden.svc.cluster.local",
				"*.virtual-garden-etcd-events-peer", "*.virtual-garden-etcd-events-peer.garden",
				"*.virtual-garden-etcd-events-peer.garden.svc", "*.virtual-garden-etcd-events-peer.garden.svc.cluster.local",
			},
		},
	}))
	g.Expect(etcd.ServerCertificates(plain(), etcd.Main).Peer).To(BeNil())
	g.Expect(etcd.ClientCertificate(values.Values{}).SignedBy).To(Equal("ca-etcd"))
}

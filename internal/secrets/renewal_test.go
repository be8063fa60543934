package secrets_test

import (
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/secrets"
	"github.com/espalier-dev/espalier/internal/secrets/config"
)

// renew carries out a renewal without requests for certificates, as long as writes are left.
func (n *namespace) renew(t *testing.T, authority secrets.Request) map[string]string {
	t.Helper()
	g := NewWithT(t)
	inventory, err := n.inventory()
	g.Expect(err).NotTo(HaveOccurred())
	_, err = n.request(inventory, authority)
	g.Expect(err).NotTo(HaveOccurred())
	renewals, err := inventory.Renewals(n.source())
	g.Expect(err).NotTo(HaveOccurred())
	for _, each := range renewals.Created {
		g.Expect(n.write("create " + each.Name)).To(Succeed())
		each.CreationTimestamp = metav1.NewTime(n.now)
		n.secrets = append(n.secrets, *each)
	}
	return renewals.Replaced
}

func TestRenewalCreatesTheSecretsOfTheNextReconciliation(t *testing.T) {
	short := ptr.To(30 * day)
	authority := certificateRequest("ca", config.CA, func(r *secrets.Request) {
		r.KeepOld, r.IgnoreOldAfter = true, day
		r.Config = config.Certificate{Name: "ca", CommonName: "ca", Type: config.CA, Validity: short}
	})
	byOther := func(c config.Certificate) secrets.Request { return secrets.Request{Config: c, SignedBy: "other"} }
	requests := []secrets.Request{
		authority, keptAuthority("other"),
		{SignedBy: "ca", Signer: secrets.CurrentSigner, Config: config.Certificate{
			Name: "server", CommonName: "server", Type: config.Server, DNSNames: []string{"b", "a"}, SkipPublishingCACertificate: true,
		}},
		byOther(config.Certificate{
			Name: "client", CommonName: "client", Organization: []string{"masters"}, Type: config.Client, Validity: short, PKCS: config.PKCS8,
		}),
		byOther(config.Certificate{
			Name: "both", CommonName: "both", Type: config.ServerAndClient, IPAddresses: []net.IP{net.IPv4(1, 2, 3, 4)}, Validity: short,
		}),
		byOther(config.Certificate{
			Name: "chain", CommonName: "chain", Type: config.Server, Validity: short, IncludeCACertificateInServerChain: true,
		}),
		byOther(config.Certificate{Name: "valid", CommonName: "valid", Type: config.Client}),
		{Config: config.RSAKey{Name: "key", Bits: 2048}, KeepOld: true},
	}
	g, n := NewWithT(t), newNamespace()
	n.options.RenewedAuthorities = []string{"ca"}
	n.mustReconcile(t, requests...)
	before := slices.Clone(n.secrets)
	g.Expect(n.renew(t, authority)).To(BeEmpty(), "nothing expires")

	n.now = n.now.Add(25 * day)
	n.written = nil
	replaced := n.renew(t, authority)
	g.Expect(n.written).To(HaveLen(6), "the authority, its bundle and four certificates: %v", n.written)
	renewed := map[string]bool{}
	for _, old := range before {
		name := old.Labels["name"]
		next := n.find(replaced[old.Name])
		if slices.Contains([]string{"ca", "other", "other-bundle", "valid", "key", "key-bundle"}, name) {
			g.Expect(next).To(BeNil(), name)
			continue
		}
		renewed[name] = true
		g.Expect(labelsOf(next, "issued-at-time", "valid-until-time", "last-rotation-initiation-time", "checksum-of-signing-ca",
			"checksum-of-config")).To(Equal(labelsOf(&old, "issued-at-time", "valid-until-time", "last-rotation-initiation-time",
			"checksum-of-signing-ca", "checksum-of-config")), name)
		g.Expect(slices.Sorted(maps.Keys(next.Data))).To(Equal(slices.Sorted(maps.Keys(old.Data))), name)
		if name == "ca-bundle" {
			continue
		}
		was, is := described(t, name, &old), described(t, name, next)
		g.Expect(is).To(Equal(was), name)
	}
	g.Expect(slices.Sorted(maps.Keys(renewed))).To(Equal([]string{"both", "ca-bundle", "chain", "client", "server"}))

	// Until the objects are changed, a repetition says the same and writes nothing.
	n.now = n.now.Add(time.Hour)
	n.written = nil
	g.Expect(n.renew(t, authority)).To(Equal(replaced))
	g.Expect(n.written).To(BeEmpty())
	n.mustReconcile(t, requests...)
	for _, write := range n.written {
		g.Expect(write).To(HavePrefix("delete "))
	}
}

func TestAuthorityThatWasRotatedAwayRenewsNoCertificate(t *testing.T) {
	server := secrets.Request{
		SignedBy: "other", Config: config.Certificate{Name: "server", CommonName: "server", Type: config.Server, Validity: ptr.To(30 * day)},
	}
	authority := keptAuthority("other")
	g, n := NewWithT(t), newNamespace()
	n.options.RenewedAuthorities = []string{"ca"}
	n.mustReconcile(t, keptAuthority("ca"), authority, server)
	restored := []corev1.Secret{*n.only(t, "other"), *n.only(t, "server")}
	n.now = n.now.Add(time.Hour)
	n.rotate("other")
	authority.IgnoreOld = true // the rotation completes
	n.mustReconcile(t, keptAuthority("ca"), authority, server)
	current := n.only(t, "server")
	n.secrets = append(n.secrets, restored...)

	n.now = n.now.Add(25 * day)
	replaced := n.renew(t, keptAuthority("ca"))
	g.Expect(replaced).To(HaveKey(current.Name))
	g.Expect(replaced).NotTo(HaveKey(restored[1].Name))
	g.Expect(n.find(replaced[current.Name]).Labels).To(HaveKeyWithValue("checksum-of-signing-ca", current.Labels["checksum-of-signing-ca"]))
}

func described(t *testing.T, name string, secret *corev1.Secret) config.Certificate {
	t.Helper()
	certificate, err := config.CertificateOf(name, secret.Data)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return certificate
}

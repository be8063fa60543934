package secrets_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/secrets"
	"github.com/espalier-dev/espalier/internal/secrets/config"
)

// abort begins the rotation that leads back from the last one.
func (n *namespace) abort(name string) {
	n.options.Aborted = map[string]time.Time{name: n.options.RotationTimes[name]}
	n.now = n.now.Add(time.Hour)
	n.rotate(name)
}

// The process may die before each write, of the aborted rotation and of the rotation that leads back.
func TestAbortLeadsBackToTheFormerAuthority(t *testing.T) {
	server, client := signed("server", config.Server, secrets.DefaultSigner), signed("client", config.Client, secrets.DefaultSigner)
	completing := keptAuthority("ca")
	completing.IgnoreOld = true
	for _, begun := range []int{0, 1, 2, 3, -1} {
		for died := range 4 {
			g := NewWithT(t)
			n := newNamespace()
			n.mustReconcile(t, keptAuthority("ca"), server, client)
			former, before := n.only(t, "ca"), n.only(t, "server").Name
			n.now = n.now.Add(time.Hour)
			n.rotate("ca")
			n.writesLeft = begun
			_, _ = n.reconcile(keptAuthority("ca"), server, client)

			n.abort("ca")
			n.writesLeft = died
			_, _ = n.reconcile(keptAuthority("ca"), server, client)
			n.writesLeft = -1
			inventory := n.mustReconcile(t, keptAuthority("ca"), server, client)
			current := get(t, inventory, "ca", secrets.Current)
			g.Expect(current.Data).To(Equal(former.Data))
			g.Expect(current.Name).NotTo(Equal(former.Name))
			g.Expect(labelsOf(current, "last-rotation-initiation-time")).To(Equal(labelsOf(former, "last-rotation-initiation-time")))
			g.Expect(n.only(t, "server").Name).To(Equal(before), "clients may not trust the aborted authority")
			g.Expect(n.only(t, "client").Labels["checksum-of-signing-ca"]).To(Equal(n.only(t, "server").Labels["checksum-of-signing-ca"]))
			aborted, exists := inventory.Get("ca", secrets.Old)
			bundle := string(get(t, inventory, "ca", secrets.Bundle).Data["bundle.crt"])
			g.Expect(exists).To(Equal(begun != 0), "its bundle may have been lost")
			if exists {
				g.Expect(bundle).To(Equal(string(former.Data["ca.crt"]) + string(aborted.Data["ca.crt"])))
				g.Expect(inventory.Former("ca")).To(HaveField("Name", aborted.Name), "servers must refuse it in the end")
			} else {
				g.Expect(bundle).To(Equal(string(former.Data["ca.crt"])))
			}

			n.mustReconcile(t, completing, server, client)
			g.Expect(n.only(t, "ca").Name).To(Equal(current.Name))
			g.Expect(n.only(t, "server").Name).To(Equal(before))
			n.options.Aborted = nil // the rotation is completed
			if exists {
				n.secrets = append(n.secrets, *aborted)
			}
			inventory = n.mustReconcile(t, completing, server, client)
			g.Expect(get(t, inventory, "ca", secrets.Current).Name).To(Equal(current.Name))
			g.Expect(n.only(t, "ca").Name).To(Equal(current.Name), "an aborted authority that was restored does not come back")
		}
	}
}

// A copy of a key is of a later rotation than the aborted one, although its content is of an earlier rotation.
func TestAbortedAuthorityIsForgottenAlsoIfTheFormerOneIsRestoredWithIt(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	n.mustReconcile(t, keptAuthority("ca"))
	former := *n.only(t, "ca")
	n.now = n.now.Add(time.Hour)
	n.rotate("ca")
	aborted := get(t, n.mustReconcile(t, keptAuthority("ca")), "ca", secrets.Current)
	n.abort("ca")
	n.mustReconcile(t, keptAuthority("ca"))
	completing := keptAuthority("ca")
	completing.IgnoreOld = true
	n.mustReconcile(t, completing)
	n.secrets = append(n.secrets, former, *aborted)
	n.now = n.now.Add(time.Hour)
	n.rotate("ca")
	n.abort("ca") // before the next authority was generated
	inventory := n.mustReconcile(t, keptAuthority("ca"))
	g.Expect(get(t, inventory, "ca", secrets.Current).Data).To(Equal(former.Data))
	g.Expect(get(t, inventory, "ca", secrets.Bundle).Data).To(Equal(map[string][]byte{"bundle.crt": former.Data["ca.crt"]}))
}

func TestAbortedKeyKeepsTheAgeOfItsContent(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	key := secrets.Request{Config: config.EncryptionKey{Name: "key", SecretLength: 32}, KeepOld: true, Persist: true}
	n.mustReconcile(t, key)
	former := n.only(t, "key")
	n.now = n.now.Add(time.Hour)
	n.rotate("key")
	inventory := n.mustReconcile(t, key)
	g.Expect(secrets.LeadsBack(get(t, inventory, "key", secrets.Current))).To(BeFalse())
	n.abort("key")
	inventory, err := n.inventory()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inventory.Missing(key, n.now)).To(BeEmpty())
	g.Expect(inventory.Present(key, n.now)).To(HavePrefix("key-"), "it must not replace an aborted key that is in use and was lost")
	inventory = n.mustReconcile(t, key)
	current := get(t, inventory, "key", secrets.Current)
	g.Expect(current.Data).To(Equal(former.Data))
	g.Expect(current.Labels).To(HaveKeyWithValue("issued-at-time", seconds(start)))
	g.Expect(secrets.LeadsBack(current)).To(BeTrue())
	g.Expect(inventory.Missing(key, n.now)).To(BeEmpty())
}

// A new key must not be generated in place of the former one, so that the guard of keys is asked.
func TestAbortWithoutTheFormerKeyMissesIt(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	n.mustReconcile(t, keptAuthority("ca"))
	former := n.only(t, "ca").Name
	n.now = n.now.Add(time.Hour)
	n.rotate("ca")
	n.mustReconcile(t, keptAuthority("ca"))
	n.abort("ca")
	n.secrets = slices.DeleteFunc(n.secrets, func(s corev1.Secret) bool { return s.Name == former })
	inventory, err := n.inventory()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inventory.Missing(keptAuthority("ca"), n.now)).To(HavePrefix("ca-"))
	g.Expect(inventory.Before("ca", n.options.Aborted["ca"])).To(BeNil())
}

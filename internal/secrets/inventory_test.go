package secrets_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/secrets"
	"github.com/espalier-dev/espalier/internal/secrets/config"
)

const day = 24 * time.Hour

func TestAuthorityIsCreatedWithItsBundleAndLabels(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	inventory := n.mustReconcile(t, secrets.Request{
		Config: config.Certificate{Name: "ca", CommonName: "kubernetes", Type: config.CA}, KeepOld: true,
	})

	g.Expect(n.secrets).To(HaveLen(2))
	ca, bundle := n.only(t, "ca"), n.only(t, "ca-bundle")
	g.Expect(ca.Name).To(Equal("ca-f6032ea0"))
	g.Expect(ca.Immutable).To(HaveValue(BeTrue()))
	g.Expect(ca.Type).To(Equal(corev1.SecretTypeOpaque))
	g.Expect(ca.Labels).To(Equal(map[string]string{
		"name": "ca", "managed-by": "secrets-manager", "manager-identity": "gardener-operator",
		"checksum-of-config": "12627284116289067259", "last-rotation-initiation-time": "",
		"issued-at-time": "1772279940", "valid-until-time": "2087812800",
	}))
	certificate, err := config.ParseCertificate(ca.Data["ca.crt"])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(certificate.Subject.CommonName).To(Equal("ca-f6032ea0"))

	g.Expect(bundle.Immutable).To(HaveValue(BeTrue()))
	g.Expect(bundle.Data).To(Equal(map[string][]byte{"bundle.crt": ca.Data["ca.crt"]}))
	g.Expect(labelsOf(bundle, "checksum-of-config")).To(Equal(map[string]string{
		"name": "ca-bundle", "managed-by": "secrets-manager", "manager-identity": "gardener-operator",
		"last-rotation-initiation-time": "", "issued-at-time": "1772280000", "bundle-for": "ca",
	}))
	g.Expect(get(t, inventory, "ca", secrets.BundleOrCurrent).Name).To(Equal(bundle.Name))
	g.Expect(get(t, inventory, "ca", secrets.Current).Name).To(Equal(ca.Name))
}

func TestSecondReconciliationWritesNothing(t *testing.T) {
	n := newNamespace()
	requests := []secrets.Request{
		keptAuthority("ca"), signed("server", config.Server, secrets.DefaultSigner),
		{Config: config.RSAKey{Name: "key", Bits: 4096}, KeepOld: true, Persist: true},
		{
			Config:   config.BasicAuth{Name: "auth", Username: "admin", PasswordLength: 32},
			Validity: 720 * time.Hour, Labels: map[string]string{"a": "b"},
		},
	}
	n.mustReconcile(t, requests...)
	n.now = n.now.Add(time.Hour)
	n.mustReconcile(t, requests...)
	NewWithT(t).Expect(n.written).To(BeEmpty())
}

func TestSignedCertificateHasTypeTLSAndTheChecksumOfItsAuthority(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	n.mustReconcile(t, keptAuthority("ca"), signed("server", config.Server, secrets.DefaultSigner))
	server := n.only(t, "server")
	g.Expect(server.Type).To(Equal(corev1.SecretTypeTLS))
	g.Expect(server.Labels["checksum-of-signing-ca"]).To(MatchRegexp("^[0-9a-f]{63}$"))
	g.Expect(server.Labels).NotTo(HaveKey("bundle-for"))
}

func TestChangedConfigGetsANewSecretAndKeepsTheOldOneOnlyIfAsked(t *testing.T) {
	for _, keep := range []bool{true, false} {
		t.Run(fmt.Sprintf("keep %t", keep), func(t *testing.T) {
			g := NewWithT(t)
			n := newNamespace()
			n.mustReconcile(t, secrets.Request{Config: config.RSAKey{Name: "key", Bits: 2048}, KeepOld: keep})
			first := n.only(t, "key")
			n.now = n.now.Add(time.Minute)
			inventory := n.mustReconcile(t, secrets.Request{Config: config.RSAKey{Name: "key", Bits: 4096}, KeepOld: keep})

			old, found := inventory.Get("key", secrets.Old)
			g.Expect(found).To(Equal(keep))
			if keep {
				g.Expect(old.Name).To(Equal(first.Name))
			}
			g.Expect(n.find(first.Name) != nil).To(Equal(keep))
			g.Expect(get(t, inventory, "key", secrets.Current).Name).NotTo(Equal(first.Name))
		})
	}
}

func TestRotationBundlesCurrentFirstAndForgetsTheOldOneWhenItCompletes(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	n.mustReconcile(t, keptAuthority("ca"))
	first, firstBundle := n.only(t, "ca"), n.only(t, "ca-bundle")

	n.now = n.now.Add(time.Hour)
	n.rotate("ca")
	inventory := n.mustReconcile(t, keptAuthority("ca"))
	current := get(t, inventory, "ca", secrets.Current)
	g.Expect(current.Name).To(HavePrefix(first.Name + "-"))
	g.Expect(current.Labels["last-rotation-initiation-time"]).To(Equal("1772283600"))
	g.Expect(get(t, inventory, "ca", secrets.Old)).To(Equal(first))
	bundle := n.only(t, "ca-bundle")
	g.Expect(bundle.Name).NotTo(Equal(firstBundle.Name))
	g.Expect(string(bundle.Data["bundle.crt"])).To(Equal(string(current.Data["ca.crt"]) + string(first.Data["ca.crt"])))

	n.options.RotationTimes = nil
	n.mustReconcile(t, keptAuthority("ca"))
	g.Expect(n.written).To(BeEmpty(), "the rotation time comes from the labels if the status is lost")

	completing := keptAuthority("ca")
	completing.IgnoreOld = true
	n.mustReconcile(t, completing)
	g.Expect(n.only(t, "ca").Name).To(Equal(current.Name))
	g.Expect(n.only(t, "ca-bundle").Data["bundle.crt"]).To(Equal(current.Data["ca.crt"]))
}

func TestRotationTwiceInOneSecondYieldsOneSecret(t *testing.T) {
	n := newNamespace()
	n.rotate("ca")
	n.mustReconcile(t, keptAuthority("ca"))
	n.now = n.now.Add(300 * time.Millisecond)
	n.rotate("ca")
	n.mustReconcile(t, keptAuthority("ca"))
	NewWithT(t).Expect(n.written).To(BeEmpty())
}

func TestOldSecretIsForgottenWhenTheCurrentOneIsOldEnough(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	request := secrets.Request{Config: config.RSAKey{Name: "key", Bits: 4096}, KeepOld: true, IgnoreOldAfter: time.Minute}
	n.mustReconcile(t, request)
	n.now = n.now.Add(time.Hour)
	n.rotate("key")
	inventory := n.mustReconcile(t, request)
	get(t, inventory, "key", secrets.Old)

	n.now = n.now.Add(59 * time.Second)
	get(t, n.mustReconcile(t, request), "key", secrets.Old)

	n.now = n.now.Add(time.Second)
	_, found := n.mustReconcile(t, request).Get("key", secrets.Old)
	g.Expect(found).To(BeFalse())
	n.only(t, "key")
}

func TestLabelsAndImmutabilityAreRestored(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	request := secrets.Request{
		Config: config.RSAKey{Name: "key", Bits: 4096}, Persist: true, Labels: map[string]string{"extra": "1", "name": "x"},
	}
	n.mustReconcile(t, request)
	want := n.only(t, "key")
	g.Expect(want.Labels).To(And(HaveKeyWithValue("persist", "true"), HaveKeyWithValue("extra", "1"), HaveKeyWithValue("name", "key")))

	changed := n.find(want.Name)
	changed.Immutable = nil
	changed.Labels["foreign"] = "label"
	delete(changed.Labels, "last-rotation-initiation-time")
	delete(changed.Labels, "extra")
	n.mustReconcile(t, request)
	g.Expect(n.written).To(Equal([]string{"patch " + want.Name}))
	g.Expect(n.only(t, "key")).To(Equal(want))

	request.Persist = false
	n.mustReconcile(t, request)
	g.Expect(n.only(t, "key").Labels).To(Equal(labelsOf(want, "persist")))
	g.Expect(n.only(t, "key").Data).To(Equal(want.Data))
}

func TestSecretWithoutItsLabelsIsFoundByNameAndLabelledAgain(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	request := keptAuthority("ca")
	n.mustReconcile(t, request)
	want := n.only(t, "ca")
	n.find(want.Name).Labels = nil
	n.mustReconcile(t, request)
	g.Expect(n.only(t, "ca")).To(Equal(want))
}

func TestValidityCountsFromTheTimeOfIssue(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	request := secrets.Request{Config: config.BasicAuth{Name: "auth", Username: "admin", PasswordLength: 32}, Validity: 100 * day}
	validUntil := func() string { return n.only(t, "auth").Labels["valid-until-time"] }

	n.mustReconcile(t, request)
	g.Expect(validUntil()).To(Equal(seconds(start.Add(100 * day))))
	n.now = n.now.Add(30 * time.Minute)
	n.mustReconcile(t, request)
	g.Expect(n.written).To(BeEmpty())

	request.Validity = 200 * day
	n.mustReconcile(t, request)
	g.Expect(validUntil()).To(Equal(seconds(start.Add(200 * day))))

	request.Validity = 0
	n.mustReconcile(t, request)
	g.Expect(n.only(t, "auth").Labels).NotTo(HaveKey("valid-until-time"))
}

func TestValidityOfCertificatesIsThatOfTheCertificate(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	controlPlane := secrets.Request{SignedBy: "ca", Validity: time.Hour, Config: config.ControlPlane{
		Name: "bootstrap", Certificate: &config.Certificate{Name: "bootstrap", Type: config.Client},
	}}
	server := signed("server", config.Server, secrets.DefaultSigner)
	server.Validity = time.Hour
	n.mustReconcile(t, keptAuthority("ca"), server, controlPlane)
	for _, name := range []string{"ca", "server", "bootstrap"} {
		g.Expect(n.only(t, name).Labels).To(And(
			HaveKeyWithValue("issued-at-time", seconds(start.Add(-time.Minute))),
			HaveKeyWithValue("valid-until-time", seconds(start.AddDate(10, 0, 0))),
		))
	}
}

func TestCertificateThatCannotBeDecodedIsAnError(t *testing.T) {
	n := newNamespace()
	n.mustReconcile(t, keptAuthority("ca"))
	ca := n.only(t, "ca")
	n.find(ca.Name).Data["ca.crt"] = []byte("topsecret")
	_, err := n.reconcile(keptAuthority("ca"))
	NewWithT(t).Expect(err).To(MatchError(And(
		HavePrefix(fmt.Sprintf("parse ca.crt of secret %q: ", ca.Name)), Not(ContainSubstring("topsecret")))))
}

func TestWhichAuthoritySignsDuringARotation(t *testing.T) {
	for name, tc := range map[string]struct {
		kind    config.CertificateType
		signer  secrets.Signer
		changes bool
	}{
		"server":                        {config.Server, secrets.DefaultSigner, false},
		"server and client":             {config.ServerAndClient, secrets.DefaultSigner, false},
		"server by the current CA":      {config.Server, secrets.CurrentSigner, true},
		"client":                        {config.Client, secrets.DefaultSigner, true},
		"client by the old CA":          {config.Client, secrets.OldSigner, false},
		"server and client, current CA": {config.ServerAndClient, secrets.CurrentSigner, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			n := newNamespace()
			leaf := signed("leaf", tc.kind, tc.signer)
			n.mustReconcile(t, keptAuthority("ca"), leaf)
			before := n.only(t, "leaf")
			n.now = n.now.Add(time.Hour)
			n.rotate("ca")
			n.mustReconcile(t, keptAuthority("ca"), leaf)
			changed := n.only(t, "leaf").Name != before.Name
			g.Expect(changed).To(Equal(tc.changes))

			completing := keptAuthority("ca")
			completing.IgnoreOld = true
			n.mustReconcile(t, completing, leaf)
			g.Expect(n.only(t, "leaf").Name).NotTo(Equal(before.Name), "the old CA is gone")
		})
	}
}

func TestUnknownSigningAuthorityAndWrongConfigAreRefused(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	_, err := n.reconcile(signed("server", config.Server, secrets.DefaultSigner))
	g.Expect(err).To(MatchError(`failed applying generate options for config server: secrets for name "ca" not found in internal store`))

	_, err = n.reconcile(keptAuthority("ca"), secrets.Request{Config: config.RSAKey{Name: "key", Bits: 4096}, SignedBy: "ca"})
	g.Expect(err).To(MatchError(And(
		HavePrefix("failed applying generate options for config key: "), ContainSubstring("could not sign a config.RSAKey"))))
}

func TestExpiredOldAuthorityNeitherSignsNorIsInTheBundle(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	hour := time.Hour
	short := secrets.Request{KeepOld: true, Config: config.Certificate{Name: "ca", Type: config.CA, Validity: &hour}}
	n.mustReconcile(t, short, signed("server", config.Server, secrets.DefaultSigner))
	n.now = n.now.Add(59 * time.Minute)
	n.rotate("ca")
	n.mustReconcile(t, short)
	inventory := n.mustReconcile(t, short)
	current, old := get(t, inventory, "ca", secrets.Current), get(t, inventory, "ca", secrets.Old)
	g.Expect(string(n.only(t, "ca-bundle").Data["bundle.crt"])).To(Equal(string(current.Data["ca.crt"]) + string(old.Data["ca.crt"])))

	n.now = n.now.Add(2 * time.Minute)
	n.mustReconcile(t, short, signed("server", config.Server, secrets.DefaultSigner))
	g.Expect(n.only(t, "ca-bundle").Data["bundle.crt"]).To(Equal(current.Data["ca.crt"]))
	trusted, err := config.ParseCertificate(current.Data["ca.crt"])
	g.Expect(err).NotTo(HaveOccurred())
	server, err := config.ParseCertificate(n.only(t, "server").Data["tls.crt"])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(server.CheckSignatureFrom(trusted)).To(Succeed())
}

func TestKeyForSSHHasNoBundle(t *testing.T) {
	n := newNamespace()
	n.mustReconcile(t, secrets.Request{Config: config.RSAKey{Name: "key", Bits: 4096, UsedForSSH: true}, KeepOld: true})
	NewWithT(t).Expect(n.secrets).To(HaveLen(1))
}

func TestPrivateKeyBundleContainsBothKeys(t *testing.T) {
	n := newNamespace()
	request := secrets.Request{Config: config.RSAKey{Name: "key", Bits: 4096}, KeepOld: true}
	n.mustReconcile(t, request)
	n.now = n.now.Add(time.Hour)
	n.rotate("key")
	inventory := n.mustReconcile(t, request)
	NewWithT(t).Expect(string(get(t, inventory, "key", secrets.BundleOrCurrent).Data["bundle.key"])).To(Equal(
		string(get(t, inventory, "key", secrets.Current).Data["id_rsa"]) + string(get(t, inventory, "key", secrets.Old).Data["id_rsa"])))
}

func donor(name, logicalName string, data map[string][]byte) corev1.Secret {
	return corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"secrets-manager-use-data-for-name": logicalName}}, Data: data,
	}
}

func TestDataOfADonorIsCopiedCompletely(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	data := map[string][]byte{"key": []byte("key1"), "secret": []byte("s"), "encoding": []byte("none"), "provider": []byte("")}
	n.secrets = []corev1.Secret{donor("mine", "key", data), donor("other", "other", nil)}
	n.mustReconcile(t, secrets.Request{Config: config.EncryptionKey{Name: "key", SecretLength: 32}})
	g.Expect(n.only(t, "key").Data).To(Equal(data))
	g.Expect(n.find("mine")).To(HaveValue(Equal(donor("mine", "key", data))))
}

func TestTwoDonorsAreRefused(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	n.secrets = []corev1.Secret{donor("one", "ca", map[string][]byte{"a": nil}), donor("two", "ca", nil)}
	_, err := n.reconcile(keptAuthority("ca"))
	g.Expect(err).To(MatchError(ContainSubstring(
		`found more than one existing secret with "secrets-manager-use-data-for-name" label for config "ca"`)))
	g.Expect(n.names()).To(Equal([]string{"one", "two"}))
}

func TestOnlyNamedAuthoritiesRenewThemselves(t *testing.T) {
	month := 30 * day
	for name, tc := range map[string]struct {
		after    time.Duration
		renewed  []string
		want     bool
		expiring []string
	}{
		"20 days before the end: nothing":          {10 * day, []string{"ca"}, false, nil},
		"ten days before the end: nothing":         {20 * day, []string{"ca"}, false, nil},
		"less than ten days before the end: renew": {20*day + time.Second, []string{"ca"}, true, nil},
		"another authority is named: warn":         {20*day + time.Second, []string{"other"}, false, []string{"ca"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			n := newNamespace()
			n.options.RenewedAuthorities = tc.renewed
			request := secrets.Request{KeepOld: true, Config: config.Certificate{Name: "ca", Type: config.CA, Validity: &month}}
			n.mustReconcile(t, request)
			first := n.only(t, "ca")
			n.now = n.now.Add(tc.after)
			inventory := n.mustReconcile(t, request)
			renewed := get(t, inventory, "ca", secrets.Current).Name != first.Name
			g.Expect(renewed).To(Equal(tc.want))
			g.Expect(inventory.ExpiringAuthorities()).To(Equal(tc.expiring))
			if tc.want {
				n.now = n.now.Add(time.Minute)
				n.mustReconcile(t, request)
				g.Expect(n.written).To(BeEmpty(), "a renewed authority is not renewed again")
			}
		})
	}
}

func TestCertificatesAreRenewedAfterEightyPercentOfTheirValidity(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	year := 1000 * day
	leaf := secrets.Request{SignedBy: "ca", Config: config.Certificate{Name: "leaf", Type: config.Client, Validity: &year}}
	n.mustReconcile(t, keptAuthority("ca"), leaf)
	n.now = start.Add(799 * day)
	n.mustReconcile(t, keptAuthority("ca"), leaf)
	g.Expect(n.written).To(BeEmpty())
	n.now = start.Add(801 * day)
	n.mustReconcile(t, keptAuthority("ca"), leaf)
	g.Expect(n.only(t, "leaf").Labels["last-rotation-initiation-time"]).To(Equal(seconds(n.now)))
}

func TestGivenRotationTimesWinOverRenewal(t *testing.T) {
	n := newNamespace()
	n.rotate("auth")
	request := secrets.Request{Config: config.BasicAuth{Name: "auth", Username: "admin", PasswordLength: 32}, Validity: 20 * day}
	n.mustReconcile(t, request)
	n.now = n.now.Add(19 * day)
	n.mustReconcile(t, request)
	NewWithT(t).Expect(n.written).To(BeEmpty())
}

func TestRotationTimeIsThatOfTheNewestSecret(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	for rotation, age := range map[string]time.Duration{"100": 3 * time.Hour, "300": time.Hour, "200": 2 * time.Hour} {
		n.secrets = append(n.secrets, corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name: "key-" + rotation, CreationTimestamp: metav1.NewTime(start.Add(-age)),
			Labels: map[string]string{
				"name": "key", "managed-by": "secrets-manager", "manager-identity": identity, "last-rotation-initiation-time": rotation,
			},
		}})
	}
	n.mustReconcile(t, secrets.Request{Config: config.RSAKey{Name: "key", Bits: 4096}})
	g.Expect(n.only(t, "key").Labels["last-rotation-initiation-time"]).To(Equal("300"))
}

func TestLifetimeLabelThatCannotBeParsedIsAnError(t *testing.T) {
	n := newNamespace()
	n.mustReconcile(t, keptAuthority("ca"))
	ca := n.only(t, "ca")
	n.find(ca.Name).Labels["valid-until-time"] = "tomorrow"
	_, err := n.inventory()
	NewWithT(t).Expect(err).To(MatchError(HavePrefix(fmt.Sprintf("parse label \"valid-until-time\" of secret %q: ", ca.Name))))
}

func TestCleanupKeepsOtherIdentitiesAndForeignSecrets(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	n.mustReconcile(t, keptAuthority("ca"), signed("server", config.Server, secrets.DefaultSigner))
	n.secrets = append(n.secrets,
		corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "webhook", Labels: map[string]string{
			"name": "ca", "managed-by": "secrets-manager", "manager-identity": "gardener-operator-webhook",
		}}},
		corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}})
	n.mustReconcile(t, keptAuthority("ca"))
	g.Expect(n.labelled(map[string]string{"name": "server"})).To(BeEmpty())

	n.mustReconcile(t)
	g.Expect(n.names()).To(Equal([]string{"foreign", "webhook"}), "without requests all secrets of the identity go")
}

func TestGetOnlyKnowsWhatWasRequested(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	n.mustReconcile(t, keptAuthority("ca"))
	inventory, err := n.inventory()
	g.Expect(err).NotTo(HaveOccurred())
	for _, class := range []secrets.Class{secrets.BundleOrCurrent, secrets.Current, secrets.Old, secrets.Bundle} {
		_, found := inventory.Get("ca", class)
		g.Expect(found).To(BeFalse())
	}
	inventory = n.mustReconcile(t, secrets.Request{Config: config.BasicAuth{Name: "auth", Username: "a", PasswordLength: 32}})
	g.Expect(get(t, inventory, "auth", secrets.BundleOrCurrent)).To(Equal(get(t, inventory, "auth", secrets.Current)))
}

func TestEncryptionKeyIsNotReplacedWithoutARotationOrAChangeOfTheProvider(t *testing.T) {
	const name = "kube-apiserver-etcd-encryption-key"
	key := func(provider config.EncryptionProvider, length int) secrets.Request {
		return secrets.Request{KeepOld: true, Config: config.EncryptionKey{Name: name, Provider: provider, SecretLength: length}}
	}
	for title, tc := range map[string]struct {
		request secrets.Request
		rotated bool
		refused bool
	}{
		"another length":   {request: key("", 24), refused: true},
		"the same key":     {request: key(config.AESCBC, 32)},
		"another provider": {request: key(config.SecretBox, 32)},
		"a rotation":       {request: key("", 32), rotated: true},
	} {
		t.Run(title, func(t *testing.T) {
			g := NewWithT(t)
			n := newNamespace()
			n.mustReconcile(t, key("", 32))
			n.now = n.now.Add(time.Hour)
			if tc.rotated {
				n.rotate(name)
			}
			n.written = nil
			_, err := n.reconcile(tc.request)
			if !tc.refused {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(And(HavePrefix(`generate secret "`+name+`-`), ContainSubstring(`but secret "`+name+`-80f230d7" exists`))))
			g.Expect(n.written).To(BeEmpty())
		})
	}
}

func TestAProcessThatDiesAtAnyWriteLosesNothing(t *testing.T) {
	requests := []secrets.Request{
		keptAuthority("ca"), signed("client", config.Client, secrets.DefaultSigner), signed("server", config.Server, secrets.DefaultSigner),
		{Config: config.RSAKey{Name: "key", Bits: 4096}, KeepOld: true},
	}
	rotating := func() *namespace {
		n := newNamespace()
		n.mustReconcile(t, requests...)
		n.now = n.now.Add(time.Hour)
		n.rotate("ca", "key")
		n.written = nil
		return n
	}
	whole := rotating()
	whole.mustReconcile(t, requests...)
	for cut := range len(whole.written) {
		t.Run(fmt.Sprintf("before %s", whole.written[cut]), func(t *testing.T) {
			g := NewWithT(t)
			n := rotating()
			before := n.only(t, "ca")
			n.writesLeft = cut
			_, err := n.reconcile(requests...)
			g.Expect(err).To(MatchError(errDied))

			n.writesLeft = -1
			n.now = n.now.Add(time.Minute)
			n.options.RotationTimes["ca"], n.options.RotationTimes["key"] = start.Add(time.Hour), start.Add(time.Hour)
			inventory := n.mustReconcile(t, requests...)
			g.Expect(n.labelled(map[string]string{"name": "ca"})).To(HaveLen(2))
			g.Expect(n.labelled(map[string]string{"name": "key"})).To(HaveLen(2))
			current := get(t, inventory, "ca", secrets.Current)
			g.Expect(get(t, inventory, "ca", secrets.Old)).To(Equal(before))
			g.Expect(string(n.only(t, "ca-bundle").Data["bundle.crt"])).To(Equal(string(current.Data["ca.crt"]) + string(before.Data["ca.crt"])))
			g.Expect(n.secrets).To(HaveLen(len(whole.secrets)))

			n.mustReconcile(t, requests...)
			g.Expect(n.written).To(BeEmpty())
		})
	}
}

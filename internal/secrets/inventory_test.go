package secrets_test

import (
	"fmt"
	"slices"
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

func TestSecretFromBeforeARotationStaysForgottenAndOneOfTheSameRotationIsKept(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	forgets := func(bits int) secrets.Request {
		return secrets.Request{Config: config.RSAKey{Name: "key", Bits: bits}, KeepOld: true, IgnoreOld: true}
	}
	n.mustReconcile(t, forgets(2048))
	rotated := n.only(t, "key")
	n.now = n.now.Add(time.Hour)
	n.rotate("key")
	n.mustReconcile(t, forgets(2048))
	first := n.only(t, "key")

	rotated.CreationTimestamp = metav1.NewTime(n.now.Add(time.Hour)) // it was restored from a backup
	n.secrets = append(n.secrets, *rotated)
	n.now = n.now.Add(time.Minute)
	inventory := n.mustReconcile(t, forgets(4096))
	g.Expect(get(t, inventory, "key", secrets.Old).Name).To(Equal(first.Name), "only its config has changed")
	g.Expect(n.find(rotated.Name)).To(BeNil())
}

func TestCleanupSparesSecretsThatWereCreatedAfterTheInventory(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	n.mustReconcile(t, keptAuthority("ca"))
	inventory, err := n.inventory()
	g.Expect(err).NotTo(HaveOccurred())
	later := *n.only(t, "ca")
	later.Name, later.UID = "ca-later", "later"
	replaced := *n.only(t, "ca-bundle")
	replaced.UID = "replaced"
	unneeded := inventory.Unneeded([]corev1.Secret{*n.only(t, "ca"), later, replaced})
	g.Expect(unneeded).To(HaveExactElements(HaveField("Name", n.only(t, "ca").Name)))
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

func TestSecretIsOnlyPresentIfItWasObservedAndHasNoDonor(t *testing.T) {
	g, n := NewWithT(t), newNamespace()
	request := secrets.Request{Config: config.EncryptionKey{Name: "key", SecretLength: 32}}
	present := func() string {
		inventory, err := n.inventory()
		g.Expect(err).NotTo(HaveOccurred())
		name, err := inventory.Present(request, n.now)
		g.Expect(err).NotTo(HaveOccurred())
		return name
	}
	g.Expect(present()).To(BeEmpty())
	n.mustReconcile(t, request)
	g.Expect(present()).To(Equal(n.only(t, "key").Name))
	n.secrets = append(n.secrets, donor("mine", "key", nil))
	g.Expect(present()).To(BeEmpty())
}

func TestDonorWhoseDataIsInUseIsRefused(t *testing.T) {
	month := 30 * day
	for name, request := range map[string]secrets.Request{
		"an authority":      keptAuthority("ca"),
		"a key":             {KeepOld: true, Config: config.RSAKey{Name: "ca", Bits: 4096}},
		"an encryption key": {KeepOld: true, Config: config.EncryptionKey{Name: "ca", SecretLength: 32}},
		"a password":        {Config: config.BasicAuth{Name: "ca", Username: "admin", PasswordLength: 32}, Validity: month},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			n := newNamespace()
			n.mustReconcile(t, request)
			mine := donor("mine", "ca", n.only(t, "ca").Data)
			n.secrets = []corev1.Secret{mine}
			n.mustReconcile(t, request)
			n.mustReconcile(t, request)
			g.Expect(n.written).To(BeEmpty(), "a donor that has been copied changes nothing")

			n.rotate("ca")
			n.now = n.now.Add(time.Hour)
			n.written = nil
			_, err := n.reconcile(request)
			g.Expect(err).To(MatchError(And(
				ContainSubstring(`secret "mine" still has the label "secrets-manager-use-data-for-name" for config "ca"`),
				ContainSubstring(`remove the label from secret "mine"`),
			)))
			g.Expect(n.written).To(BeEmpty())

			n.find("mine").Data = map[string][]byte{"other": []byte("data")}
			if _, isKey := request.Config.(config.EncryptionKey); isKey {
				_, err = n.reconcile(request)
				g.Expect(err).NotTo(HaveOccurred(), "a rotation may import other data")
			}
			n.find("mine").Labels = nil
			n.mustReconcile(t, request)
		})
	}
}

// The clock of the process was a year ahead when it issued.
func TestWhatAClockThatWasAheadHasIssuedIsIssuedAgain(t *testing.T) {
	long := 1000 * day
	leaf := secrets.Request{SignedBy: "ca", Config: config.Certificate{Name: "leaf", Type: config.Server, Validity: &long}}
	for name, tc := range map[string]struct {
		ahead   time.Duration
		renewed []string
		want    []string
		early   []string
	}{
		"by ten minutes":                   {10 * time.Minute, nil, nil, nil},
		"by more":                          {12 * time.Minute, nil, []string{"leaf"}, []string{"ca"}},
		"a year":                           {365 * day, nil, []string{"leaf"}, []string{"ca"}},
		"an authority that renews itself":  {365 * day, []string{"ca"}, []string{"ca", "leaf"}, nil},
		"when another one renews itself":   {365 * day, []string{"other"}, []string{"leaf"}, []string{"ca"}},
		"and it was behind, by five years": {-5 * 365 * day, []string{"other"}, []string{"leaf"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			n := newNamespace()
			n.options.RenewedAuthorities = tc.renewed
			n.now = start.Add(tc.ahead)
			n.mustReconcile(t, keptAuthority("ca"), leaf)
			before := map[string]string{"ca": n.only(t, "ca").Name, "leaf": n.only(t, "leaf").Name}
			n.now = start
			inventory := n.mustReconcile(t, keptAuthority("ca"), leaf)
			var again []string
			for _, each := range []string{"ca", "leaf"} {
				if get(t, inventory, each, secrets.Current).Name != before[each] {
					again = append(again, each)
				}
			}
			g.Expect(again).To(Equal(tc.want))
			g.Expect(inventory.EarlyAuthorities()).To(Equal(tc.early))
			if len(tc.renewed) == 1 && tc.renewed[0] == "ca" {
				signer, err := config.ParseCertificate(get(t, inventory, "ca", secrets.Current).Data["ca.crt"])
				g.Expect(err).NotTo(HaveOccurred())
				signed, err := config.ParseCertificate(get(t, inventory, "leaf", secrets.Current).Data["tls.crt"])
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(signed.CheckSignatureFrom(signer)).To(Succeed(), "an authority that is not valid yet signs nothing")
			}
			n.now = n.now.Add(time.Minute)
			n.mustReconcile(t, keptAuthority("ca"), leaf)
			g.Expect(n.written).To(BeEmpty(), "nothing is issued again and again")
		})
	}
}

func TestNothingIsIssuedWhileClocksDiffer(t *testing.T) {
	g := NewWithT(t)
	month := 30 * day
	short := secrets.Request{
		KeepOld: true, IgnoreOldAfter: day, Config: config.Certificate{Name: "ca", Type: config.CA, Validity: &month},
	}
	password := secrets.Request{Config: config.BasicAuth{Name: "password", Username: "admin", PasswordLength: 32}, Validity: 12 * day}
	n := newNamespace()
	n.options.RenewedAuthorities = []string{"ca"}
	n.mustReconcile(t, short, password)
	n.now = n.now.Add(25 * day)
	n.mustReconcile(t, short, password)
	g.Expect(n.labelled(map[string]string{"name": "ca"})).To(HaveLen(2), "the old authority has its overlap")

	n.options.ClockProblem = "the clock is ahead"
	n.now = n.now.Add(2*day + time.Hour)
	inventory := n.mustReconcile(t, short, password)
	g.Expect(n.written).To(BeEmpty(), "nothing is renewed, and nothing is forgotten because of its age")
	_, found := inventory.Get("ca", secrets.Old)
	g.Expect(found).To(BeTrue())
	n.rotate("ca")
	_, err := n.reconcile(short, password)
	g.Expect(err).To(MatchError(ContainSubstring("the clock is ahead")))
	g.Expect(n.written).To(BeEmpty())

	n.options.ClockProblem = ""
	n.mustReconcile(t, short, password)
	g.Expect(n.written).NotTo(BeEmpty())
}

func TestOnlyOwnSecretsAndDonorsAreAdopted(t *testing.T) {
	ours := map[string]string{"managed-by": "secrets-manager", "manager-identity": identity}
	wrote := func(manager, fields string) []metav1.ManagedFieldsEntry {
		return []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}}
	}
	for sentence, tc := range map[string]struct {
		labels  map[string]string
		fields  []metav1.ManagedFieldsEntry
		refused bool
	}{
		"a Secret of a stranger": {refused: true},
		"with our labels":        {labels: ours},
		"of another identity": {
			labels: map[string]string{"managed-by": "secrets-manager", "manager-identity": "x"}, refused: true,
		},
		"a donor":                                 {labels: map[string]string{"secrets-manager-use-data-for-name": "ca"}},
		"a donor for another name":                {labels: map[string]string{"secrets-manager-use-data-for-name": "key"}, refused: true},
		"labels removed from a Secret of ours":    {fields: wrote("garden-operator", `{"f:data":{".":{}}}`)},
		"from a Secret of the operator before it": {fields: wrote("gardener-operator", `{"f:data":{".":{}}}`)},
		"a stranger wrote the data":               {fields: wrote("kubectl-create", `{"f:data":{".":{}}}`), refused: true},
		"only labels are ours":                    {fields: wrote("garden-operator", `{"f:metadata":{"f:labels":{}}}`), refused: true},
		"fields that cannot be read":              {fields: wrote("garden-operator", `f:data`), refused: true},
		"only a subresource is ours": {
			fields: []metav1.ManagedFieldsEntry{{
				Manager: "garden-operator", Subresource: "status", FieldsV1: metav1.NewFieldsV1(`{"f:data":{".":{}}}`),
			}},
			refused: true,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			n := newNamespace()
			n.options.Writers = []string{"garden-operator", "gardener-operator"}
			inventory, err := n.inventory()
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			existing := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "ca-1", Labels: tc.labels, ManagedFields: tc.fields}}
			if err = inventory.CheckAdoption("ca", existing); !tc.refused {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(MatchError(And(
				HavePrefix(`secret "ca-1" exists, and `), ContainSubstring("secrets-manager-use-data-for-name=ca"),
			)))
		})
	}
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

func TestPredecessorIsThatOfTheLastRotationEvenIfAnOlderOneWasRestoredLater(t *testing.T) {
	for title, request := range map[string]secrets.Request{
		"an authority": keptAuthority("ca"), "a key": {Config: config.RSAKey{Name: "ca", Bits: 4096}, KeepOld: true},
	} {
		t.Run(title, func(t *testing.T) {
			g := NewWithT(t)
			n := newNamespace()
			n.mustReconcile(t, request)
			first := n.only(t, "ca")
			n.now = n.now.Add(time.Hour)
			n.rotate("ca")
			second := get(t, n.mustReconcile(t, request), "ca", secrets.Current)
			n.now = n.now.Add(time.Hour)
			n.rotate("ca")
			n.mustReconcile(t, request)
			first.CreationTimestamp = metav1.NewTime(n.now.Add(time.Hour))
			n.secrets = append(n.secrets, *first)

			inventory := n.mustReconcile(t, request)
			g.Expect(get(t, inventory, "ca", secrets.Old).Name).To(Equal(second.Name))
			g.Expect(n.find(first.Name)).To(BeNil())
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

// The process dies before it deletes the bundle of the time before a rotation, and the bundle of the rotation is lost.
func TestSecretThatIsLaterThanAllBundlesWasNotRotatedAway(t *testing.T) {
	g, n := NewWithT(t), newNamespace()
	request := secrets.Request{Config: config.RSAKey{Name: "key", Bits: 4096}, KeepOld: true}
	n.mustReconcile(t, request)
	first := *n.only(t, "key").DeepCopy()
	bundle := *n.only(t, "key-bundle").DeepCopy()
	n.now = n.now.Add(time.Hour)
	n.rotate("key")
	inventory := n.mustReconcile(t, request)
	second := get(t, inventory, "key", secrets.Current)
	wasForgotten := func(name string) bool {
		inventory, err := n.inventory()
		g.Expect(err).NotTo(HaveOccurred())
		return inventory.WasForgotten(name)
	}

	all := n.secrets
	n.secrets = []corev1.Secret{first, *second, bundle}
	g.Expect(wasForgotten(first.Name)).To(BeFalse())
	g.Expect(wasForgotten(second.Name)).To(BeFalse())

	n.secrets = all
	request.IgnoreOld = true
	n.mustReconcile(t, request)
	n.secrets = append(n.secrets, first)
	g.Expect(wasForgotten(first.Name)).To(BeTrue())
	g.Expect(wasForgotten(second.Name)).To(BeFalse())
}

// If two rotations or more followed the rotation in the status, and the bundle is lost, nothing shows which of the later keys is in use.
func TestBundleIsNotMadeOfOneOfSeveralLaterKeys(t *testing.T) {
	g := NewWithT(t)
	n := newNamespace()
	request := secrets.Request{Config: config.RSAKey{Name: "key", Bits: 4096}, KeepOld: true}
	var keys []corev1.Secret
	began := []time.Time{}
	for range 4 {
		n.now = n.now.Add(time.Hour)
		n.rotate("key")
		began = append(began, n.now)
		inventory := n.mustReconcile(t, request)
		keys = append(keys, *get(t, inventory, "key", secrets.Current))
	}
	request.IgnoreOld = true
	for status, several := range []bool{true, true, false, false} { // keys from before the rotation in the status are forgotten
		n.options.RotationTimes["key"], n.secrets = began[status], slices.Clone(keys)
		inventory, err := n.inventory()
		g.Expect(err).NotTo(HaveOccurred())
		step, err := inventory.Plan(request, n.source())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(step.Desired.Name).To(Equal(keys[status].Name))
		bundle, err := inventory.Record(request, step.Desired, n.now)
		g.Expect(err).NotTo(HaveOccurred())
		dropped, err := inventory.Dropped(request, *bundle, n.now)
		g.Expect(err).NotTo(HaveOccurred())
		if several {
			g.Expect(dropped).NotTo(BeEmpty(), "status %d", status)
		} else {
			g.Expect(dropped).To(BeEmpty(), "status %d", status)
		}
	}
}

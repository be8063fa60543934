package requestor_test

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/test/binary"
)

// A renewal time has whole seconds, and requests take a moment.
const slack = 2 * time.Second

func TestSecretGetsAToken(t *testing.T) {
	for name, twoClusters := range map[string]bool{"one cluster": false, "two clusters": true} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, binary.Options{TwoClusters: twoClusters})
			s.create(s.secret("a"))
			s.token("a", "")
			s.Expect(s.account("a").AutomountServiceAccountToken).To(Equal(ptr.To(false)))
			s.Expect(time.Until(s.renewal("a"))).To(And(
				BeNumerically(">", 9*time.Hour+36*time.Minute-binary.Patience), BeNumerically("<", 10*time.Hour+5*time.Minute)))
			s.Expect(s.read("a").Data).To(HaveLen(1))
		})
	}
}

func TestLabelMayBeAddedLaterAndTheAccountOutlivesTheSecret(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.create(s.secret("a", without(purposeLabel)))
	s.settled()
	s.Expect(s.hasAccount("a")).To(BeFalse())
	s.change("a", labelled2(purposeLabel, "token-requestor"))
	s.token("a", "")
	s.Expect(s.Source.Delete(s.Ctx, s.secret("a"))).To(Succeed())
	s.settled()
	s.Expect(s.hasAccount("a")).To(BeTrue())
}

func labelled2(key, value string) func(*corev1.Secret) {
	return func(secret *corev1.Secret) { secret.Labels = map[string]string{key: value} }
}

func TestTokenIsNotRenewedAfterTheLabelIsRemoved(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.create(s.secret("a"))
	token := s.token("a", "")
	s.change("a", without(purposeLabel))
	s.change("a", without(renewKey))
	s.settled()
	s.Expect(s.read("a").Data["token"]).To(BeEquivalentTo(token))
	s.Expect(s.read("a").Annotations).NotTo(HaveKey(renewKey))
	s.Expect(s.hasAccount("a")).To(BeTrue())
}

func TestKubeconfigGetsTheToken(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	s.create(s.secret("a", with("kubeconfig", kubeconfig("")), with("other", "kept")))
	s.Eventually(func() string { return s.read("a").Annotations[renewKey] }).ShouldNot(BeEmpty())
	data := s.read("a").Data
	config, err := clientcmd.Load(data["kubeconfig"])
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.answers(config.AuthInfos["me"].Token)).To(Equal(http.StatusForbidden))
	want, err := clientcmd.Load([]byte(kubeconfig(config.AuthInfos["me"].Token)))
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(config).To(BeComparableTo(want))
	delete(data, "kubeconfig")
	s.Expect(data).To(Equal(map[string][]byte{"other": []byte("kept")}))
}

func TestTargetSecretGetsTheToken(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	elsewhere := s.namespace()
	s.create(s.secret("a", targeted(elsewhere, "there"), with("token", "old"), with("kubeconfig", kubeconfig("")), with("other", "kept")))
	s.Eventually(func() map[string][]byte { return s.read("a").Data }).Should(Equal(map[string][]byte{"other": []byte("kept")}))
	there := s.readFrom(s.Target, elsewhere, "there")
	s.Expect(there.Data).To(HaveLen(1))
	s.Expect(s.answers(string(there.Data["token"]))).To(Equal(http.StatusForbidden))
	s.Expect(s.renewal("a")).To(BeTemporally(">", time.Now().Add(9*time.Hour)))
}

func TestTokenMovesToTheTargetSecret(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	s.create(s.secret("a"))
	s.token("a", "")
	s.change("a", targeted(s.Namespace, "there"))
	s.Eventually(func() map[string][]byte { return s.readFrom(s.Target, s.Namespace, "there").Data }).Should(HaveKey("token"))
	s.Eventually(func() map[string][]byte { return s.read("a").Data }).Should(BeEmpty())
}

func TestFreshTokenIsNotRenewed(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	s.Expect(s.Target.Create(s.Ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "there"}, Data: map[string][]byte{"token": []byte("b")},
	})).To(Succeed())
	at := in(time.Hour)
	s.create(s.secret("a", annotated(renewKey, at), with("token", "a")))
	s.create(s.secret("b", annotated(renewKey, at), targeted(s.Namespace, "there")))
	s.create(s.secret("c", annotated(renewKey, at), with("kubeconfig", kubeconfig("c"))))
	s.settled()
	s.Expect(s.tokenRequests()).To(Equal(1), "that of the marker")
	for _, each := range []string{"a", "b", "c"} {
		s.Expect(s.hasAccount(each)).To(BeFalse())
		s.Expect(s.read(each).Annotations[renewKey]).To(Equal(at))
	}
}

func TestTokenIsRenewedBeforeItExpires(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.create(s.secret("a", annotated(renewKey, in(3*time.Second)), with("token", "a")))
	s.settled()
	s.token("a", "a")
	s.Expect(s.renewal("a")).To(BeTemporally(">", time.Now().Add(9*time.Hour)))
}

func TestMissingTokenIsRequested(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	s.create(s.secret("a", annotated(renewKey, in(time.Hour))))
	s.create(s.secret("b", annotated(renewKey, in(time.Hour)), targeted(s.Namespace, "there")))
	s.token("a", "")
	s.Eventually(func() map[string][]byte { return s.readFrom(s.Target, s.Namespace, "there").Data }).Should(HaveKey("token"))
}

func TestTokenIsRenewedAtItsRenewalTimeOrOnDemand(t *testing.T) {
	for name, change := range map[string]func(*corev1.Secret){
		"its time is over":          annotated(renewKey, in(-time.Minute)),
		"its time is removed":       without(renewKey),
		"its renewal is asked for":  annotated(forceKey, "true"),
		"asked for in another word": annotated(forceKey, "please"),
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, binary.Options{})
			s.create(s.secret("a"))
			first := s.token("a", "")
			s.change("a", change)
			second := s.token("a", first)
			s.Expect(s.renewal("a")).To(BeTemporally(">", time.Now().Add(9*time.Hour)))
			s.Expect(s.read("a").Annotations).NotTo(HaveKey(forceKey))
			s.Expect(s.answers(second)).To(Equal(http.StatusForbidden))
			s.Expect(s.answers(first)).To(Equal(http.StatusForbidden), "it is valid until it expires")
			s.settled()
			s.Expect(s.read("a").Data["token"]).To(BeEquivalentTo(second))
		})
	}
}

func TestLifetimeDeterminesTheRenewalTime(t *testing.T) {
	s := newScene(t, binary.Options{})
	for lifetime, window := range map[string][2]time.Duration{
		"10m":  {8 * time.Minute, 8*time.Minute + 24*time.Second},
		"100h": {19*time.Hour + 12*time.Minute, 20*time.Hour + 10*time.Minute},
	} {
		begin := time.Now()
		s.create(s.secret("a"+lifetime, annotated(durationKey, lifetime)))
		s.token("a"+lifetime, "")
		s.Expect(s.renewal("a"+lifetime)).To(And(
			BeTemporally(">", begin.Add(window[0]-slack)), BeTemporally("<", time.Now().Add(window[1]+slack))), lifetime)
	}
}

func TestUnparsableLifetimeIsReportedAndNoTokenIsRequested(t *testing.T) {
	s := newScene(t, binary.Options{})
	for name, lifetime := range map[string]string{"a": "unparseable", "b": "1w"} {
		s.create(s.secret(name, annotated(durationKey, lifetime)))
		s.Eventually(s.reported(name)).
			Should(ContainElement(And(HavePrefix("Warning TokenRequestFailed: "), ContainSubstring(`"`+lifetime+`"`),
				ContainSubstring(durationKey))))
	}
	s.Expect(s.read("a").Data).To(BeEmpty())
	s.Expect(s.tokenRequests()).To(BeZero())
	s.Expect(s.hasAccount("a")).To(BeTrue())
	s.change("a", annotated(durationKey, "10m"))
	s.token("a", "")
	s.Eventually(s.reported("a")).Should(ContainElement(HavePrefix("Normal TokenRecovered: ")))
}

func TestUnparsableRenewalTimeIsReported(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.create(s.secret("a", annotated(renewKey, "invalid-format"), with("token", "a")))
	s.Eventually(s.reported("a")).
		Should(ContainElement(And(HavePrefix("Warning TokenRenewalFailed: "), ContainSubstring("could not parse renew timestamp"))))
	s.Expect(s.read("a").Data["token"]).To(BeEquivalentTo("a"))
}

func TestAutomountOfAnAccountIsDisabled(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	s.Expect(s.Target.Create(s.Ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: "a", Labels: map[string]string{"old": "label"}, Annotations: map[string]string{"some": "annotation"},
		},
		AutomountServiceAccountToken: ptr.To(true), ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
		Secrets: []corev1.ObjectReference{{Name: "static"}},
	})).To(Succeed())
	s.create(s.secret("a"))
	s.token("a", "")
	account := s.account("a")
	s.Expect(account.AutomountServiceAccountToken).To(Equal(ptr.To(false)))
	s.Expect(account.Labels).To(BeEmpty())
	s.Expect(account.Annotations).To(Equal(map[string]string{"some": "annotation"}))
	s.Expect(account.ImagePullSecrets).To(Equal([]corev1.LocalObjectReference{{Name: "pull"}}))
	s.Expect(account.Secrets).To(Equal([]corev1.ObjectReference{{Name: "static"}}))
}

func TestClassOfTheInstanceSelectsSecrets(t *testing.T) {
	t.Run("an instance with a class", func(t *testing.T) {
		s := newScene(t, binary.Options{Config: requestorEnabled + "espalier: {token: {class: foo}}\n"})
		s.create(s.secret("none"))
		s.create(s.secret("bar", labelled(classLabel, "bar")))
		s.create(s.secret("foo", labelled(classLabel, "foo")))
		token := s.token("foo", "")
		s.settled()
		s.Expect(s.hasAccount("none")).To(BeFalse())
		s.Expect(s.hasAccount("bar")).To(BeFalse())
		s.change("foo", labelled(classLabel, "bar"))
		s.change("foo", without(renewKey))
		s.settled()
		s.Expect(s.read("foo").Data["token"]).To(BeEquivalentTo(token))
	})
	t.Run("an instance without a class", func(t *testing.T) {
		s := newScene(t, binary.Options{})
		s.create(s.secret("none"))
		s.create(s.secret("bar", labelled(classLabel, "bar")))
		s.token("none", "")
		s.token("bar", "")
	})
}

func TestConfiguredTargetNamespaceOverridesTheAnnotation(t *testing.T) {
	s := newScene(t, binary.Options{
		TwoClusters: true, Stopped: true, Config: requestorEnabled + "espalier: {token: {class: garden, audiences: []}}\n",
	})
	fixed := s.namespace()
	s.Config.Espalier.Token.TargetNamespace = &fixed
	s.Start()
	s.create(s.secret("a", labelled(classLabel, "garden")))
	s.create(s.secret("b", labelled(classLabel, "garden"), without(namespaceKey), targeted(s.Namespace, "there")))
	s.Expect(s.answers(s.token("a", ""))).To(Equal(http.StatusForbidden))
	s.Expect(s.hasAccount("a")).To(BeFalse())
	s.Expect(s.Target.Get(s.Ctx, key(fixed, "a"), &corev1.ServiceAccount{})).To(Succeed())
	s.Eventually(func() map[string][]byte { return s.readFrom(s.Target, s.Namespace, "there").Data }).Should(HaveKey("token"))
	s.Expect(s.answers(string(s.readFrom(s.Target, s.Namespace, "there").Data["token"]))).To(Equal(http.StatusForbidden))
}

func TestAccountGetsExactlyTheLabelsOfTheAnnotation(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.create(s.secret("a", annotated(labelsKey, `{"foo":"bar"}`)))
	s.token("a", "")
	s.Expect(s.account("a").Labels).To(Equal(map[string]string{"foo": "bar"}))
}

func TestTokenAuthenticates(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	s.create(s.secret("a"))
	token := s.token("a", "")
	s.Expect(s.answers(token)).To(Equal(http.StatusForbidden))
	s.Expect(s.answers(token[:len(token)-8] + "AAAAAAAA")).To(Equal(http.StatusUnauthorized))
}

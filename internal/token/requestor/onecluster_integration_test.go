package requestor_test

import (
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/binary"
)

// newProtectedScene returns a scene whose requestor runs in a namespace of its own, with a powerful ServiceAccount and a Secret. Secrets of
// the scene's namespace, where an editor writes, may name every namespace.
func newProtectedScene(t *testing.T, more string) (s *scene, own string, account *corev1.ServiceAccount, secret *corev1.Secret) {
	t.Helper()
	s = newScene(t, binary.Options{Stopped: true, Config: requestorEnabled + "espalier: {token: {sameCluster: {scope: AllNamespaces}}}\n"})
	own = s.namespace()
	t.Setenv("POD_NAMESPACE", own)
	if more != "" {
		s.Config.Espalier.Token.SameCluster.SystemServiceAccounts = []string{own + "/" + more}
	}
	account = &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "powerful", Labels: map[string]string{"part-of": "us"}},
	}
	s.Expect(s.Target.Create(s.Ctx, account)).To(Succeed())
	secret = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "credentials"},
		Data:       map[string][]byte{"token": []byte("mine"), "bundle.crt": []byte("mine")},
	}
	s.Expect(s.Target.Create(s.Ctx, secret)).To(Succeed())
	s.Start()
	return s, own, account, secret
}

func TestTokenOfOwnNamespaceIsRefusedInOneCluster(t *testing.T) {
	s, own, account, secret := newProtectedScene(t, "")
	s.create(s.secret("a", annotated(namespaceKey, own), annotated(nameKey, "powerful"), annotated(labelsKey, `{"stolen":"yes"}`)))
	s.create(s.secret("b", annotated(namespaceKey, "kube-system"), annotated(nameKey, "default"), annotated(labelsKey, `{"stolen":"yes"}`)))
	s.create(s.secret("c", targeted(own, "credentials")))
	for name, want := range map[string]string{
		"a": "ServiceAccount " + own + "/powerful is refused, since source and target are one cluster and namespace " + own + " is protected",
		"b": "ServiceAccount kube-system/default is refused, since source and target are one cluster and namespace kube-system is protected",
		"c": "target Secret " + own + "/credentials is refused, since source and target are one cluster and namespace " + own + " is protected",
	} {
		s.Eventually(s.reported(name)).Should(ContainElement(ContainSubstring("Warning TokenRequestFailed: "+want)), name)
		s.Expect(s.read(name).Data).To(BeEmpty(), name)
	}
	s.Expect(s.tokenRequests()).To(BeZero())
	for _, each := range []client.Object{account, secret} {
		before := each.GetResourceVersion()
		s.Expect(s.Target.Get(s.Ctx, client.ObjectKeyFromObject(each), each)).To(Succeed())
		s.Expect(each.GetResourceVersion()).To(Equal(before), "nothing was written")
	}
}

func TestAListedServiceAccountOfOwnNamespaceGetsAToken(t *testing.T) {
	s, own, _, _ := newProtectedScene(t, "powerful")
	s.create(s.secret("a", annotated(namespaceKey, own), annotated(nameKey, "powerful")))
	s.token("a", "")
}

func TestAListedServiceAccountWithoutEffectIsLoggedAtStart(t *testing.T) {
	log := &binary.Log{}
	s := newScene(t, binary.Options{Stopped: true, Log: log.Logger(), Config: requestorEnabled +
		"espalier: {token: {sameCluster: {scope: AllNamespaces, systemServiceAccounts: [team/robot]}}}\n"})
	t.Setenv("POD_NAMESPACE", "own")
	s.Start()
	s.Expect(log.Containing("ServiceAccount is listed in espalier.token.sameCluster.systemServiceAccounts without effect")).To(ConsistOf(
		ContainSubstring(`"serviceAccount"="team/robot" "reason"="only namespaces kube-system and own are protected"`)))
}

func TestOneClusterWithoutRestrictionDoesNotStart(t *testing.T) {
	s := newScene(t, binary.Options{Stopped: true, EverySourceNamespace: true})
	needs, err := s.Needs()
	s.Expect(err).NotTo(HaveOccurred())
	needs.SkipNameValidation = true
	setup := s.Setup()
	setup.Log = logr.Discard()
	clusters, err := setup.Connect(s.Ctx, needs)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.Add(s.Ctx, clusters)).To(MatchError("add controller token-requestor: " +
		"source and target are one cluster, so every user who may create a Secret could get a token of every ServiceAccount: " +
		"set espalier.token.sameCluster.scope: SecretNamespace, espalier.token.targetNamespace or sourceClientConnection.namespaces, " +
		"or allow it with espalier.token.sameCluster.scope: AllNamespaces"))
}

func TestTwoClustersNeedNoRestriction(t *testing.T) {
	s := newScene(t, binary.Options{TwoClusters: true})
	s.create(s.secret("a", annotated(namespaceKey, "kube-system"), annotated(nameKey, s.Namespace)))
	s.token("a", "")
	s.Expect(s.Target.Delete(s.Ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: s.Namespace}})).
		To(Succeed())
}

package gardeneradmission_test

import (
	"net/url"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/gardeneradmission"
	"github.com/espalier-dev/espalier/internal/rollout"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
	"github.com/espalier-dev/espalier/test/binary"
)

// The webhooks would disturb tests of other packages.
func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }

// kube-apiserver asks authorizers at the Service, in its own namespace.
func TestCertificateIsForTheHostOfAuthorizers(t *testing.T) {
	g := NewWithT(t)
	certificate, ok := gardeneradmission.ServerCertificate(garden(t, "{}")).Config.(secretconfig.Certificate)
	g.Expect(ok).To(BeTrue())
	var service *corev1.Service
	for _, each := range objects(t, garden(t, "{}"), false) {
		if found, is := each.(*corev1.Service); is {
			service = found
		}
	}
	paths := map[string]string{}
	for _, each := range gardeneradmission.Authorizers() {
		parsed, err := url.Parse(each.URL())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(parsed.Scheme).To(Equal("https"))
		g.Expect(parsed.Host).To(Equal(service.Name))
		g.Expect(certificate.DNSNames).To(ContainElement(parsed.Host))
		paths[each.Name] = parsed.Path
	}
	g.Expect(paths).To(Equal(map[string]string{"seed": "/webhooks/auth/seed", "shoot": "/webhooks/auth/shoot"}))
	g.Expect(service.Spec.Ports[0].Port).To(BeEquivalentTo(443))
}

// No webhook answers here, as while gardener-admission-controller does not run.
func TestOnlySeedsAndShootsDependOnRestrictions(t *testing.T) {
	g := NewWithT(t)
	servers := binary.Servers(t)
	as := func(user string, groups ...string) client.Client {
		config := rest.CopyConfig(servers.Source.Config)
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:masters")}
		c, failure := client.New(config, client.Options{})
		g.Expect(failure).NotTo(HaveOccurred())
		return c
	}
	deployed, err := rollout.Unstructured(gardeneradmission.VirtualObjects(garden(t, "{}"), authority(t), true)...)
	g.Expect(err).NotTo(HaveOccurred())
	for _, each := range deployed {
		g.Expect(as("admin").Create(t.Context(), each)).To(Succeed())
	}

	secret := func() client.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	}
	seed := as("gardener.cloud:system:seed:a", "gardener.cloud:system:seeds")
	g.Eventually(func() error { return seed.Create(t.Context(), secret(), client.DryRunAll) }, binary.Patience, 100*time.Millisecond).Should(
		MatchError(ContainSubstring(`failed calling webhook "seed-restriction.gardener.cloud"`)))
	binding := func() client.Object {
		return &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "a"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		}
	}
	const serviceAccount = "system:serviceaccount:"
	for sentence, tc := range map[string]struct {
		user   string
		groups []string
		object client.Object
		want   string
	}{
		"an extension of a seed": {
			user: serviceAccount + "seed-a:extension", groups: []string{"system:serviceaccounts:seed-a"}, object: binding(),
			want: "seed-restriction",
		},
		"a gardenlet of a shoot": {
			user: "gardener.cloud:system:shoot:a", groups: []string{"gardener.cloud:system:shoots"}, object: secret(), want: "shoot-restriction",
		},
		"an extension of a shoot": {
			user: serviceAccount + "garden-cellar:extension-shoot--a", groups: []string{"system:serviceaccounts:garden-cellar"}, object: secret(),
			want: "shoot-restriction",
		},
		"another ServiceAccount of a project": {
			user: serviceAccount + "garden-cellar:robot", groups: []string{"system:serviceaccounts:garden-cellar"}, object: secret(),
		},
		"the resource manager": {
			user: serviceAccount + "kube-system:gardener-resource-manager", groups: []string{"system:serviceaccounts:kube-system"}, object: secret(),
		},
		"a user": {user: "alice", object: binding()},
	} {
		t.Run(sentence, func(t *testing.T) {
			err := as(tc.user, tc.groups...).Create(t.Context(), tc.object, client.DryRunAll)
			if tc.want == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
			} else {
				NewWithT(t).Expect(err).To(MatchError(ContainSubstring(`failed calling webhook "` + tc.want + `.gardener.cloud"`)))
			}
		})
	}
}

// authority returns a certificate that no server here has.
func authority(t *testing.T) []byte {
	t.Helper()
	generated, err := secretconfig.Certificate{Name: "ca-gardener", CommonName: "gardener", Type: secretconfig.CA}.Generate(
		secretconfig.RandomSource(time.Unix(0, 0)))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return generated[secretconfig.DataKeyCACertificate]
}

package invalidator_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/token"
	"github.com/espalier-dev/espalier/test/binary"
)

const (
	skipLabel     = "token-invalidator.resources.gardener.cloud/skip"
	considerLabel = "token-invalidator.resources.gardener.cloud/consider"
	purposeLabel  = "resources.gardener.cloud/purpose"
)

// scene is a running token invalidator that works in one namespace.
type scene struct{ *binary.Env }

func newScene(t *testing.T, options binary.Options) *scene {
	t.Helper()
	SetDefaultEventuallyTimeout(binary.Patience)
	options.Config = "controllers: {tokenInvalidator: {enabled: true}}\nwebhooks: {tokenInvalidator: {enabled: true}}\n"
	stopped := options.Stopped
	options.Stopped = true
	s := &scene{binary.New(t, binary.Binary{Name: "token-controllers", Needs: token.Needs, Add: token.Add}, options)}
	if options.TwoClusters {
		s.Config.TargetClientConnection.Namespaces = []string{s.Namespace} // other tests have Secrets, too
	}
	if !stopped {
		s.Start()
	}
	return s
}

func (s *scene) create(objects ...client.Object) {
	s.T.Helper()
	for _, each := range objects {
		s.Expect(s.Target.Create(s.Ctx, each)).To(Succeed())
	}
}

func (s *scene) account(name string, automount *bool) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}, AutomountServiceAccountToken: automount}
}

// secret is a static token Secret of a ServiceAccount.
func (s *scene) secret(name, account string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: name, Annotations: map[string]string{"kubernetes.io/service-account.name": account},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
}

// pod mounts a Secret.
func (s *scene) pod(name, secret string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/c:1"}},
			Volumes:    []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}}},
		},
	}
}

func (s *scene) update(object client.Object, change func()) {
	s.T.Helper()
	s.Eventually(func() error {
		if err := s.Target.Get(s.Ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change()
		return s.Target.Update(s.Ctx, object)
	}).Should(Succeed())
}

// labels returns the labels of a Secret that the invalidator or the webhook reads.
func (s *scene) labels(name string) func() map[string]string {
	return func() map[string]string {
		secret := &corev1.Secret{}
		s.Expect(s.Target.Get(s.Ctx, types.NamespacedName{Namespace: s.Namespace, Name: name}, secret)).To(Succeed())
		found := map[string]string{}
		for key, value := range secret.Labels {
			if strings.Contains(key, "gardener.cloud") {
				found[key] = value
			}
		}
		return found
	}
}

func marked() map[string]string {
	return map[string]string{purposeLabel: "token-invalidator", considerLabel: "true"}
}

func unmarked() map[string]string { return map[string]string{purposeLabel: "token-invalidator"} }

func (s *scene) quiet() {
	s.T.Helper()
	s.Eventually(func() int {
		before := len(s.Requests.Seen())
		time.Sleep(150 * time.Millisecond)
		return len(s.Requests.Seen()) - before
	}).Should(BeZero())
}

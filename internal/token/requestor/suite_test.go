package requestor_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/token"
	"github.com/espalier-dev/espalier/test/binary"
)

const (
	purposeLabel     = "resources.gardener.cloud/purpose"
	classLabel       = "resources.gardener.cloud/class"
	nameKey          = "serviceaccount.resources.gardener.cloud/name"
	namespaceKey     = "serviceaccount.resources.gardener.cloud/namespace"
	labelsKey        = "serviceaccount.resources.gardener.cloud/labels"
	durationKey      = "serviceaccount.resources.gardener.cloud/token-expiration-duration"
	renewKey         = "serviceaccount.resources.gardener.cloud/token-renew-timestamp"
	injectKey        = "serviceaccount.resources.gardener.cloud/inject-ca-bundle"
	targetNameKey    = "token-requestor.resources.gardener.cloud/target-secret-name"
	targetSpaceKey   = "token-requestor.resources.gardener.cloud/target-secret-namespace"
	audiencesKey     = "espalier.dev/token-audiences"
	forceKey         = "espalier.dev/renew-token"
	requestorEnabled = "controllers: {tokenRequestor: {enabled: true}}\n"
)

func theBinary() binary.Binary {
	return binary.Binary{Name: "token-controllers", Needs: token.Needs, Add: token.Add}
}

// scene is a running token requestor with its own namespace in both clusters.
type scene struct{ *binary.Env }

func newScene(t *testing.T, options binary.Options) *scene {
	t.Helper()
	SetDefaultEventuallyTimeout(binary.Patience)
	t.Setenv("POD_NAMESPACE", "espalier-system")
	if options.Config == "" {
		options.Config = requestorEnabled
	}
	return &scene{binary.New(t, theBinary(), options)}
}

// secret returns a Secret that wants a token of a ServiceAccount with its own name.
func (s *scene) secret(name string, modify ...func(*corev1.Secret)) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: name,
			Labels:      map[string]string{purposeLabel: "token-requestor"},
			Annotations: map[string]string{nameKey: name, namespaceKey: s.Namespace},
		},
		Data: map[string][]byte{},
	}
	for _, each := range modify {
		each(secret)
	}
	return secret
}

func annotated(key, value string) func(*corev1.Secret) {
	return func(secret *corev1.Secret) { secret.Annotations[key] = value }
}

func labelled(key, value string) func(*corev1.Secret) {
	return func(secret *corev1.Secret) { secret.Labels[key] = value }
}

func with(key, value string) func(*corev1.Secret) {
	return func(secret *corev1.Secret) { secret.Data[key] = []byte(value) }
}

func without(key string) func(*corev1.Secret) {
	return func(secret *corev1.Secret) {
		delete(secret.Annotations, key)
		delete(secret.Labels, key)
		delete(secret.Data, key)
	}
}

// targeted makes a Secret name a target Secret, which then stores the token.
func targeted(namespace, name string) func(*corev1.Secret) {
	return func(secret *corev1.Secret) {
		secret.Annotations[targetSpaceKey], secret.Annotations[targetNameKey] = namespace, name
	}
}

func in(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }

func (s *scene) create(secret *corev1.Secret) *corev1.Secret {
	s.T.Helper()
	s.Expect(s.Source.Create(s.Ctx, secret)).To(Succeed())
	return secret
}

// change modifies a Secret of the source.
func (s *scene) change(name string, modify ...func(*corev1.Secret)) {
	s.T.Helper()
	s.Eventually(func() error {
		secret := s.read(name)
		for _, each := range modify {
			each(secret)
		}
		return s.Source.Update(s.Ctx, secret)
	}).Should(Succeed())
}

func (s *scene) read(name string) *corev1.Secret { return s.readFrom(s.Source, s.Namespace, name) }

// readFrom returns a Secret; an empty one if it does not exist.
func (s *scene) readFrom(c client.Client, namespace, name string) *corev1.Secret {
	s.T.Helper()
	secret := &corev1.Secret{}
	err := c.Get(s.Ctx, types.NamespacedName{Namespace: namespace, Name: name}, secret)
	if !apierrors.IsNotFound(err) {
		s.Expect(err).NotTo(HaveOccurred())
	}
	return secret
}

// token waits until the Secret has a token other than the given one, and returns it.
func (s *scene) token(name, other string) string {
	s.T.Helper()
	found := ""
	s.Eventually(func() string {
		found = string(s.read(name).Data["token"])
		return found
	}).ShouldNot(Or(BeEmpty(), Equal(other)), "token of Secret %s", name)
	return found
}

func (s *scene) account(name string) *corev1.ServiceAccount {
	s.T.Helper()
	account := &corev1.ServiceAccount{}
	s.Eventually(func() error {
		return s.Target.Get(s.Ctx, types.NamespacedName{Namespace: s.Namespace, Name: name}, account)
	}).Should(Succeed())
	return account
}

func (s *scene) hasAccount(name string) bool {
	s.T.Helper()
	err := s.Target.Get(s.Ctx, types.NamespacedName{Namespace: s.Namespace, Name: name}, &corev1.ServiceAccount{})
	return err == nil
}

// tokenRequests returns the number of token requests.
func (s *scene) tokenRequests() int {
	n := 0
	for _, each := range s.Requests.Writes() {
		if strings.HasSuffix(each, "/token") {
			n++
		}
	}
	return n
}

// settled waits until the controller has processed all earlier changes: it makes a change on the same watch, and waits until that is
// processed.
func (s *scene) settled() {
	s.T.Helper()
	name := fmt.Sprintf("marker-%d", time.Now().UnixNano())
	s.create(s.secret(name, func(secret *corev1.Secret) {
		if s.Config.Espalier.Token.Class != nil {
			secret.Labels[classLabel] = *s.Config.Espalier.Token.Class
		}
	}))
	s.token(name, "")
	s.Expect(s.Source.Delete(s.Ctx, s.secret(name))).To(Succeed())
	s.quiet()
}

// quiet waits until no request was sent for a while.
func (s *scene) quiet() {
	s.T.Helper()
	s.Eventually(func() int {
		before := len(s.Requests.Seen())
		time.Sleep(150 * time.Millisecond)
		return len(s.Requests.Seen()) - before
	}).Should(BeZero())
}

// answers sends a request to the target with a token as its only credential, and returns the status code.
func (s *scene) answers(token string) int {
	s.T.Helper()
	server := s.Servers.Source
	if s.Config.TargetClientConnection != nil {
		server = s.Servers.Target
	}
	anonymous := rest.AnonymousClientConfig(server.Config)
	httpClient, err := rest.HTTPClientFor(anonymous)
	s.Expect(err).NotTo(HaveOccurred())
	request, err := http.NewRequestWithContext(s.Ctx, http.MethodGet, server.Config.Host+"/api/v1/namespaces/default/secrets", http.NoBody)
	s.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := httpClient.Do(request)
	s.Expect(err).NotTo(HaveOccurred())
	_ = response.Body.Close()
	return response.StatusCode
}

// reported returns a function that returns the Events about a Secret.
func (s *scene) reported(name string) func() []string {
	return func() []string { return s.Events(s.Source, "Secret", name) }
}

func (s *scene) renewal(name string) time.Time {
	s.T.Helper()
	at, err := time.Parse(time.RFC3339, s.read(name).Annotations[renewKey])
	s.Expect(err).NotTo(HaveOccurred())
	return at
}

// namespace creates another namespace in the target.
func (s *scene) namespace() string {
	s.T.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	s.Expect(s.Target.Create(context.WithoutCancel(s.Ctx), namespace)).To(Succeed())
	return namespace.Name
}

// kubeconfig has two users, of which the current context uses the second, and a cluster.
func kubeconfig(token string) string {
	return `apiVersion: v1
kind: Config
current-context: here
contexts:
- {name: there, context: {cluster: c, user: other}}
- {name: here, context: {cluster: c, user: me}}
clusters:
- {name: c, cluster: {server: https://api.example.com, certificate-authority-data: Y2E=}}
users:
- {name: other, user: {token: others}}
- {name: me, user: {token: "` + token + `"}}
`
}

func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

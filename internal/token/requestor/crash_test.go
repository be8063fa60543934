package requestor_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/test/binary"
)

func TestCrashPoints(t *testing.T) {
	for name, tc := range map[string]struct {
		before  []func(*corev1.Secret)
		renewed bool
	}{
		"first token":             {},
		"first token in a target": {before: []func(*corev1.Secret){func(s *corev1.Secret) { targeted(s.Namespace, "there")(s) }}},
		"renewal in a kubeconfig": {before: []func(*corev1.Secret){with("kubeconfig", kubeconfig("old"))}, renewed: true},
	} {
		t.Run(name, func(t *testing.T) {
			binary.EveryCut(t, 1, func(t *testing.T, at binary.Cut) bool {
				t.Helper()
				return crash(t, at, tc.renewed, tc.before...)
			})
		})
	}
}

// crash cuts the process off from the API servers while a Secret gets a token, stops it, and starts the next process.
func crash(t *testing.T, at binary.Cut, renewed bool, modify ...func(*corev1.Secret)) (happened bool) {
	t.Helper()
	s := newScene(t, binary.Options{})
	s.settled() // so that requests are not cut off during the start
	var issued atomic.Int64
	s.Requests.SetHook(func(request *http.Request) error {
		if strings.HasSuffix(request.URL.Path, "/token") {
			issued.Add(1)
		}
		return nil
	})
	secret := s.secret("a", modify...)
	if renewed {
		annotated(renewKey, in(-time.Hour))(secret)
	}
	s.Requests.CutOff(at)
	s.create(secret)
	s.Eventually(func() bool { return s.Requests.IsCutOff() || s.fresh() }).Should(BeTrue())
	s.Stop()
	happened = s.Requests.Connect()
	s.Start()
	s.Eventually(s.fresh).Should(BeTrue())
	s.quiet()
	s.Expect(s.answers(s.anyToken())).To(Equal(http.StatusForbidden))
	s.Expect(issued.Load()).To(BeNumerically("<=", 2))
	s.Expect(s.hasAccount("a")).To(BeTrue())
	return happened
}

// fresh reports whether the Secret has a token, and a renewal time that is not over.
func (s *scene) fresh() bool {
	at, err := time.Parse(time.RFC3339, s.read("a").Annotations[renewKey])
	return err == nil && time.Until(at) > 0 && s.anyToken() != ""
}

// anyToken returns the token of the Secret, from the kubeconfig or from the key token.
func (s *scene) anyToken() string {
	secret := s.read("a")
	if secret.Annotations[targetNameKey] != "" {
		secret = s.readFrom(s.Target, s.Namespace, "there")
	}
	if _, found := secret.Data["kubeconfig"]; found {
		return s.embedded(secret)
	}
	return string(secret.Data["token"])
}

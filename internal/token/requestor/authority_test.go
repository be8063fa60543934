package requestor

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/espalier-dev/espalier/internal/token/digest"
	"github.com/espalier-dev/espalier/test/binary"
)

// cached stands for the cache of Secrets.
type cached struct {
	client.Reader
	secrets []corev1.Secret
}

func (c cached) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if secrets, ok := list.(*corev1.SecretList); ok {
		secrets.Items = c.secrets
	}
	return nil
}

func TestAChangedAuthorityReachesTheSecretsThatHoldIt(t *testing.T) {
	const inject = "serviceaccount.resources.gardener.cloud/inject-ca-bundle"
	g := NewWithT(t)
	secret := func(name string, annotations map[string]string) corev1.Secret {
		return corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: annotations}}
	}
	var ca atomic.Value
	var looks atomic.Int64
	ca.Store("old")
	passive := clocktesting.NewFakeClock(now)
	r := &Reconciler{
		Clock: passive, CA: func() ([]byte, error) {
			defer looks.Add(1)
			content, _ := ca.Load().(string)
			return []byte(content), nil
		},
		Secrets: cached{
			secrets: []corev1.Secret{
				secret("plain", nil), secret("off", map[string]string{inject: "false"}), secret("on", map[string]string{inject: "true"}),
			},
		},
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	g.Expect(r.followCA(t.Context(), queue)).To(Succeed())
	for _, content := range []string{"old", "", "new"} {
		g.Expect(queue.Len()).To(BeZero(), "nothing has changed up to now")
		ca.Store(content)
		before := looks.Load()
		passive.Step(time.Minute)
		g.Eventually(looks.Load).WithTimeout(binary.Patience).Should(Equal(before + 1))
	}
	g.Eventually(queue.Len).WithTimeout(binary.Patience).Should(Equal(1))
	got, _ := queue.Get()
	g.Expect(got.NamespacedName).To(Equal(types.NamespacedName{Namespace: "ns", Name: "on"}))
}

func TestFaultsOfATargetAreNoMistakesOfTheSecret(t *testing.T) {
	for name, tc := range map[string]struct {
		remote, mistake bool
	}{"a target Secret": {remote: true}, "the Secret itself": {mistake: true}} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			broken := holder{found: true, remote: tc.remote, digest: digest.Digest{Fault: "x"}}
			_, err := decide(facts{now: now, annotations: map[string]string{renewKey: ahead}, holder: broken})
			g.Expect(err).To(HaveOccurred())
			g.Expect(isMistake(err)).To(Equal(tc.mistake))
			g.Expect(isMistake(writable(broken))).To(Equal(tc.mistake))
			immutable := holder{found: true, remote: tc.remote, digest: digest.Digest{Immutable: true}}
			g.Expect(isMistake(writable(immutable))).To(Equal(tc.mistake))
		})
	}
}

func TestAnEmptyAuthorityIsTriedAgain(t *testing.T) {
	g := NewWithT(t)
	r := &Reconciler{CA: func() ([]byte, error) { return nil, nil }}
	_, err := r.wantedCA(map[string]string{"serviceaccount.resources.gardener.cloud/inject-ca-bundle": "true"})
	g.Expect(err).To(MatchError(ContainSubstring("asks for the certificate authority of the target")))
	g.Expect(isMistake(err)).To(BeFalse())
}

func TestTextThatCannotBeParsedIsCut(t *testing.T) {
	g := NewWithT(t)
	long := strings.Repeat("x", 100000)
	_, err := lifetimeOf(map[string]string{durationKey: long})
	g.Expect(err).To(MatchError(ContainSubstring("invalid duration")))
	g.Expect(len(err.Error())).To(BeNumerically("<", 400))
	_, err = decide(facts{
		now: now, annotations: map[string]string{renewKey: long}, holder: holder{found: true, digest: digest.Digest{Token: true}},
	})
	g.Expect(err).To(MatchError(ContainSubstring("could not parse renew timestamp")))
	g.Expect(len(err.Error())).To(BeNumerically("<", 400))
}

func TestAKeptTokenDoesNotStayInMemory(t *testing.T) {
	secret := types.NamespacedName{Name: "s"}
	for name, tc := range map[string]struct {
		wanted bool
		after  time.Duration
		kept   bool
	}{
		"soon":                  {wanted: true, after: time.Minute, kept: true},
		"too late":              {wanted: true, after: time.Minute + 1},
		"no Secret requests it": {after: 0},
		"and it is late":        {after: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewMemory()
			m.keep(secret, issued{token: "t", at: now}, order{uid: "u"})
			m.tidy(secret, tc.wanted, now.Add(tc.after))
			NewWithT(t).Expect(m.entries[secret].pending != nil).To(Equal(tc.kept))
		})
	}
}

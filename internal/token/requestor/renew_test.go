package requestor

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/espalier-dev/espalier/internal/token/digest"
)

// If the kubeconfig has changed, a token for its earlier version could not be written.
func TestNoTokenIsRequestedForAnEarlierVersionOfAKubeconfig(t *testing.T) {
	g := NewWithT(t)
	live := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", ResourceVersion: "2"}, Data: map[string][]byte{"kubeconfig": []byte("k")},
	}
	r := &Reconciler{Source: fake.NewClientBuilder().WithObjects(live).Build()}
	content := func(version string) ([]byte, error) {
		cached := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", ResourceVersion: version}}
		return r.holderContent(t.Context(), &work{secret: cached, key: client.ObjectKeyFromObject(cached), held: digest.Digest{Kubeconfig: true}})
	}
	g.Expect(content("2")).To(Equal([]byte("k")))
	_, err := content("1")
	g.Expect(err).To(MatchError(errBehind))
}

func TestTokenThatExpiresWithinAMinuteIsRefused(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for left, refused := range map[time.Duration]bool{time.Minute: false, time.Minute - time.Second: true} {
		t.Run(left.String(), func(t *testing.T) {
			clock, memory := clocktesting.NewFakeClock(begin), NewMemory()
			target := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{SubResourceCreate: func(
				_ context.Context, _ client.Client, _ string, _, request client.Object, _ ...client.SubResourceCreateOption,
			) error {
				if request, ok := request.(*authenticationv1.TokenRequest); ok {
					request.Status.ExpirationTimestamp = metav1.NewTime(begin.Add(left))
				}
				return nil
			}})
			r := &Reconciler{
				Target: target, Clock: clock, Spread: NewSpread(0), Memory: memory, Metrics: NewMetrics(prometheus.NewRegistry(), clock, memory),
			}
			_, err := r.token(t.Context(), types.NamespacedName{Name: "s"}, order{lifetime: time.Hour})
			if !refused {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring("the new token expires in less than 1m0s")))
		})
	}
}

package approver

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Requests with contents that current API servers never store or return.

const pretty = "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"

func stored(raw string) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: "kubernetes.io/kubelet-serving", Username: "system:node:n", Request: []byte(raw),
		},
	}
}

func reconcilerOf(target client.Client) *Reconciler {
	return &Reconciler{
		Target: target, Source: target, Clock: testclock.NewFakePassiveClock(time.Unix(1, 0)),
		Metrics: NewMetrics(prometheus.NewRegistry(), false),
	}
}

func TestUnparsableRequestIsAnErrorAndNotDenied(t *testing.T) {
	for name, tc := range map[string]struct{ raw, want string }{
		"no PEM":                {"garbage", "unable to parse csr: PEM block type must be CERTIFICATE REQUEST"},
		"a block of no PKCS#10": {pretty, "unable to parse csr: parse PKCS#10 request: "},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			target := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(stored(tc.raw)).Build()
			_, err := reconcilerOf(target).Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "c"}})
			g.Expect(err).To(MatchError(HavePrefix(tc.want)))
			csr := &certificatesv1.CertificateSigningRequest{}
			g.Expect(target.Get(t.Context(), client.ObjectKey{Name: "c"}, csr)).To(Succeed())
			g.Expect(csr.Status).To(BeZero())
		})
	}
}

func TestWhatCannotBeReadIsAnErrorAndNoDenial(t *testing.T) {
	g := NewWithT(t)
	target := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, isNode := object.(*corev1.Node); isNode {
				return errors.New("synthetic")
			}
			return c.Get(ctx, key, object, options...)
		},
	}).Build()
	_, err := reconcilerOf(target).observe(t.Context(), "n")
	g.Expect(err).To(MatchError(`read Node "n": synthetic`))
}

func TestForeignAndMissingRequestsAreNothingToDo(t *testing.T) {
	g := NewWithT(t)
	foreign := stored("garbage")
	foreign.Spec.SignerName = "kubernetes.io/kube-apiserver-client"
	target := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(foreign).Build()
	for _, name := range []string{"c", "gone"} {
		result, err := reconcilerOf(target).Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(result).To(BeZero())
	}
}

// passing is a clock that advances by one hour with each call.
type passing struct{ now time.Time }

func (p *passing) Now() time.Time {
	p.now = p.now.Add(time.Hour)
	return p.now
}

func (p *passing) Since(then time.Time) time.Duration { return p.Now().Sub(then) }

// waits returns a request of a node whose Node does not exist yet.
func waits(t *testing.T) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	g := NewWithT(t)
	csr := stored("")
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}},
		DNSNames: []string{"n"},
	}, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	g.Expect(err).NotTo(HaveOccurred())
	csr.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	csr.CreationTimestamp = metav1.NewTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	return csr
}

// A request that must wait is requeued, even if time passes while it is judged.
func TestTheEndOfTheWaitIsNotMissed(t *testing.T) {
	g := NewWithT(t)
	csr := waits(t)
	r := reconcilerOf(fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(csr).Build())
	r.Clock, r.Rules.Own.WaitForObjects = &passing{csr.CreationTimestamp.Time}, &metav1.Duration{Duration: 90 * time.Minute}
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "c"}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result).To(Equal(ctrl.Result{RequeueAfter: 30 * time.Minute}))
}

// A request may have been created in the future, because the clock of the API server is ahead of ours.
func TestRequestFromTheFutureWaitsNoLongerThanConfigured(t *testing.T) {
	g := NewWithT(t)
	csr := waits(t)
	r := reconcilerOf(fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(csr).Build())
	r.Clock = testclock.NewFakePassiveClock(csr.CreationTimestamp.Add(-time.Hour))
	r.Rules.Own.WaitForObjects = &metav1.Duration{Duration: time.Minute}
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "c"}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result).To(Equal(ctrl.Result{RequeueAfter: time.Minute}))
}

// The deletion of a request removes it from the memory of the controller.
func TestDeletionsPassWhereSomethingIsRemembered(t *testing.T) {
	g := NewWithT(t)
	deleted := stored("")
	g.Expect((&Reconciler{}).concerns(deleted, nil)).To(BeFalse())
	g.Expect((&Reconciler{Observed: &Observed{}}).concerns(deleted, nil)).To(BeTrue())
	g.Expect((&Reconciler{Quota: &Quota{}}).concerns(deleted, nil)).To(BeTrue())
}

//go:build e2e

package faults_test

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

const webhookServer = "webhook-server"

// ending replaces the serving certificate by one that is valid for only five more seconds.
func ending() fault {
	return fault{
		name:     "serving certificate of webhook-server ends in 5 s",
		answered: "it is renewed before it has ended",
		inject:   func(ctx context.Context) { endCertificate(ctx, 5*time.Second) },
		during: func(ctx context.Context) {
			GinkgoHelper()
			Eventually(ctx, func() time.Duration { return left(ctx) }).Should(BeNumerically(">", time.Hour))
			pause(ctx, 6*time.Second) // the replaced certificate has expired
		},
	}
}

// ended replaces the serving certificate by an expired one while no replica runs.
func ended() fault {
	return fault{
		name: "serving certificate of webhook-server ended while no replica ran",
		inject: func(ctx context.Context) {
			GinkgoHelper()
			DeferCleanup(func(ctx SpecContext) { scale(ctx, 2) }, NodeTimeout(limit))
			scale(ctx, 0)
			Eventually(ctx, func() ([]corev1.Pod, error) { return c.Pods(ctx, webhookServer) }).WithTimeout(cluster.RolloutPatience).
				Should(BeEmpty())
			endCertificate(ctx, -time.Second)
			scale(ctx, 2)
		},
		during: func(ctx context.Context) {
			GinkgoHelper()
			Expect(c.RolledOut(ctx, webhookServer)).To(Succeed())
			Expect(left(ctx)).To(BeNumerically(">", time.Hour))
		},
	}
}

func scale(ctx context.Context, replicas int) {
	GinkgoHelper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.SystemNamespace, Name: "espalier-" + webhookServer}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	Expect(c.Client.Patch(ctx, deployment, patch)).To(Succeed())
}

// certificates returns the Secret with webhook-server's certificate, by its documented name.
func certificates(ctx context.Context) *corev1.Secret {
	GinkgoHelper()
	secret := &corev1.Secret{}
	Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: cluster.SystemNamespace, Name: "espalier-webhook-server"}, secret)).To(Succeed())
	return secret
}

// left returns the remaining validity of the certificate in the Secret.
func left(ctx context.Context) time.Duration {
	GinkgoHelper()
	return parse(certificates(ctx).Data["tls.crt"]).NotAfter.Sub(clock.RealClock{}.Now())
}

func parse(data []byte) *x509.Certificate {
	GinkgoHelper()
	block, _ := pem.Decode(data)
	Expect(block).NotTo(BeNil())
	certificate, err := x509.ParseCertificate(block.Bytes)
	Expect(err).NotTo(HaveOccurred())
	return certificate
}

// endCertificate issues another certificate for the serving key, by the same authority. The certificate is valid for the duration in.
func endCertificate(ctx context.Context, in time.Duration) {
	GinkgoHelper()
	secret := certificates(ctx)
	served, authority := parse(secret.Data["tls.crt"]), parse(secret.Data["authority.crt"])
	block, _ := pem.Decode(secret.Data["authority.key"])
	Expect(block).NotTo(BeNil())
	key, err := x509.ParseECPrivateKey(block.Bytes)
	Expect(err).NotTo(HaveOccurred())
	now := clock.RealClock{}.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: served.Subject, NotBefore: now.Add(-3 * time.Hour), NotAfter: now.Add(in),
		DNSNames: served.DNSNames, IPAddresses: served.IPAddresses, KeyUsage: served.KeyUsage, ExtKeyUsage: served.ExtKeyUsage,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, served.PublicKey, key)
	Expect(err).NotTo(HaveOccurred())
	secret.Data["tls.crt"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	Expect(c.Client.Update(ctx, secret)).To(Succeed())
}

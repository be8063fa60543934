package virtual

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// An aborted rotation leads back to an authority that may have signed certificates before the rotation.
func TestLastCertificateOfAGardenletIsTheProof(t *testing.T) {
	g := NewWithT(t)
	source := secretconfig.RandomSource(time.Unix(1_800_000_000, 0))
	source.RSAKey = func(int) (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 1024) } // longer keys take long
	authority := func(name string) (*secretconfig.Authority, *x509.Certificate) {
		data, err := secretconfig.Certificate{Name: name, CommonName: name, Type: secretconfig.CA}.Generate(source)
		g.Expect(err).NotTo(HaveOccurred())
		parsed, err := secretconfig.ParseAuthority(data)
		g.Expect(err).NotTo(HaveOccurred())
		certificate, err := secretconfig.ParseCertificate(data["ca.crt"])
		g.Expect(err).NotTo(HaveOccurred())
		return parsed, certificate
	}
	former, is := authority("former")
	aborted, _ := authority("aborted")
	request := func(user string, second int64, signer *secretconfig.Authority) certificatesv1.CertificateSigningRequest {
		csr := certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Unix(second, 0)}}
		if signer != nil {
			data, err := secretconfig.Certificate{Name: user, CommonName: user, Type: secretconfig.Client, SigningCA: signer}.Generate(source)
			g.Expect(err).NotTo(HaveOccurred())
			csr.Status.Certificate = data["tls.crt"]
		}
		return csr
	}
	const seed = "gardener.cloud:system:seed:"
	g.Expect(lastCertifiedBy(is, []certificatesv1.CertificateSigningRequest{
		request(seed+"never", 2, aborted), request(seed+"never", 1, former), request(seed+"never", 3, nil),
		request(seed+"back", 1, former), request(seed+"back", 2, aborted), request(seed+"back", 3, former),
		request(seed+"same-second", 2, former), request(seed+"same-second", 2, aborted),
		request("someone", 1, former),
	})).To(Equal([]string{"back", "same-second"}))
}

func TestRenewalInASeed(t *testing.T) {
	const operation, progress = "gardener.cloud/operation", "espalier.dev/renew-kubeconfig"
	request := map[string]string{operation: "renew-kubeconfig", progress: "new requested"}
	marked := func(progressOf, of string) map[string]string {
		return map[string]string{progress: progressOf, operation: of}
	}
	requested, renewed := map[string]string{progress: "new requested"}, map[string]string{progress: "new renewed"}
	for sentence, tc := range map[string]struct {
		annotations    map[string]string
		deleted        bool
		anew, unproven bool
		unawaited      bool
		want           map[string]string
		problem        string
	}{
		"it is requested": {want: request, problem: "it was requested"},
		"it is requested again in a new rotation": {
			annotations: map[string]string{progress: "old renewed"}, want: request, problem: "it was requested",
		},
		"a request for another rotation that was not carried out": {
			annotations: map[string]string{progress: "old requested"}, want: request, problem: "it was requested",
		},
		"it waits for the gardenlet": {
			annotations: request, problem: "has not removed the annotation gardener.cloud/operation=renew-kubeconfig",
		},
		"it waits for another operation": {
			annotations: map[string]string{operation: "reconcile"}, problem: "already annotated with gardener.cloud/operation=reconcile",
		},
		"it waits for the same operation of a user, which may have begun with the former credential": {
			annotations: map[string]string{operation: "renew-kubeconfig"}, problem: "already annotated with ",
		},
		"it waits for a deletion":             {deleted: true, problem: "it is being deleted"},
		"it is done":                          {annotations: requested, want: renewed},
		"it is done during another operation": {annotations: marked("new requested", "reconcile"), want: renewed},
		"it was done":                         {annotations: marked("new renewed", "reconcile")},
		"it waits for the proof":              {annotations: requested, unproven: true, problem: "has signed no client certificate"},
		"a request is enough":                 {annotations: request, unawaited: true},
		"a new attempt does not wait for proof": {
			annotations: requested, unproven: true, anew: true, want: request, problem: "it was requested",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			seed := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "local", Annotations: tc.annotations}}
			if tc.deleted {
				seed.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			}
			r := renewal{operation: "renew-kubeconfig", noun: "gardenlet kubeconfig", proven: true, unawaited: tc.unawaited}
			annotations, problem := r.next(seed, "new", tc.anew, !tc.unproven)
			g.Expect(annotations).To(Equal(tc.want))
			if tc.problem == "" {
				g.Expect(problem).To(BeEmpty())
				return
			}
			g.Expect(problem).To(And(
				HavePrefix(`renewing "gardenlet kubeconfig" secrets for seed "local" is not yet completed: `), ContainSubstring(tc.problem),
			))
		})
	}
}

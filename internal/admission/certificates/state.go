package certificates

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/keyutil"
)

// SecretType marks Secrets of this package. A Secret of another type belongs to another client and is never written.
const SecretType corev1.SecretType = "espalier.dev/webhook-certificates"

// Keys of the Secret. Which of them are present shows the phase of a rotation; see the package comment.
const (
	keyServingCertificate   = "tls.crt"
	keyServingKey           = "tls.key"
	keyAuthorityCertificate = "authority.crt"
	keyAuthorityKey         = "authority.key"
	keyNextCertificate      = "next-authority.crt"
	keyNextKey              = "next-authority.key"
	keyRetired              = "retired-authorities.crt"
	keyRetiredUntil         = "retired-until"
	keySignedUntil          = "signed-until"
	keyBundle               = "ca.crt"
)

// state is the content of the Secret.
type state struct {
	// authority is the authority that signed the serving certificate.
	authority pair
	// serving is the certificate that servers present, and its key.
	serving pair
	// signedUntil is the latest expiry of all certificates that the authority has signed. A replica could still serve an earlier certificate
	// of this authority. If validities were shortened since, that certificate expires later than the certificate in the field serving.
	signedUntil time.Time
	// next is the announced authority, which API servers trust but which signs nothing yet; nil if none is announced.
	next *pair
	// retired contains earlier authorities, which stay in the bundle until retiredUntil, because a replica could still serve a certificate
	// that one of them signed.
	retired      []*x509.Certificate
	retiredUntil time.Time
}

// bundle returns the authorities that clients must trust, oldest first. So the bundle stays the same when the next authority replaces the
// current one, and no configuration has to be written.
func (s *state) bundle() []byte {
	trusted := append([]*x509.Certificate{s.authority.certificate}, s.retired...)
	if s.next != nil {
		trusted = append(trusted, s.next.certificate)
	}
	slices.SortStableFunc(trusted, func(a, b *x509.Certificate) int {
		if order := a.NotBefore.Compare(b.NotBefore); order != 0 {
			return order
		}
		return bytes.Compare(a.Raw, b.Raw)
	})
	return encodeCertificates(slices.CompactFunc(trusted, (*x509.Certificate).Equal)...)
}

// errForeign reports a Secret of another client.
var errForeign = errors.New("it belongs to another program")

// decode reads a Secret. The error wraps errForeign if the Secret belongs to another client: then it must not be written.
func decode(secret *corev1.Secret) (*state, error) {
	fail := func(err error) (*state, error) {
		return nil, fmt.Errorf("read Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	if secret.Type != SecretType {
		return fail(fmt.Errorf("its type is %q instead of %q: %w; delete it, or name another Secret", secret.Type, SecretType, errForeign))
	}
	s := state{}
	var err error
	if s.serving, err = decodePair(secret.Data[keyServingCertificate], secret.Data[keyServingKey]); err != nil {
		return fail(fmt.Errorf("%s and %s: %w", keyServingCertificate, keyServingKey, err))
	}
	if s.authority, err = decodePair(secret.Data[keyAuthorityCertificate], secret.Data[keyAuthorityKey]); err != nil {
		return fail(fmt.Errorf("%s and %s: %w", keyAuthorityCertificate, keyAuthorityKey, err))
	}
	if err = s.serving.certificate.CheckSignatureFrom(s.authority.certificate); err != nil {
		return fail(fmt.Errorf("%s is not signed by %s: %w", keyServingCertificate, keyAuthorityCertificate, err))
	}
	s.signedUntil = s.serving.certificate.NotAfter
	if text := secret.Data[keySignedUntil]; len(text) > 0 {
		var until time.Time
		if until, err = time.Parse(time.RFC3339, string(text)); err != nil {
			return fail(fmt.Errorf("%s: %w", keySignedUntil, err))
		}
		s.signedUntil = latest(s.signedUntil, until)
	}
	if len(secret.Data[keyNextCertificate]) > 0 {
		var next pair
		if next, err = decodePair(secret.Data[keyNextCertificate], secret.Data[keyNextKey]); err != nil {
			return fail(fmt.Errorf("%s and %s: %w", keyNextCertificate, keyNextKey, err))
		}
		s.next = &next
	}
	if s.retired, err = decodeCertificates(secret.Data[keyRetired]); err != nil {
		return fail(fmt.Errorf("%s: %w", keyRetired, err))
	}
	if len(s.retired) > 0 {
		if s.retiredUntil, err = time.Parse(time.RFC3339, string(secret.Data[keyRetiredUntil])); err != nil {
			return fail(fmt.Errorf("%s: %w", keyRetiredUntil, err))
		}
	}
	return &s, nil
}

// encode returns the Secret that contains the state.
func (s *state) encode(namespace, name string) (*corev1.Secret, error) {
	data := map[string][]byte{
		keyServingCertificate:   encodeCertificates(s.serving.certificate),
		keyAuthorityCertificate: encodeCertificates(s.authority.certificate),
		keySignedUntil:          []byte(s.signedUntil.UTC().Format(time.RFC3339)),
		keyBundle:               s.bundle(),
	}
	keys := map[string]pair{keyServingKey: s.serving, keyAuthorityKey: s.authority}
	if s.next != nil {
		data[keyNextCertificate] = encodeCertificates(s.next.certificate)
		keys[keyNextKey] = *s.next
	}
	for key, value := range keys {
		encoded, err := keyutil.MarshalPrivateKeyToPEM(value.key)
		if err != nil {
			return nil, fmt.Errorf("encode key: %w", err)
		}
		data[key] = encoded
	}
	if len(s.retired) > 0 {
		data[keyRetired] = encodeCertificates(s.retired...)
		data[keyRetiredUntil] = []byte(s.retiredUntil.UTC().Format(time.RFC3339))
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Type:       SecretType,
		Data:       data,
	}, nil
}

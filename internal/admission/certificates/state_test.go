package certificates

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

func TestASecretHoldsEveryPhase(t *testing.T) {
	r := yearly()
	fresh := created(t, r)
	announced := carried(t, r, announce, facts{state: fresh, now: at(600 * time.Minute)})
	used := carried(t, r, use, facts{state: announced, now: at(601 * time.Minute)})
	for name, s := range map[string]*state{
		"created": fresh, "announced": announced, "used": used,
		"forgotten": carried(t, r, forget, facts{state: used, now: at(700 * time.Minute)}),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			secret, err := s.encode("garden", "hooks")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(secret.Type).To(Equal(corev1.SecretType("espalier.dev/webhook-certificates")))
			g.Expect(secret.Data["ca.crt"]).To(Equal(s.bundle()))

			read, err := decode(secret)
			g.Expect(err).NotTo(HaveOccurred())
			again, err := read.encode("garden", "hooks")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(again).To(Equal(secret))
			g.Expect(read.serving.certificate.Equal(s.serving.certificate)).To(BeTrue())
		})
	}
}

func TestDecodeSaysWhatIsWrong(t *testing.T) {
	r := yearly()
	other := created(t, r)
	used := carried(t, r, use, facts{state: carried(t, r, announce, facts{state: created(t, r), now: start}), now: start})
	announced := carried(t, r, announce, facts{state: used, now: start})
	for name, tc := range map[string]struct {
		breakIt func(*corev1.Secret)
		want    string
		foreign bool
	}{
		"another type": {
			func(s *corev1.Secret) { s.Type = corev1.SecretTypeTLS },
			`read Secret garden/hooks: its type is "kubernetes.io/tls" instead of "espalier.dev/webhook-certificates": it belongs to another ` +
				`program; delete it, or name another Secret`,
			true,
		},
		"no data": {
			func(s *corev1.Secret) { s.Data = nil },
			`read Secret garden/hooks: tls.crt and tls.key: certificate: there are 0 instead of one`, false,
		},
		"garbage for a certificate": {
			func(s *corev1.Secret) { s.Data["tls.crt"] = []byte("garbage") },
			`read Secret garden/hooks: tls.crt and tls.key: certificate: it is not a PEM encoded certificate`, false,
		},
		"a key for a certificate": {
			func(s *corev1.Secret) { s.Data["authority.crt"] = s.Data["authority.key"] },
			`read Secret garden/hooks: authority.crt and authority.key: certificate: it is not a PEM encoded certificate`, false,
		},
		"garbage for a key": {
			func(s *corev1.Secret) { s.Data["tls.key"] = []byte("garbage") },
			`read Secret garden/hooks: tls.crt and tls.key: key: it is not PEM encoded`, false,
		},
		"a certificate for a key": {
			func(s *corev1.Secret) { s.Data["tls.key"] = s.Data["tls.crt"] },
			`read Secret garden/hooks: tls.crt and tls.key: key: it is not an ECDSA key`, false,
		},
		"a key of another certificate": {
			func(s *corev1.Secret) { s.Data["tls.key"] = s.Data["authority.key"] },
			`read Secret garden/hooks: tls.crt and tls.key: key: it belongs to another certificate`, false,
		},
		"a certificate of another authority": {
			func(s *corev1.Secret) { replace(t, s, other, "tls.crt", "tls.key") },
			`read Secret garden/hooks: tls.crt is not signed by authority.crt: x509: ECDSA verification failure`, false,
		},
		"a next authority without its key": {
			func(s *corev1.Secret) { delete(s.Data, "next-authority.key") },
			`read Secret garden/hooks: next-authority.crt and next-authority.key: key: it is not PEM encoded`, false,
		},
		"garbage among the retired": {
			func(s *corev1.Secret) {
				s.Data["retired-authorities.crt"] = append(s.Data["retired-authorities.crt"], 'x')
			},
			`read Secret garden/hooks: retired-authorities.crt: it is not a PEM encoded certificate`, false,
		},
		"retired without an end": {
			func(s *corev1.Secret) { s.Data["retired-until"] = []byte("soon") },
			`read Secret garden/hooks: retired-until: parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006"`, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			secret, err := announced.encode("garden", "hooks")
			g.Expect(err).NotTo(HaveOccurred())
			tc.breakIt(secret)
			_, err = decode(secret)
			g.Expect(err).To(MatchError(tc.want))
			g.Expect(errors.Is(err, errForeign)).To(Equal(tc.foreign))
		})
	}
}

// replace sets the given keys of a Secret to their values in another state.
func replace(t *testing.T, secret *corev1.Secret, from *state, keys ...string) {
	t.Helper()
	other, err := from.encode("garden", "hooks")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, key := range keys {
		secret.Data[key] = other.Data[key]
	}
}

package certificates

import (
	"bytes"
	"crypto/x509"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// start is the time at which every test begins; X.509 counts whole seconds.
var start = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func at(after time.Duration) time.Time { return start.Add(after) }

// yearly returns the rules of a usual configuration on a smaller scale: an authority is valid for 900 minutes, a certificate for 90.
func yearly() rules {
	return rules{
		name: "hooks", hosts: []string{"hooks.garden.svc", "hooks.garden.svc.cluster.local"},
		authority: 900 * time.Minute, certificate: 90 * time.Minute, settle: time.Minute,
	}
}

// created is the state that a first start leaves behind.
func created(t *testing.T, r rules) *state {
	t.Helper()
	return carried(t, r, create, facts{now: start})
}

func carried(t *testing.T, r rules, c change, f facts) *state {
	t.Helper()
	s, err := r.carryOut(c, f)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return s
}

func TestNext(t *testing.T) {
	r := yearly()
	fresh := created(t, r)
	announced := carried(t, r, announce, facts{state: fresh, now: at(600 * time.Minute)})
	renewed := carried(t, r, renew, facts{state: announced, now: at(600 * time.Minute)})
	used := carried(t, r, use, facts{state: renewed, now: at(601 * time.Minute)})
	late := carried(t, r, renew, facts{state: fresh, now: at(880 * time.Minute)})
	other := r
	other.hosts = []string{"hooks.garden.svc", "10.0.0.1"}
	shorter := r
	shorter.certificate = 30 * time.Minute
	longer := r
	longer.certificate = 300 * time.Minute
	youngAuthority := r
	youngAuthority.authority = 60 * time.Minute

	for name, tc := range map[string]struct {
		rules rules
		facts facts
		want  change
		look  time.Duration // after start, if no change is due
	}{
		"nothing exists": {r, facts{now: start}, create, 0},
		"the Secret is gone, and this process remembers":         {r, facts{remembered: fresh, now: at(time.Minute)}, restore, 0},
		"the Secret is gone, and what is remembered has expired": {r, facts{remembered: fresh, now: at(900 * time.Minute)}, create, 0},
		"everything is new": {r, facts{state: fresh, now: at(time.Second)}, nothing, 60 * time.Minute},
		"a moment before two thirds of the certificate's life": {
			r, facts{state: fresh, now: at(60*time.Minute - 1)}, nothing, 60 * time.Minute,
		},
		"two thirds of the certificate's life":                              {r, facts{state: fresh, now: at(60 * time.Minute)}, renew, 0},
		"the certificate has expired":                                       {r, facts{state: fresh, now: at(95 * time.Minute)}, renew, 0},
		"two thirds of the authority's life, before the certificate's turn": {r, facts{state: fresh, now: at(600 * time.Minute)}, announce, 0},
		"the authority has expired":                                         {r, facts{state: fresh, now: at(900 * time.Minute)}, create, 0},
		"announced, and not in every configuration": {
			r, facts{state: renewed, now: at(602 * time.Minute)}, nothing, 660 * time.Minute,
		},
		"announced, and in every configuration for less than the settle time": {
			r, facts{state: renewed, distributed: at(601 * time.Minute), now: at(602*time.Minute - 1)}, nothing, 602 * time.Minute,
		},
		"announced, and in every configuration for the settle time": {
			r, facts{state: renewed, distributed: at(601 * time.Minute), now: at(602 * time.Minute)}, use, 0,
		},
		"announced, and a certificate of the old authority is due meanwhile": {
			r, facts{state: announced, now: at(601 * time.Minute)}, renew, 0,
		},
		"announced so long ago that the next authority is old": {
			yearlyBut(func(r *rules) { r.authority = 300 * time.Minute }), facts{state: renewed, now: at(800 * time.Minute)}, announce, 0,
		},
		"used, and the last certificate of the old authority lives": {
			r, facts{state: used, now: at(602 * time.Minute)}, nothing, 661 * time.Minute,
		},
		"used, and the last certificate of the old authority ends before that": {
			longer, facts{state: used, now: at(602 * time.Minute)}, nothing, 661 * time.Minute,
		},
		"used, and the last certificate of the old authority has expired": {
			r, facts{state: carried(t, r, renew, facts{state: used, now: at(661 * time.Minute)}), now: at(690 * time.Minute)}, forget, 0,
		},
		"renewing would gain nothing, because the authority ends": {
			r, facts{state: announcedAgain(t, late), now: at(895 * time.Minute)}, nothing, 900 * time.Minute,
		},
		"the certificate is for other hosts": {other, facts{state: fresh, now: at(time.Second)}, renew, 0},
		"certificates are to be shorter, and this one has lived long enough": {
			shorter, facts{state: fresh, now: at(20 * time.Minute)}, renew, 0,
		},
		"certificates are to be shorter, and this one is young": {
			shorter, facts{state: fresh, now: at(19 * time.Minute)}, nothing, 20 * time.Minute,
		},
		"certificates are to be longer, and this one keeps its own time": {
			longer, facts{state: fresh, now: at(19 * time.Minute)}, nothing, 60 * time.Minute,
		},
		"authorities are to be shorter": {
			youngAuthority, facts{state: fresh, now: at(40 * time.Minute)}, announce, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, look := tc.rules.nextChange(tc.facts)
			g.Expect(got).To(Equal(tc.want))
			if tc.want == nothing {
				g.Expect(look).To(BeTemporally("==", at(tc.look)))
			}
		})
	}
}

func yearlyBut(modify func(*rules)) rules {
	r := yearly()
	modify(&r)
	return r
}

// announcedAgain returns the state with a new next authority, made shortly before the end of the current one.
func announcedAgain(t *testing.T, s *state) *state {
	t.Helper()
	return carried(t, yearly(), announce, facts{state: s, now: at(881 * time.Minute)})
}

func TestCarryOut(t *testing.T) {
	r := yearly()
	fresh := created(t, r)

	t.Run("what is created is valid for its hosts, from an hour ago, and no longer than asked for", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(verify(fresh, fresh.bundle(), start)).To(Succeed())
		g.Expect(verify(fresh, fresh.bundle(), at(-time.Hour))).To(Succeed())
		g.Expect(verify(fresh, fresh.bundle(), at(90*time.Minute+time.Second))).NotTo(Succeed())
		g.Expect(fresh.serving.certificate.DNSNames).To(Equal([]string{"hooks.garden.svc", "hooks.garden.svc.cluster.local"}))
		g.Expect(fresh.serving.certificate.NotAfter).To(Equal(at(90 * time.Minute)))
		g.Expect(fresh.authority.certificate.NotAfter).To(Equal(at(900 * time.Minute)))
		g.Expect(fresh.authority.certificate.IsCA).To(BeTrue())
		g.Expect(fresh.serving.certificate.IsCA).To(BeFalse())
		g.Expect(fresh.serving.forTLS().Certificate).To(Equal([][]byte{fresh.serving.certificate.Raw}))
	})
	t.Run("a certificate does not outlive its authority", func(t *testing.T) {
		g := NewWithT(t)
		late := carried(t, r, renew, facts{state: fresh, now: at(850 * time.Minute)})
		g.Expect(late.serving.certificate.NotAfter).To(Equal(at(900 * time.Minute)))
		g.Expect(late.authority).To(Equal(fresh.authority))
	})
	t.Run("an announced authority is trusted and not used", func(t *testing.T) {
		g := NewWithT(t)
		after := carried(t, r, announce, facts{state: fresh, now: at(600 * time.Minute)})
		g.Expect(after.serving).To(Equal(fresh.serving))
		g.Expect(after.authority).To(Equal(fresh.authority))
		g.Expect(after.bundle()).To(Equal(encodeCertificates(fresh.authority.certificate, after.next.certificate)))
		g.Expect(fresh.next).To(BeNil(), "the state before was changed")
	})
	t.Run("a used authority signs, the one before is trusted as long as its certificate lives, and the bundle stays", func(t *testing.T) {
		g := NewWithT(t)
		before := carried(t, r, announce, facts{state: fresh, now: at(40 * time.Minute)})
		after := carried(t, r, use, facts{state: before, now: at(41 * time.Minute)})
		g.Expect(after.authority).To(Equal(*before.next))
		g.Expect(after.next).To(BeNil())
		g.Expect(after.retired).To(Equal([]*x509.Certificate{fresh.authority.certificate}))
		g.Expect(after.retiredUntil).To(Equal(at(90 * time.Minute)))
		g.Expect(after.bundle()).To(Equal(before.bundle()))
		g.Expect(verify(after, encodeCertificates(before.next.certificate), at(42*time.Minute))).To(Succeed())
		g.Expect(verify(after, encodeCertificates(fresh.authority.certificate), at(42*time.Minute))).NotTo(Succeed())
	})
	t.Run("a forgotten authority is no longer trusted", func(t *testing.T) {
		g := NewWithT(t)
		before := carried(t, r, announce, facts{state: fresh, now: at(40 * time.Minute)})
		used := carried(t, r, use, facts{state: before, now: at(41 * time.Minute)})
		after := carried(t, r, forget, facts{state: used, now: at(90 * time.Minute)})
		g.Expect(after.bundle()).To(Equal(encodeCertificates(before.next.certificate)))
		g.Expect(used.retired).To(HaveLen(1), "the state before was changed")
	})
	t.Run("what is remembered is restored with a new authority announced", func(t *testing.T) {
		g := NewWithT(t)
		after := carried(t, r, restore, facts{remembered: fresh, now: at(time.Minute)})
		g.Expect(after.serving).To(Equal(fresh.serving))
		g.Expect(after.next).NotTo(BeNil())
		again := carried(t, r, restore, facts{remembered: after, now: at(2 * time.Minute)})
		g.Expect(again.next).To(Equal(after.next), "a second deletion must not start over")
	})
}

// verify checks the serving certificate of a state like an API server that trusts the bundle.
func verify(s *state, bundle []byte, now time.Time) error {
	return trusts(bundle, s.serving.certificate, now)
}

func trusts(bundle []byte, certificate *x509.Certificate, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := certificate.Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: now, DNSName: "hooks.garden.svc", KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}

// TestPlanNeverFails runs the plan for many rotations under changing validities. Configurations and replicas are as late as is allowed.
// Every bundle that an API server may still use must trust every certificate that a replica may still serve.
func TestPlanNeverFails(t *testing.T) {
	for name, r := range map[string]rules{
		"a usual configuration":                       yearly(),
		"certificates as long as authorities":         yearlyBut(func(r *rules) { r.certificate = r.authority }),
		"certificates that would outlive authorities": yearlyBut(func(r *rules) { r.certificate = 3 * r.authority }),
		"the shortest validities that can be set": yearlyBut(func(r *rules) {
			r.authority, r.certificate, r.settle = time.Minute, time.Minute, 10*time.Second
		}),
		"authorities just longer than certificates":     yearlyBut(func(r *rules) { r.authority = r.certificate + time.Minute }),
		"settling that takes as long as it ever can be": yearlyBut(func(r *rules) { r.settle = r.authority / 6 }),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := facts{now: start}
			var everServed []*x509.Certificate
			oldBundle := []byte(nil) // API servers may still use it: the new bundle is distributed for less than the settle time
			changes := map[change]int{}
			for range 200 {
				due, look := r.nextChange(f)
				changes[due]++
				if due == nothing {
					if f.distributed.IsZero() {
						f.distributed = f.now // All configurations are written, but API servers may not have learned of it.
						continue
					}
					g.Expect(look).To(BeTemporally(">", f.now), "it would never sleep")
					f.now = look
					if isReached(f.now, f.distributed.Add(r.settle)) {
						oldBundle = f.state.bundle()
					}
					continue
				}
				before := f.state
				f.state = carried(t, r, due, f)
				if before == nil || !bytes.Equal(before.bundle(), f.state.bundle()) {
					f.distributed = time.Time{}
				}
				if before == nil {
					oldBundle = f.state.bundle()
				}
				if before == nil || before.serving.certificate != f.state.serving.certificate {
					everServed = append(everServed, f.state.serving.certificate)
				}
				for _, certificate := range everServed {
					if !valid(certificate, f.now) {
						continue
					}
					g.Expect(trusts(oldBundle, certificate, f.now)).To(Succeed(), "after %q", due)
					g.Expect(trusts(f.state.bundle(), certificate, f.now)).To(Succeed(), "after %q", due)
				}
				g.Expect(valid(f.state.serving.certificate, f.now)).To(BeTrue())
			}
			g.Expect(changes[create]).To(Equal(1))
			g.Expect(changes[use]).To(BeNumerically(">=", 3))
			g.Expect(changes[forget]).To(BeNumerically(">=", 3))
		})
	}
}

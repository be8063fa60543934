package certificates

import (
	"crypto/x509"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestWhatIsNotValidYetIsReplaced(t *testing.T) {
	r := yearly()
	fresh := created(t, r)
	const later = 2000 * time.Minute
	ahead := carried(t, r, create, facts{state: fresh, now: at(later)})
	renewedAhead := carried(t, r, renew, facts{state: fresh, now: at(300 * time.Minute)})
	announcedAhead := carried(t, r, announce, facts{state: fresh, now: at(700 * time.Minute)})
	for name, tc := range map[string]struct {
		facts facts
		want  change
	}{
		"an authority of a time to come":                                   {facts{state: ahead, now: start}, create},
		"an authority of a time to come, and a valid one is remembered":    {facts{state: ahead, remembered: fresh, now: start}, restore},
		"an authority of a time to come, and what is remembered is as bad": {facts{state: ahead, remembered: ahead, now: start}, create},
		"an authority that has expired, and a valid one is remembered":     {facts{state: fresh, remembered: ahead, now: at(later)}, restore},
		"an authority of less than an hour to come":                        {facts{state: ahead, now: at(later - 59*time.Minute)}, nothing},
		"a certificate of a time to come":                                  {facts{state: renewedAhead, now: start}, renew},
		"a next authority of a time to come":                               {facts{state: announcedAhead, now: start}, announce},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := r.nextChange(tc.facts)
			NewWithT(t).Expect(got).To(Equal(tc.want))
		})
	}
	t.Run("what is replaced stays trusted for as long as others may serve it", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(trusts(ahead.bundle(), fresh.serving.certificate, start)).To(Succeed())
		g.Expect(ahead.retiredUntil).To(Equal(at(later + 90*time.Minute)))
		back := carried(t, r, restore, facts{state: ahead, remembered: fresh, now: at(time.Minute)})
		g.Expect(back.authority).To(Equal(fresh.authority))
		g.Expect(back.next).NotTo(BeNil())
		g.Expect(back.bundle()).To(Equal(encodeCertificates(fresh.authority.certificate, back.next.certificate, ahead.authority.certificate)),
			"each authority once")
	})
}

func TestWhatIsIssuedBeginsInThePast(t *testing.T) {
	for name, tc := range map[string]struct{ validity, want time.Duration }{
		"a year":     {365 * 24 * time.Hour, time.Hour},
		"two hours":  {2 * time.Hour, time.Hour},
		"an hour":    {time.Hour, time.Hour},
		"less":       {40 * time.Minute, 40 * time.Minute},
		"much less":  {6 * time.Second, 6 * time.Second},
		"odd, short": {7 * time.Second, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			authority, err := newAuthority("hooks", tc.validity, start)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(authority.certificate.NotBefore).To(Equal(at(-tc.want)))
			g.Expect(authority.certificate.NotAfter).To(Equal(at(tc.validity)))
			g.Expect(authority.issued()).To(Equal(start))
			g.Expect(authority.lifetime()).To(Equal(tc.validity))
		})
	}
}

// TestShortenedValiditiesDoNotEndTrustEarlier lowers the validity of certificates. A replica may still serve a certificate with the longer
// validity when later certificates have long expired.
func TestShortenedValiditiesDoNotEndTrustEarlier(t *testing.T) {
	g := NewWithT(t)
	long := yearlyBut(func(r *rules) { r.certificate = 600 * time.Minute })
	short := yearlyBut(func(r *rules) { r.certificate = 10 * time.Minute })
	first := created(t, long)
	renewed := carried(t, short, renew, facts{state: first, now: at(20 * time.Minute)})
	secret, err := renewed.encode("garden", "hooks")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(secret.Data["signed-until"])).To(Equal("2026-03-01T22:00:00Z"))
	read, err := decode(secret)
	g.Expect(err).NotTo(HaveOccurred())
	announced := carried(t, short, announce, facts{state: read, now: at(21 * time.Minute)})
	used := carried(t, short, use, facts{state: announced, now: at(22 * time.Minute)})

	g.Expect(used.retiredUntil).To(BeTemporally("==", at(600*time.Minute)))
	g.Expect(used.signedUntil).To(Equal(at(32*time.Minute)), "the new authority has signed nothing else")
	now := carried(t, short, renew, facts{state: used, now: at(599 * time.Minute)})
	due, _ := short.nextChange(facts{state: now, now: at(600*time.Minute - time.Second)})
	g.Expect(due).To(Equal(nothing))
	g.Expect(trusts(now.bundle(), first.serving.certificate, at(599*time.Minute))).To(Succeed())
	due, _ = short.nextChange(facts{state: now, now: at(600 * time.Minute)})
	g.Expect(due).To(Equal(forget))

	delete(secret.Data, "signed-until")
	older, err := decode(secret)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(older.signedUntil).To(Equal(at(30*time.Minute)), "a Secret without it tells of its certificate only")
	secret.Data["signed-until"] = []byte("soon")
	_, err = decode(secret)
	g.Expect(err).To(MatchError(HavePrefix("read Secret garden/hooks: signed-until: parsing time")))
}

func TestMemory(t *testing.T) {
	g := NewWithT(t)
	var m memory
	g.Expect(m.newest()).To(BeNil())
	g.Expect(m.trustworthy(start)).To(BeNil())
	r := yearly()
	first := created(t, r)
	g.Expect(m.add(first)).To(BeNil())
	ahead := carried(t, r, create, facts{now: at(2000 * time.Minute)})
	g.Expect(m.add(ahead)).To(BeIdenticalTo(first))
	g.Expect(m.newest()).To(BeIdenticalTo(ahead))
	g.Expect(m.trustworthy(start)).To(BeIdenticalTo(first))
	g.Expect(m.servable(at(2000 * time.Minute))).To(BeIdenticalTo(ahead))
	again := *first
	m.add(&again)
	g.Expect(m.states).To(Equal([]*state{&again, ahead}), "the same certificate is remembered once")
	for range 20 {
		m.add(created(t, r))
	}
	g.Expect(m.states).To(HaveLen(8))
}

// TestAClockThatIsWrongForAWhile lets the clock of the replica that writes go far ahead and back. Its writes meanwhile must not
// make API servers distrust replicas whose clocks are right, and it must recover at once.
func TestAClockThatIsWrongForAWhile(t *testing.T) {
	for name, ahead := range map[string]time.Duration{
		"beyond the authority": 3000 * time.Minute, "beyond the certificate": 300 * time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			g, w := NewWithT(t), newWorld(t)
			k := w.keeper(nil)
			shown := func() *x509.Certificate {
				certificate, err := k.GetCertificate(nil)
				g.Expect(err).NotTo(HaveOccurred())
				return certificate.Leaf
			}
			w.work(k)
			_, before := w.secret()

			w.clock.SetTime(at(ahead))
			_, err := k.GetCertificate(nil)
			g.Expect(err).To(MatchError(ContainSubstring("is not valid now, but from 2026-03-01T11:00:00Z to 2026-03-01T13:30:00Z")))
			w.work(k)
			secret, _ := w.secret()
			k.read(secret) // as the watch does
			g.Expect(valid(shown(), at(ahead))).To(BeTrue())
			g.Expect(trusts([]byte(w.bundles()[0]), before.serving.certificate, at(time.Minute))).To(Succeed(), "others still serve it")

			w.clock.SetTime(at(time.Minute))
			g.Expect(shown().Equal(before.serving.certificate)).To(BeTrue(), "what is valid is remembered")
			w.work(k)
			_, after := w.secret()
			g.Expect(after.authority).To(Equal(before.authority), "no client must learn of another one")
			g.Expect(valid(after.serving.certificate, at(time.Minute))).To(BeTrue())
			g.Expect(trusts([]byte(w.bundles()[0]), after.serving.certificate, at(time.Minute))).To(Succeed())

			restarted := w.keeper(nil)
			w.work(restarted)
			_, last := w.secret()
			g.Expect(last.serving).To(Equal(after.serving))
		})
	}
}

func TestAProcessThatHasJustStartedReplacesAnAuthorityOfATimeToCome(t *testing.T) {
	g, w := NewWithT(t), newWorld(t)
	w.clock.SetTime(at(3000 * time.Minute))
	w.work(w.keeper(nil))
	_, ahead := w.secret()
	w.clock.SetTime(start)
	k := w.keeper(nil)
	secret, _ := w.secret()
	k.read(secret)
	_, err := k.GetCertificate(nil)
	g.Expect(err).To(MatchError(ContainSubstring("is not valid now, but from 2026-03-03T13:00:00Z")), "it is not ready")

	w.work(k)

	secret, after := w.secret()
	k.read(secret)
	g.Expect(after.authority.certificate.Equal(ahead.authority.certificate)).To(BeFalse())
	served, err := k.GetCertificate(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(trusts([]byte(w.bundles()[0]), served.Leaf, start)).To(Succeed())
}

package certificates

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"
)

// rules are the settings of the plan.
type rules struct {
	// name is the first part of the common names of authorities; hosts are the DNS names and IP addresses of certificates.
	name  string
	hosts []string
	// authority and certificate are the validities of new authorities and certificates.
	authority, certificate time.Duration
	// settle is how long a bundle must have been distributed before its next authority is used.
	settle time.Duration
}

// facts are the input of the plan.
type facts struct {
	// state is the content of the Secret; nil if it does not exist or cannot be read.
	state *state
	// remembered is the newest state that this process has read and whose authority is valid; nil if there is none.
	remembered *state
	// distributed is the time since which every configuration has the bundle of the state; zero if a configuration lacks it.
	distributed time.Time
	now         time.Time
}

// change is one write to the Secret.
type change string

// The changes. Their order in a rotation of the authority is announce, use, forget.
const (
	// nothing means that no write is due.
	nothing change = ""
	// create makes an authority and a certificate, because neither the Secret nor this process has a valid authority.
	create change = "create"
	// restore writes a remembered state to the Secret again, and announces a new authority unless the remembered state has announced one.
	// This change is due when a client has deleted or broken the Secret: a user deletes the Secret to get a new authority. It is also due
	// when a wrong clock has led to an authority in the Secret that is not valid now.
	restore change = "restore"
	// announce makes the next authority. From then on API servers trust it, but it signs nothing yet.
	announce change = "announce"
	// use makes the next authority sign the certificate, and retires the authority before it.
	use change = "use"
	// renew makes a new certificate under the same authority.
	renew change = "renew"
	// forget ends the trust in retired authorities.
	forget change = "forget"
)

// nextChange returns the change to write to the Secret now. If the returned change is the constant nothing, the caller calls nextChange
// again at the returned time, or when the Secret or a configuration changes.
func (r rules) nextChange(f facts) (change, time.Time) {
	s := f.state
	switch {
	case s != nil && valid(s.authority.certificate, f.now):
		return r.nextChangeOfValid(f)
	case f.remembered != nil && valid(f.remembered.authority.certificate, f.now):
		return restore, time.Time{}
	}
	return create, time.Time{}
}

// nextChangeOfValid returns the next change under an authority that is valid.
func (r rules) nextChangeOfValid(f facts) (change, time.Time) {
	s := f.state
	switch {
	case s.next == nil && isReached(f.now, s.authority.renewalTime(r.authority)):
		return announce, time.Time{}
	case s.next != nil && (isReached(f.now, s.next.renewalTime(r.authority)) || !valid(s.next.certificate, f.now)):
		return announce, time.Time{} // No bundle with it was distributed in time, and it is old by now; or it is not valid yet.
	case s.next != nil && !f.distributed.IsZero() && isReached(f.now, f.distributed.Add(r.settle)):
		return use, time.Time{}
	case r.mustRenew(s, f.now):
		return renew, time.Time{}
	case len(s.retired) > 0 && isReached(f.now, s.retiredUntil):
		return forget, time.Time{}
	}
	return nothing, r.nextChangeTime(f)
}

// mustRenew reports whether a new certificate would be better: the certificate lacks a host, is not valid yet, or has reached its renewal
// time. A certificate that has reached its renewal time stays if a new one would not expire later; but a certificate with a longer
// lifetime than the present setting is replaced.
func (r rules) mustRenew(s *state, now time.Time) bool {
	if !r.covers(s.serving.certificate) || now.Before(s.serving.certificate.NotBefore) {
		return true
	}
	// Towards the end of an authority, renewing changes nothing.
	gains := endOfCertificate(s.authority, r.certificate, now).Truncate(time.Second).After(s.serving.certificate.NotAfter)
	return isReached(now, s.serving.renewalTime(r.certificate)) && (gains || s.serving.lifetime() > r.certificate)
}

func (r rules) covers(certificate *x509.Certificate) bool {
	return !slices.ContainsFunc(r.hosts, func(host string) bool { return certificate.VerifyHostname(host) != nil })
}

// nextChangeTime returns the time at which the next change is due if nothing else changes before.
func (r rules) nextChangeTime(f facts) time.Time {
	s := f.state
	times := []time.Time{
		s.authority.renewalTime(r.authority), s.authority.certificate.NotAfter, s.serving.renewalTime(r.certificate), s.retiredUntil,
	}
	if s.next != nil {
		times = append(times, s.next.renewalTime(r.authority))
		if !f.distributed.IsZero() {
			times = append(times, f.distributed.Add(r.settle))
		}
	}
	first := s.authority.certificate.NotAfter
	for _, each := range times {
		if each.After(f.now) && each.Before(first) {
			first = each
		}
	}
	return first
}

// carryOut returns the state after a change. It does not modify its arguments.
func (r rules) carryOut(c change, f facts) (*state, error) {
	switch c {
	case create:
		return r.create(f)
	case restore:
		after := *f.remembered
		r.retireAuthorities(&after, f)
		if after.next != nil {
			return &after, nil
		}
		return r.announce(after, f.now)
	case announce:
		return r.announce(*f.state, f.now)
	case use:
		return r.use(*f.state, f.now)
	case renew:
		return r.renew(*f.state, f.now)
	case forget:
		after := *f.state
		after.retired, after.retiredUntil = nil, time.Time{}
		return &after, nil
	case nothing:
	}
	return f.state, nil
}

func (r rules) create(f facts) (*state, error) {
	authority, err := newAuthority(r.name, r.authority, f.now)
	if err != nil {
		return nil, fmt.Errorf("create authority: %w", err)
	}
	after := state{authority: authority}
	r.retireAuthorities(&after, f)
	return r.renew(after, f.now)
}

// retireAuthorities adds the authority in the Secret, and the authorities that were already retired there, to the retired authorities of
// after. By the clock of this process, the authority in the Secret is not valid. But this clock may be the wrong one, and other replicas
// may continue to serve certificates of these authorities.
func (r rules) retireAuthorities(after *state, f facts) {
	if f.state == nil {
		return
	}
	after.retired = append(slices.Clone(after.retired), f.state.retired...)
	after.retired = append(after.retired, f.state.authority.certificate)
	after.retiredUntil = latest(after.retiredUntil, f.state.retiredUntil, f.now.Add(r.certificate).UTC().Truncate(time.Second))
}

func (r rules) announce(s state, now time.Time) (*state, error) {
	next, err := newAuthority(r.name, r.authority, now)
	if err != nil {
		return nil, fmt.Errorf("create next authority: %w", err)
	}
	s.next = &next
	return &s, nil
}

func (r rules) use(s state, now time.Time) (*state, error) {
	s.retiredUntil = latest(s.retiredUntil, s.signedUntil)
	s.retired = append(slices.Clone(s.retired), s.authority.certificate)
	s.authority, s.next, s.signedUntil = *s.next, nil, time.Time{}
	return r.renew(s, now)
}

func (r rules) renew(s state, now time.Time) (*state, error) {
	serving, err := issue(s.authority, r.hosts, r.certificate, now)
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	s.serving = serving
	s.signedUntil = latest(s.signedUntil, serving.certificate.NotAfter)
	return &s, nil
}

// valid reports whether the time is within the validity of a certificate. It checks the begin too, because clocks can go back.
func valid(c *x509.Certificate, now time.Time) bool {
	return !now.Before(c.NotBefore) && now.Before(c.NotAfter)
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

func isReached(now, when time.Time) bool { return !now.Before(when) }

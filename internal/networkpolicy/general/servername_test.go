package general

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestNamesOfAPIServers(t *testing.T) {
	for address, want := range map[string]*ServerName{
		"https://api.example.com":      {Host: "api.example.com", Port: 443},
		"https://api.example.com:6443": {Host: "api.example.com", Port: 6443},
		"https://10.3.0.1:443":         nil,
		"https://[fd00::1]:443":        nil,
		"https:///":                    nil,
	} {
		t.Run(address, func(t *testing.T) {
			g := NewWithT(t)
			got, err := NewServerName(address, nil)
			g.Expect(err).NotTo(HaveOccurred())
			if want == nil {
				g.Expect(got).To(BeNil())
				return
			}
			g.Expect([]any{got.Host, got.Port}).To(Equal([]any{want.Host, want.Port}))
		})
	}
	g := NewWithT(t)
	_, err := NewServerName("https://api.example.com:99999", nil)
	g.Expect(err).To(MatchError(ContainSubstring("parse port of API server")))
}

func TestAddressesOfANameStayForSomeTime(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakeClock(time.Now())
	var answer []netip.Addr
	failure := errors.New("no server")
	name := &ServerName{Host: "api.example.com", Port: 443, Clock: clock, Resolve: func(context.Context, string) ([]netip.Addr, error) {
		return answer, failure
	}}
	known := func() []string {
		var all []string
		for _, each := range name.endpoints() {
			all = append(all, each.Address.String())
		}
		return all
	}
	step := func(after time.Duration, wantChange bool, want []string, addresses ...string) {
		t.Helper()
		clock.Step(after)
		answer, failure = nil, nil
		for _, each := range addresses {
			answer = append(answer, netip.MustParseAddr(each))
		}
		changed, err := name.lookUp(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(changed).To(Equal(wantChange))
		g.Expect(known()).To(Equal(want))
	}
	_, err := name.lookUp(t.Context())
	g.Expect(err).To(MatchError("look up api.example.com: no server"))
	failure = nil
	_, err = name.lookUp(t.Context())
	g.Expect(err).To(MatchError("look up api.example.com: no addresses"))
	g.Expect(known()).To(BeEmpty())

	both := []string{"192.0.2.1", "192.0.2.2"}
	step(0, true, []string{"192.0.2.1"}, "::ffff:192.0.2.1")
	step(time.Minute, true, both, "192.0.2.2")
	step(time.Minute, false, both, "192.0.2.1")
	step(9*time.Minute, true, []string{"192.0.2.1"}, "192.0.2.1")
	failure = errors.New("no server")
	_, err = name.lookUp(t.Context())
	g.Expect(err).To(HaveOccurred())
	g.Expect(known()).To(Equal([]string{"192.0.2.1"}))
}

func TestANameIsLookedUpAgain(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakeClock(time.Now())
	answers := make(chan []netip.Addr)
	name := &ServerName{Host: "api.example.com", Port: 443, Clock: clock, Resolve: func(ctx context.Context, _ string) ([]netip.Addr, error) {
		select {
		case answer := <-answers:
			return answer, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	changes, ended := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		name.follow(ctx, func() { changes <- struct{}{} })
	}()
	answers <- []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	<-changes
	clock.Step(lookupPeriod)
	answers <- []netip.Addr{netip.MustParseAddr("192.0.2.2")}
	<-changes
	g.Expect(name.endpoints()).To(HaveLen(2))
	cancel()
	<-ended
}

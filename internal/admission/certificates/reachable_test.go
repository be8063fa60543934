package certificates

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/test/local"
)

// listen serves with the certificate of a state until the test ends.
func listen(t *testing.T, s *state) string {
	t.Helper()
	config := &tls.Config{Certificates: []tls.Certificate{*s.serving.forTLS()}, MinVersion: tls.VersionTLS12}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			if secure, is := connection.(*tls.Conn); is {
				_ = secure.HandshakeContext(t.Context())
			}
			_ = connection.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return listener.Addr().String()
}

func TestDial(t *testing.T) {
	r := yearly()
	now := clock.RealClock{}.Now()
	s := carried(t, r, create, facts{now: now})
	other := carried(t, r, create, facts{now: now})
	address := listen(t, s)
	free, release, err := local.FreePort()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(release)
	unused := net.JoinHostPort("127.0.0.1", strconv.Itoa(free))
	for name, tc := range map[string]struct {
		address, server string
		bundle          []byte
		want            string
	}{
		"who is trusted": {address, "hooks.garden.svc", s.bundle(), ""},
		"another name": {
			address, "other.garden.svc", s.bundle(),
			"connect to " + address + ": tls: failed to verify certificate: x509: certificate is valid for hooks.garden.svc",
		},
		"another authority": {
			address, "hooks.garden.svc", other.bundle(),
			"connect to " + address + ": tls: failed to verify certificate: x509: certificate signed by unknown authority",
		},
		"no server listens": {
			unused, "hooks.garden.svc", s.bundle(), "connect to " + unused + ": dial tcp " + unused + ": connect: connection refused",
		},
		"no authority is trusted": {address, "hooks.garden.svc", nil, "connect to " + address + ": the bundle has no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Dial(t.Context(), tc.address, tc.server, tc.bundle)
			if tc.want == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
			} else {
				NewWithT(t).Expect(err).To(MatchError(HavePrefix(tc.want)))
			}
		})
	}
}

func TestConfigurationsBeginWhenTheServerIsReachable(t *testing.T) {
	g, w := NewWithT(t), newWorld(t)
	away := errors.New("no server answers")
	var bundles []string
	k := w.keeper(nil, func(o *Options) {
		o.Reachable = func(_ context.Context, bundle []byte) error {
			bundles = append(bundles, string(bundle))
			return away
		}
	})
	// The mutating configuration exists without webhooks, the validating one does not exist.
	g.Expect(w.admin.Create(t.Context(), mutating(w.name, nil))).To(Succeed())

	_, err := k.step(t.Context())
	g.Expect(err).To(MatchError("the webhook server cannot be reached yet: no server answers"))
	g.Expect(errors.Is(err, errUnreachable)).To(BeTrue())
	_, s := w.secret()
	g.Expect(bundles).To(Equal([]string{string(s.bundle())}), "it is asked once for both, with what API servers would trust")
	_, err = k.GetCertificate(nil)
	g.Expect(err).NotTo(HaveOccurred(), "it cannot be reached before it serves")
	m, v := w.configurations()
	g.Expect(m.Webhooks).To(BeEmpty())
	g.Expect(v.UID).To(BeEmpty())

	w.clock.Step(61 * time.Minute)
	_, err = k.step(t.Context())
	g.Expect(err).To(MatchError(errUnreachable))
	_, renewed := w.secret()
	g.Expect(renewed.serving).NotTo(Equal(s.serving), "certificates are renewed meanwhile")

	away = nil
	w.work(k)
	m, v = w.configurations()
	g.Expect(m.Webhooks).To(HaveLen(2))
	g.Expect(v.Webhooks).To(HaveLen(2))

	away, bundles = errors.New("gone"), nil
	m.Webhooks[0].ClientConfig.CABundle = nil
	g.Expect(w.admin.Update(t.Context(), m)).To(Succeed())
	w.work(k)
	g.Expect(w.bundles()).To(Equal([]string{string(renewed.bundle())}))
	g.Expect(bundles).To(BeEmpty(), "what has webhooks is kept without asking")

	g.Expect(w.admin.Delete(t.Context(), v)).To(Succeed())
	_, err = k.step(t.Context())
	g.Expect(err).To(MatchError(errUnreachable), "one that was deleted begins again")
}

func TestTheServerIsAskedForEverySecond(t *testing.T) {
	g, w := NewWithT(t), newWorld(t)
	asked := make(chan struct{}, 10)
	left := 2
	k := w.keeper(nil, func(o *Options) {
		o.Reachable = func(context.Context, []byte) error {
			asked <- struct{}{}
			left--
			if left < 0 {
				return nil
			}
			return errors.New("no server answers")
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.lead(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	for range 2 {
		g.Eventually(asked).WithTimeout(30 * time.Second).Should(Receive())
		g.Eventually(w.clock.HasWaiters).WithTimeout(30 * time.Second).Should(BeTrue())
		w.clock.Step(999 * time.Millisecond)
		g.Consistently(asked).WithTimeout(100 * time.Millisecond).ShouldNot(Receive())
		m, _ := w.configurations()
		g.Expect(m.UID).To(BeEmpty())
		w.clock.Step(time.Millisecond)
	}
	g.Eventually(asked).WithTimeout(30 * time.Second).Should(Receive())
	g.Eventually(func() int { m, _ := w.configurations(); return len(m.Webhooks) }).WithTimeout(30 * time.Second).Should(Equal(2))
	g.Expect(w.log.String()).To(ContainSubstring(`"msg"="Webhook configurations are not created yet; trying again" "reason"="the webhook ` +
		`server cannot be reached yet: no server answers" "after"="1s"`))
}

package certificates

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestFirstStart(t *testing.T) {
	g, w := NewWithT(t), newWorld(t)
	wire := &wire{}
	k := w.keeper(wire)
	_, err := k.GetCertificate(nil)
	g.Expect(err).To(MatchError(fmt.Sprintf("there is no certificate in Secret %s/%s yet", w.namespace, w.name)))

	look := w.work(k)

	_, s := w.secret()
	g.Expect(w.bundles()).To(Equal([]string{string(encodeCertificates(s.authority.certificate))}))
	g.Expect(look).To(Equal(10*time.Minute), "what no watch has reported of is looked for")
	served, err := k.GetCertificate(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(served.Leaf.Equal(s.serving.certificate)).To(BeTrue())
	m, _ := w.configurations()
	g.Expect(m.Webhooks).To(HaveLen(2))
	g.Expect(m.Labels).To(Equal(map[string]string{"app": "hooks"}))

	writes := wire.count()
	w.work(k)
	g.Expect(wire.count()).To(Equal(writes), "nothing was to be written")
}

func TestARestartChangesNothing(t *testing.T) {
	g, w := NewWithT(t), newWorld(t)
	w.work(w.keeper(nil))
	before, s := w.secret()

	wire := &wire{}
	k := w.keeper(wire)
	w.work(k)

	g.Expect(wire.count()).To(BeZero())
	after, _ := w.secret()
	g.Expect(after).To(Equal(before))
	served, err := k.GetCertificate(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(served.Leaf.Equal(s.serving.certificate)).To(BeTrue())
}

// The processes were stopped until the certificate and the authority had expired: no API server trusts the server until the next process
// has replaced both.
func TestAProcessStartsAfterItsCertificatesHaveExpired(t *testing.T) {
	g, w := NewWithT(t), newWorld(t)
	w.work(w.keeper(nil))
	_, old := w.secret()
	w.clock.SetTime(old.authority.certificate.NotAfter.Add(time.Minute))

	k := w.keeper(nil)
	w.work(k)

	served, err := k.GetCertificate(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(valid(served.Leaf, w.clock.Now())).To(BeTrue())
	bundles := w.bundles()
	g.Expect(bundles).To(HaveLen(1))
	g.Expect(trusts([]byte(bundles[0]), served.Leaf, w.clock.Now())).To(Succeed())
}

// TestTwoReplicasThatBothWriteConverge pauses the first process before one of its requests. Meanwhile the second process does everything
// that is due, and replaces the authority because a user has deleted the Secret. The first process does not know that it is late; by the
// objects that it has read, nothing is due.
func TestTwoReplicasThatBothWriteConverge(t *testing.T) {
	t.Parallel()
	for request := 1; request <= 24; request++ {
		t.Run(fmt.Sprintf("the first one sleeps before its request %d", request), func(t *testing.T) {
			t.Parallel()
			g, w := NewWithT(t), newWorld(t)
			c := newWatcher(w)
			second := w.keeper(&wire{wrote: c.check})
			seen := 0
			first := w.keeper(&wire{wrote: c.check, pause: func() {
				seen++
				if seen != request {
					return
				}
				w.work(second)
				secret, _ := w.secret()
				g.Expect(w.admin.Delete(t.Context(), secret)).To(Succeed())
				w.work(second) // announces
				w.clock.Step(2 * time.Minute)
				w.work(second) // use
			}})
			for seen < request {
				if _, err := first.step(t.Context()); err != nil {
					late := errors.Is(err, context.DeadlineExceeded) // the pause was longer than a step may take
					g.Expect(isConflict(err) || late).To(BeTrue(), "%v", err)
				}
				if seen < request {
					w.clock.Step(61 * time.Minute) // The certificate is to be renewed.
				}
			}

			_, s := w.secret()
			g.Expect(s.retired).To(HaveLen(1), "the authority was not replaced")
			w.work(first)
			w.work(second)
			_, s = w.secret()
			g.Expect(w.bundles()).To(Equal([]string{string(s.bundle())}))
		})
	}
}

// watcher checks after each write that every bundle that API servers may still use trusts every certificate that a replica may
// still serve.
type watcher struct {
	w *world
	// served contains all certificates that were ever in the Secret, since replicas may be late.
	served map[string]*x509.Certificate
	// used contains the bundles of the configurations, each with the time at which it was replaced; zero while a configuration has it.
	used map[string]time.Time
}

func newWatcher(w *world) *watcher {
	return &watcher{w: w, served: map[string]*x509.Certificate{}, used: map[string]time.Time{}}
}

func (c *watcher) check() {
	c.w.t.Helper()
	g := NewWithT(c.w.t)
	now := c.w.clock.Now()
	_, s := c.w.secret()
	c.served[string(s.serving.certificate.Raw)] = s.serving.certificate
	present := map[string]bool{}
	for _, bundle := range c.w.bundles() {
		present[bundle] = true
		c.used[bundle] = time.Time{}
	}
	for bundle, end := range c.used {
		switch {
		case present[bundle]:
		case end.IsZero():
			c.used[bundle] = now
		case now.Sub(end) >= time.Minute: // The settle time: every API server has learned of it.
			delete(c.used, bundle)
		}
	}
	for bundle := range c.used {
		for _, certificate := range c.served {
			if valid(certificate, now) {
				g.Expect(trusts([]byte(bundle), certificate, now)).To(Succeed(), "a request could fail at %s", now)
			}
		}
	}
}

// live lets processes work one after the other, from the first start until the first authority is forgotten. When the wire of the first
// process breaks, another process takes over.
func (c *watcher) live(first *wire) {
	c.w.t.Helper()
	g := NewWithT(c.w.t)
	first.wrote = c.check
	longer := func(o *Options) { o.CertificateValidity = o.AuthorityValidity / 2 } // to have fewer writes
	k := c.w.keeper(first, longer)
	for c.w.clock.Now().Before(at(900*time.Minute + time.Second)) {
		look, err := k.step(c.w.t.Context())
		if err != nil {
			g.Expect(err).To(MatchError(errBroken))
			k = c.w.keeper(&wire{wrote: c.check}, longer)
			continue
		}
		// Nothing is due before that.
		c.w.clock.Step(look)
		if look == recheck {
			c.skip(k)
		}
	}
}

// skip goes to the next time at which something is due.
func (c *watcher) skip(k *Keeper) {
	_, s := c.w.secret()
	due, next := k.rules.nextChange(facts{state: s, distributed: k.distributed.startOf(s.bundle()), now: c.w.clock.Now()})
	if due == nothing {
		c.w.clock.SetTime(next)
	}
}

func TestACrashBetweenAnyTwoWritesFailsNoRequest(t *testing.T) {
	t.Parallel()
	whole := func(t *testing.T, first *wire) {
		t.Helper()
		g, w := NewWithT(t), newWorld(t)
		newWatcher(w).live(first)
		_, s := w.secret()
		g.Expect(s.retired).To(BeEmpty())
		g.Expect(s.next).To(BeNil())
		g.Expect(s.authority.issued()).To(BeTemporally("~", at(600*time.Minute), time.Minute), "the authority was not replaced")
		g.Expect(w.bundles()).To(Equal([]string{string(s.bundle())}))
	}
	unbroken := &wire{}
	if !t.Run("no crash", func(t *testing.T) { whole(t, unbroken) }) || testing.Short() {
		return
	}
	NewWithT(t).Expect(unbroken.count()).To(BeNumerically(">=", 12))
	for write := 1; write <= unbroken.count(); write++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d, arrived: %t", write, after), func(t *testing.T) {
				t.Parallel()
				whole(t, &wire{breakAt: write, after: after})
			})
		}
	}
}

func TestForeignChangesToConfigurations(t *testing.T) {
	for name, change := range map[string]func(*admissionregistrationv1.MutatingWebhookConfiguration,
		*admissionregistrationv1.ValidatingWebhookConfiguration){
		"a bundle is removed": func(m *admissionregistrationv1.MutatingWebhookConfiguration,
			_ *admissionregistrationv1.ValidatingWebhookConfiguration,
		) {
			m.Webhooks[1].ClientConfig.CABundle = nil
		},
		"a webhook is removed": func(_ *admissionregistrationv1.MutatingWebhookConfiguration,
			v *admissionregistrationv1.ValidatingWebhookConfiguration,
		) {
			v.Webhooks = v.Webhooks[1:]
		},
		"a webhook is made to pass everything": func(m *admissionregistrationv1.MutatingWebhookConfiguration,
			_ *admissionregistrationv1.ValidatingWebhookConfiguration,
		) {
			m.Webhooks[0].MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "never", Expression: "false"}}
		},
		"a webhook is narrowed": func(m *admissionregistrationv1.MutatingWebhookConfiguration,
			_ *admissionregistrationv1.ValidatingWebhookConfiguration,
		) {
			m.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		},
		"a webhook is added": func(m *admissionregistrationv1.MutatingWebhookConfiguration,
			_ *admissionregistrationv1.ValidatingWebhookConfiguration,
		) {
			m.Webhooks = append(m.Webhooks, mutating("", nil, "x").Webhooks...)
		},
		"our label is changed": func(_ *admissionregistrationv1.MutatingWebhookConfiguration,
			v *admissionregistrationv1.ValidatingWebhookConfiguration,
		) {
			v.Labels["app"] = "x"
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, w := NewWithT(t), newWorld(t)
			k := w.keeper(nil)
			w.work(k)
			m, v := w.configurations()
			wantM, wantV := m.DeepCopy(), v.DeepCopy()
			change(m, v)
			m.Labels["team"], v.Labels["team"] = "gardeners", "gardeners"
			m.Annotations, v.Annotations = map[string]string{"note": "of another user"}, map[string]string{"note": "of another user"}
			g.Expect(w.admin.Update(t.Context(), m)).To(Succeed())
			g.Expect(w.admin.Update(t.Context(), v)).To(Succeed())

			w.work(k)

			m, v = w.configurations()
			g.Expect(m.Webhooks).To(ConsistOf(wantM.Webhooks))
			g.Expect(v.Webhooks).To(ConsistOf(wantV.Webhooks))
			for _, labels := range []map[string]string{m.Labels, v.Labels} {
				g.Expect(labels).To(Equal(map[string]string{"app": "hooks", "team": "gardeners"}))
			}
			g.Expect(m.Annotations).To(Equal(map[string]string{"note": "of another user"}))
		})
	}
}

func TestADeletedConfigurationIsCreatedAgain(t *testing.T) {
	g, w := NewWithT(t), newWorld(t)
	k := w.keeper(nil)
	w.work(k)
	_, v := w.configurations()
	g.Expect(w.admin.Delete(t.Context(), v)).To(Succeed())

	w.work(k)

	_, again := w.configurations()
	g.Expect(again.UID).NotTo(Equal(v.UID))
	g.Expect(again.Webhooks).To(Equal(v.Webhooks))
}

func TestADisabledHandlerLeavesNoWebhookBehind(t *testing.T) {
	t.Run("one of two", func(t *testing.T) {
		g, w := NewWithT(t), newWorld(t)
		w.work(w.keeper(nil))
		w.enabled = []string{"b"}
		w.work(w.keeper(nil))
		m, v := w.configurations()
		g.Expect(m.Webhooks).To(HaveLen(1))
		g.Expect(m.Webhooks[0].Name).To(Equal("b.example.com"))
		g.Expect(v.Webhooks).To(HaveLen(1))
	})
	t.Run("all", func(t *testing.T) {
		g, w := NewWithT(t), newWorld(t)
		w.work(w.keeper(nil))
		w.enabled = nil
		w.work(w.keeper(nil))
		m, v := w.configurations()
		g.Expect(m.UID).NotTo(BeEmpty())
		g.Expect(m.Webhooks).To(BeEmpty())
		g.Expect(v.Webhooks).To(BeEmpty())
	})
	t.Run("one that a user had applied from a file", func(t *testing.T) {
		g, w := NewWithT(t), newWorld(t)
		g.Expect(w.admin.Create(t.Context(), mutating(w.name, nil, "a", "b"), client.FieldOwner("kubectl"))).To(Succeed())
		w.enabled = []string{"b"}
		w.work(w.keeper(nil))
		m, _ := w.configurations()
		g.Expect(m.Webhooks).To(HaveLen(1))
		g.Expect(m.Webhooks[0].Name).To(Equal("b.example.com"))
	})
	t.Run("one that a user had applied from a file and changes meanwhile", func(t *testing.T) {
		g, w := NewWithT(t), newWorld(t)
		g.Expect(w.admin.Create(t.Context(), mutating(w.name, nil, "a", "b"), client.FieldOwner("kubectl"))).To(Succeed())
		w.enabled = []string{"b"}
		applied := func() { // called after the first write to the configuration, which still contains the webhook of the user
			m, _ := w.configurations()
			if len(m.Webhooks) != 2 || m.Webhooks[1].ClientConfig.CABundle == nil || m.Annotations != nil {
				return
			}
			m.Annotations = map[string]string{"note": "of another user"}
			g.Expect(w.admin.Update(t.Context(), m)).To(Succeed())
		}
		_, err := w.keeper(&wire{wrote: applied}).step(t.Context())
		g.Expect(isConflict(err)).To(BeTrue(), "%v", err)
		m, _ := w.configurations()
		g.Expect(m.Webhooks).To(HaveLen(2), "no webhook is removed that may have changed")
		w.work(w.keeper(nil))
		m, _ = w.configurations()
		g.Expect(m.Webhooks).To(HaveLen(1))
		g.Expect(m.Annotations).To(Equal(map[string]string{"note": "of another user"}))
	})
	t.Run("one that an earlier version had applied under another field manager", func(t *testing.T) {
		g, w := NewWithT(t), newWorld(t)
		w.work(w.keeper(nil, func(o *Options) { o.FieldManager = "espalier" }))
		before, _ := w.configurations()
		w.work(w.keeper(nil))
		same, _ := w.configurations()
		g.Expect(same.ResourceVersion).To(Equal(before.ResourceVersion), "nothing is written only for the name")
		w.enabled = []string{"b"}
		w.work(w.keeper(nil))
		m, v := w.configurations()
		g.Expect(m.Webhooks).To(HaveLen(1))
		g.Expect(m.Webhooks[0].Name).To(Equal("b.example.com"))
		g.Expect(v.Webhooks).To(HaveLen(1))
		w.work(w.keeper(nil))
		w.work(w.keeper(nil, func(o *Options) { o.FieldManager = "espalier" }))
		settled, _ := w.configurations()
		g.Expect(settled.ResourceVersion).To(Equal(m.ResourceVersion), "neither version writes what the other one has written")
	})
	t.Run("none was ever wanted", func(t *testing.T) {
		g, w := NewWithT(t), newWorld(t)
		w.enabled = nil
		w.work(w.keeper(nil))
		m, v := w.configurations()
		g.Expect(m.UID).To(BeEmpty())
		g.Expect(v.UID).To(BeEmpty())
	})
}

func TestCertificatesAreRenewedWhileConfigurationsCannotBeReached(t *testing.T) {
	g, w := NewWithT(t), newWorld(t)
	away := func(o *Options) { o.Called.Config = &rest.Config{Host: "https://127.0.0.1:1"} }
	k := w.keeper(nil, away)
	_, err := k.step(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("read webhook configuration")))
	_, before := w.secret()

	w.clock.Step(61 * time.Minute)
	_, err = k.step(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("read webhook configuration")))
	_, renewed := w.secret()
	g.Expect(renewed.serving.certificate.NotAfter).To(Equal(at(151 * time.Minute)))
	g.Expect(renewed.authority).To(Equal(before.authority))

	w.clock.SetTime(at(700 * time.Minute))
	for range 2 {
		_, err = k.step(t.Context())
		g.Expect(err).To(MatchError(ContainSubstring("read webhook configuration")))
		w.clock.Step(10 * time.Minute)
	}
	_, announced := w.secret()
	g.Expect(announced.next).NotTo(BeNil())
	g.Expect(announced.authority).To(Equal(before.authority), "an authority that no client trusts must not be used")
}

func TestASecretDeletedByHand(t *testing.T) {
	t.Run("is restored, and its authority replaced, without a request failing", func(t *testing.T) {
		g, w := NewWithT(t), newWorld(t)
		c := newWatcher(w)
		k := w.keeper(&wire{wrote: c.check})
		w.work(k)
		secret, before := w.secret()
		g.Expect(w.admin.Delete(t.Context(), secret)).To(Succeed())

		look := w.work(k)
		_, after := w.secret()
		g.Expect(after.serving).To(Equal(before.serving))
		g.Expect(after.next).NotTo(BeNil())
		g.Expect(w.bundles()).To(Equal([]string{string(after.bundle())}))
		g.Expect(string(after.bundle())).To(ContainSubstring(string(encodeCertificates(before.authority.certificate))))
		g.Expect(string(after.bundle())).To(ContainSubstring(string(encodeCertificates(after.next.certificate))))

		w.clock.Step(look)
		w.work(k)
		_, last := w.secret()
		g.Expect(last.authority).To(Equal(*after.next))
	})
	t.Run("is recreated if no process remembers it", func(t *testing.T) {
		g, w := NewWithT(t), newWorld(t)
		w.work(w.keeper(nil))
		secret, before := w.secret()
		g.Expect(w.admin.Delete(t.Context(), secret)).To(Succeed())

		w.work(w.keeper(nil))
		_, after := w.secret()
		g.Expect(after.authority.certificate.Equal(before.authority.certificate)).To(BeFalse())
		g.Expect(w.bundles()).To(Equal([]string{string(encodeCertificates(after.authority.certificate))}))
	})
}

func TestASecretWithGarbageIsReplaced(t *testing.T) {
	for name, remembers := range map[string]bool{"by a process that has served from it": true, "by a process that has just started": false} {
		t.Run(name, func(t *testing.T) {
			g, w := NewWithT(t), newWorld(t)
			k := w.keeper(nil)
			w.work(k)
			secret, before := w.secret()
			secret.Data["tls.key"] = []byte("garbage")
			secret.Labels = map[string]string{"team": "gardeners"}
			g.Expect(w.admin.Update(t.Context(), secret)).To(Succeed())
			if !remembers {
				k = w.keeper(nil)
			}

			w.work(k)

			repaired, after := w.secret()
			g.Expect(repaired.UID).To(Equal(secret.UID))
			g.Expect(repaired.Labels).To(Equal(map[string]string{"team": "gardeners"}))
			g.Expect(after.serving.certificate.Equal(before.serving.certificate)).To(Equal(remembers))
			g.Expect(w.bundles()).To(Equal([]string{string(after.bundle())}))
			g.Expect(w.log.String()).To(ContainSubstring("Secret of webhook certificates cannot be used and is replaced; to get new " +
				"certificates, delete it instead of editing it"))
			g.Expect(w.log.String()).To(ContainSubstring("tls.crt and tls.key: key: it is not PEM encoded"))
			g.Expect(w.log.String()).NotTo(ContainSubstring("garbage"), "what is in a Secret is not shown")
		})
	}
}

func TestAForeignSecretIsLeftAlone(t *testing.T) {
	g, w := NewWithT(t), newWorld(t)
	foreign := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: w.name},
		Type:       corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": []byte("x"), "tls.key": []byte("y")},
	}
	g.Expect(w.admin.Create(t.Context(), foreign)).To(Succeed())
	k := w.keeper(nil)

	_, err := k.step(t.Context())

	g.Expect(err).To(MatchError(fmt.Sprintf(`read Secret %s/%s: its type is "kubernetes.io/tls" instead of `+
		`"espalier.dev/webhook-certificates": it belongs to another program; delete it, or name another Secret`, w.namespace, w.name)))
	after := &corev1.Secret{}
	g.Expect(w.admin.Get(t.Context(), client.ObjectKeyFromObject(foreign), after)).To(Succeed())
	g.Expect(after).To(Equal(foreign))
	m, _ := w.configurations()
	g.Expect(m.UID).To(BeEmpty())
}

func TestChangedValiditiesAndHostsTakeEffect(t *testing.T) {
	for name, tc := range map[string]struct {
		modify func(*Options)
		check  func(g Gomega, before, after *state)
	}{
		"a shorter certificate": {
			func(o *Options) { o.CertificateValidity = 30 * time.Minute },
			func(g Gomega, before, after *state) {
				g.Expect(after.serving.certificate.NotAfter).To(Equal(at(60 * time.Minute)))
				g.Expect(after.authority).To(Equal(before.authority))
			},
		},
		"a longer certificate": {
			func(o *Options) { o.CertificateValidity = 300 * time.Minute },
			func(g Gomega, before, after *state) { g.Expect(after.serving).To(Equal(before.serving)) },
		},
		"a shorter authority": {
			func(o *Options) { o.AuthorityValidity = 45 * time.Minute },
			func(g Gomega, before, after *state) {
				g.Expect(after.authority).To(Equal(before.authority))
				g.Expect(after.next.certificate.NotAfter).To(Equal(at(75 * time.Minute)))
			},
		},
		"another host": {
			func(o *Options) { o.Hosts = append(o.Hosts, "10.1.2.3") },
			func(g Gomega, before, after *state) {
				g.Expect(after.serving.certificate.VerifyHostname("10.1.2.3")).To(Succeed())
				g.Expect(after.serving.certificate.VerifyHostname("hooks.garden.svc")).To(Succeed())
				g.Expect(after.authority).To(Equal(before.authority))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, w := NewWithT(t), newWorld(t)
			w.work(w.keeper(nil))
			_, before := w.secret()
			w.clock.Step(30 * time.Minute)

			w.work(w.keeper(nil, tc.modify))

			_, after := w.secret()
			tc.check(g, before, after)
		})
	}
}

func TestServiceHosts(t *testing.T) {
	NewWithT(t).Expect(ServiceHosts("garden", "hooks")).To(Equal([]string{"hooks.garden.svc", "hooks.garden.svc.cluster.local"}))
}

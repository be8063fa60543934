package approver_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/test/binary"
)

func seconds(n int) *metav1.Duration {
	return &metav1.Duration{Duration: time.Duration(n) * time.Second}
}

// decided returns the number of requests with this decision and reason, according to the metric.
func (s *scene) decided(decision, reason string) float64 {
	s.T.Helper()
	return s.metric("espalier_csr_decisions_total", decision, reason)
}

// expectDecided waits until the metric has this value, because a decision is counted after it is written.
func (s *scene) expectDecided(decision, reason string, want float64) {
	s.T.Helper()
	s.Eventually(func() float64 { return s.decided(decision, reason) }).WithTimeout(binary.Patience).Should(Equal(want))
}

func (s *scene) postponed(reason string) float64 {
	s.T.Helper()
	return s.metric("espalier_csr_postponed_total", reason)
}

// eventsOf returns a function that lists the Events about a request.
func (s *scene) eventsOf(name string) func() []string {
	return func() []string { return s.Events(s.Target, "CertificateSigningRequest", name) }
}

func TestAnApprovalIsOneWriteAndNoRead(t *testing.T) {
	s := newScene(t, options{twoClusters: true, before: homes("n")})
	s.approvesAnother()
	s.Requests.Reset()
	var want []string
	for i := range 10 {
		good := s.ask("n", func(w *wish) { w.name = fmt.Sprintf("good-%d", i) })
		bad := s.ask("ghost", func(w *wish) { w.name = fmt.Sprintf("bad-%d", i) })
		s.expect(good, allPassed)
		s.expect(bad, denied(`could not find node object with name "ghost"`))
		for _, name := range []string{good, bad} {
			want = append(want, "PUT /apis/certificates.k8s.io/v1/certificatesigningrequests/"+name+"/approval")
		}
	}
	s.touch("good-0")
	s.approvesAnother()
	seen := s.Requests.Seen()
	s.Expect(seen).To(HaveLen(len(want) + 1))
	s.Expect(seen).To(ContainElements(want))
	s.expectDecided("approved", "all-checks-passed", 12)
	s.expectDecided("denied", "node-missing", 10)
	s.Expect(s.eventsOf("good-0")()).To(BeEmpty(), "Events are off by default")
}

func TestSubsetOfAddresses(t *testing.T) {
	o := with(func(c *config.EspalierCSRApprover) { c.SubsetOfAddresses = true })
	o.before = func(s *scene) { s.node("n", everyAddress()...) }
	s := newScene(t, o)
	s.expect(s.ask("n", func(w *wish) { w.template.DNSNames = []string{"host-1"} }), allPassed)
	s.expect(s.ask("n", func(w *wish) { w.template.DNSNames = []string{"host-1", "host-3"} }), denied(wrongDNS))
	s.expect(s.ask("n", func(w *wish) {
		w.template.DNSNames, w.template.IPAddresses = nil, []net.IP{{10, 1, 2, 3}, {10, 1, 2, 4}}
	}), denied(wrongIPs))
	s.expect(s.ask("n", func(w *wish) { w.template.DNSNames, w.template.IPAddresses = nil, nil }),
		denied("no DNS names or IP addresses in the SANs found"))
}

func TestAllowedNamesAndAddresses(t *testing.T) {
	o := with(func(c *config.EspalierCSRApprover) {
		c.AllowedDNSPatterns, c.AllowedIPPrefixes = &[]string{"ip-*", "*.nodes.example.com"}, &[]string{"10.1.0.0/16"}
	})
	o.before = func(s *scene) {
		homes("ip-1", "web")(s)
		elsewhere := home("ip-2")
		elsewhere[1].Address = "10.2.0.1"
		s.node("ip-2", elsewhere...)
	}
	s := newScene(t, o)
	s.expect(s.ask("ip-1"), allPassed)
	s.expect(s.ask("web"), denied(`DNS name "web" matches none of the allowed patterns`))
	s.expect(s.ask("ip-2", func(w *wish) { w.template.IPAddresses = []net.IP{{10, 2, 0, 1}} }),
		denied(`IP address "10.2.0.1" is in none of the allowed prefixes`))
	s.expectDecided("denied", "dns-pattern", 1)
	s.expectDecided("denied", "ip-prefix", 1)
}

func TestMaximumExpiration(t *testing.T) {
	asking := func(seconds int32) func(*wish) { return func(w *wish) { w.seconds = ptr.To(seconds) } }
	limit := func(c *config.EspalierCSRApprover) { c.MaxExpiration = seconds(3600) }
	t.Run("strictly", func(t *testing.T) {
		o := with(limit)
		o.before = homes("n")
		s := newScene(t, o)
		s.expect(s.ask("n", asking(3600)), allPassed)
		s.expect(s.ask("n", asking(3601)), denied("requested expiration of 1h0m1s is longer than the allowed 1h0m0s"))
		s.expect(s.ask("n"), denied("no expiration is requested, at most 1h0m0s is allowed"))
	})
	t.Run("trusting the signer's own limit", func(t *testing.T) {
		o := with(func(c *config.EspalierCSRApprover) { limit(c); c.AllowUnsetExpiration = true })
		o.before = homes("n")
		s := newScene(t, o)
		s.expect(s.ask("n"), allPassed)
		s.expect(s.ask("n", asking(86400)), denied("requested expiration of 24h0m0s is longer than the allowed 1h0m0s"))
	})
}

// A kubelet can write any address into the status of its node.
func TestDeniedIdentities(t *testing.T) {
	o := with(func(c *config.EspalierCSRApprover) {
		c.DeniedIdentities = config.EspalierCSRDeniedIdentities{
			APIServer: true, DNSPatterns: []string{"etcd.*.svc"}, IPPrefixes: []string{"169.254.0.0/16"},
		}
	})
	nasty := home("n")
	for _, name := range []string{"kubernetes", "kubernetes.default.svc.cluster.local", "*.default.svc", "etcd.kube-system.svc"} {
		nasty = append(nasty, nodeName(name))
	}
	for _, ip := range []string{"10.0.0.1", "169.254.1.1"} {
		nasty = append(nasty, nodeIP(ip))
	}
	o.before = func(s *scene) { s.node("n", nasty...) }
	o.configure = func(inner func(*config.ResourceManagerConfiguration)) func(*config.ResourceManagerConfiguration) {
		return func(c *config.ResourceManagerConfiguration) {
			inner(c)
			c.Espalier.CSRApprover.SubsetOfAddresses = true
		}
	}(o.configure)
	s := newScene(t, o)
	s.expect(s.ask("n"), allPassed)
	for _, name := range []string{"kubernetes", "kubernetes.default.svc.cluster.local", "*.default.svc", "etcd.kube-system.svc"} {
		s.expect(s.ask("n", func(w *wish) { w.template.DNSNames = []string{name} }),
			denied(`DNS name "`+name+`" is or covers an identity that is denied to nodes`))
	}
	for _, ip := range []string{"10.0.0.1", "169.254.1.1"} {
		s.expect(s.ask("n", func(w *wish) { w.template.IPAddresses = []net.IP{net.ParseIP(ip)} }),
			denied(`IP address "`+ip+`" is an identity that is denied to nodes`))
	}
	s.expectDecided("denied", "denied-identity", 6)
}

// A node that writes the address of an API server into its status gets no certificate for that address. API servers of tests listen at
// 127.0.0.1, which no EndpointSlice may contain, so the test writes the EndpointSlice itself.
func TestEndpointsOfTheAPIServerAreDeniedToNodesOutsideOfTheControlPlane(t *testing.T) {
	o := with(func(c *config.EspalierCSRApprover) { c.DeniedIdentities.APIServer = true })
	address := "192.0.2.77"
	addresses := []corev1.NodeAddress{{Type: "Hostname", Address: "n"}, nodeIP(address)}
	o.before = func(s *scene) {
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}},
		}
		s.Expect(s.Target.Create(s.Ctx, slice)).To(Succeed())
		s.T.Cleanup(func() { s.Expect(s.Target.Delete(context.WithoutCancel(s.Ctx), slice)).To(Succeed()) })
		s.node("n", addresses...)
	}
	s := newScene(t, o)
	own := func(w *wish) { w.template.IPAddresses = []net.IP{net.ParseIP(address)} }
	s.expect(s.ask("n", own),
		denied(`IP address "`+address+`" belongs to the API server, and the node has no label node-role.kubernetes.io/control-plane`))

	node := &corev1.Node{}
	s.Expect(s.Target.Get(s.Ctx, client.ObjectKey{Name: "n"}, node)).To(Succeed())
	node.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
	s.Expect(s.Target.Update(s.Ctx, node)).To(Succeed())
	s.Eventually(func() []string {
		name := s.ask("n", own)
		s.Eventually(func() []string { return s.conditions(name) }).WithTimeout(binary.Patience).Should(HaveLen(1))
		return s.conditions(name)
	}).WithTimeout(binary.Patience).Should(Equal([]string{allPassed}), "the cache follows the Node a moment later")
}

func TestRequestsWaitForNodeAndMachine(t *testing.T) {
	o := with(func(c *config.EspalierCSRApprover) { c.WaitForObjects = seconds(3600) })
	o.twoClusters = true
	s := newScene(t, o)
	first, wrong := s.ask("late"), s.ask("late", func(w *wish) { w.template.Subject.Organization = nil })
	s.Eventually(func() float64 { return s.postponed("node-missing") }).WithTimeout(binary.Patience).Should(Equal(1.0))
	s.expect(wrong, denied("organization in CSR does not match nodes group")) // a Node or Machine that appears later would not help
	s.onlyNode("late", home("late")...)
	s.Eventually(func() float64 { return s.postponed("machine-count") }).WithTimeout(binary.Patience).Should(Equal(1.0))
	machine := s.machine(s.Namespace, "late", "")
	s.approvesAnother()
	s.Expect(s.conditions(first)).To(BeEmpty())
	s.Requests.Reset()
	machine.SetLabels(map[string]string{"node": "late"})
	s.Expect(s.Source.Update(s.Ctx, machine)).To(Succeed())
	s.expect(first, allPassed)
	s.Expect(s.Requests.Seen()).To(Equal([]string{"PUT /apis/certificates.k8s.io/v1/certificatesigningrequests/" + first + "/approval"}))
}

func TestWaitingEndsWithTheReason(t *testing.T) {
	now := testclock.NewFakeClock(clock.RealClock{}.Now())
	o := with(func(c *config.EspalierCSRApprover) { c.WaitForObjects = seconds(3) })
	o.clock = now
	o.before = func(s *scene) {
		s.onlyNode("no-machine", home("no-machine")...)
		s.onlyNode("two", home("two")...)
		s.machine(s.Namespace, "two-1", "two")
		s.machine(s.Namespace, "two-2", "two")
	}
	s := newScene(t, o)
	ghost, lonely, two := s.ask("ghost"), s.ask("no-machine"), s.ask("two")
	s.expect(two, denied(`Expected exactly one machine in namespace "`+s.Namespace+`" for node "two" but found 2`))
	for _, reason := range []string{"node-missing", "machine-count"} {
		s.Eventually(func() float64 { return s.postponed(reason) }).WithTimeout(binary.Patience).Should(BeNumerically(">=", 1))
	}
	s.Expect(s.conditions(ghost)).To(BeEmpty())
	s.Expect(s.conditions(lonely)).To(BeEmpty())
	now.Step(time.Hour) // longer than any wait for objects, whenever the requests were created
	s.expect(ghost, denied(`could not find node object with name "ghost"`))
	s.expect(lonely, denied(`Expected exactly one machine in namespace "`+s.Namespace+`" for node "no-machine" but found 0`))
}

func TestObserveOnlyTellsAndWritesNothing(t *testing.T) {
	o := with(func(c *config.EspalierCSRApprover) { c.ObserveOnly = true })
	o.before = homes("n")
	s := newScene(t, o)
	s.AwaitRest() // API servers without the feature gate WatchList get list requests at the start
	good, bad := s.ask("n"), s.ask("ghost")
	s.Eventually(s.eventsOf(good)).WithTimeout(binary.Patience).
		Should(Equal([]string{"Normal WouldApprove: Would be approved, but the approver only observes: all checks passed"}))
	s.Eventually(s.eventsOf(bad)).
		WithTimeout(binary.Patience).Should(Equal([]string{
		`Warning WouldDeny: Would be denied, but the approver only observes: could not find node object with name "ghost"`,
	}))
	s.touch(good)
	third := s.ask("n")
	s.Eventually(s.eventsOf(third)).WithTimeout(binary.Patience).Should(HaveLen(1))
	s.expectDecided("would-approve", "all-checks-passed", 2) // each request is reported once
	s.expectDecided("would-deny", "node-missing", 1)
	s.Expect(s.decided("approved", "all-checks-passed")).To(Equal(-1.0))
	s.Expect(s.Requests.Seen()).To(BeEmpty())
	for _, each := range []string{good, bad, third} {
		s.Expect(s.conditions(each)).To(BeEmpty())
	}
}

// Another approver is usually faster than this one. Of the requests that it has decided, only those are judged that were decided while this
// process runs.
func TestObserveOnlyTellsOfWhatOthersDecideFirst(t *testing.T) {
	o := with(func(c *config.EspalierCSRApprover) { c.ObserveOnly = true; c.WaitForObjects = seconds(3600) })
	o.stopped, o.twoClusters, o.before = true, true, homes("n")
	s := newScene(t, o)
	before := s.ask("n")
	s.decideAsAdmin(before, "Approved")
	created := s.get(before).CreationTimestamp
	s.Eventually(func() bool { return clock.RealClock{}.Now().Truncate(time.Second).After(created.Time) }).WithTimeout(binary.Patience).
		Should(BeTrue())
	s.Start()
	s.touch(before)
	late := s.ask("late")
	s.decideAsAdmin(late, "Approved")
	good := s.ask("n")
	s.decideAsAdmin(good, "Denied")
	bad := s.ask("n", func(w *wish) { w.template.Subject.Organization = nil })
	s.decideAsAdmin(bad, "Approved")
	s.Eventually(s.eventsOf(good)).WithTimeout(binary.Patience).
		Should(Equal([]string{"Normal WouldApprove: Would be approved, but the approver only observes: all checks passed"}))
	s.Eventually(s.eventsOf(bad)).
		WithTimeout(binary.Patience).Should(Equal([]string{
		"Warning WouldDeny: Would be denied, but the approver only observes: organization in CSR does not match nodes group",
	}))
	s.Eventually(func() float64 { return s.postponed("node-missing") }).WithTimeout(binary.Patience).Should(BeNumerically(">=", 1))
	s.machine(s.Namespace, "late", "late")
	s.onlyNode("late", home("late")...)
	s.Eventually(s.eventsOf(late)).WithTimeout(binary.Patience).Should(HaveLen(1))
	s.Expect(s.eventsOf(before)()).To(BeEmpty())
	s.expectDecided("would-approve", "all-checks-passed", 2) // each request is reported once
	s.expectDecided("would-deny", "organization", 1)
}

func TestObserveOnlyNeedsNoRightToDecide(t *testing.T) {
	o := with(func(c *config.EspalierCSRApprover) { c.ObserveOnly = true })
	o.stopped, o.before = true, homes("n")
	s := newScene(t, o)
	s.mayNot("certificatesigningrequests/approval", "signers")
	s.Config.Espalier.CSRApprover.ObserveOnly = false // the Event that follows shows that the API server knows the rights
	s.Eventually(s.startError).WithTimeout(binary.Patience).
		Should(MatchError(And(
			HavePrefix("source cluster at https://"), // there is only one cluster
			ContainSubstring(": not allowed to update certificatesigningrequests.certificates.k8s.io/approval in all namespaces: grant it, "),
			ContainSubstring(`; not allowed to approve signers.certificates.k8s.io named "kubernetes.io/kubelet-serving" in all namespaces: `),
		)))
	s.Config.Espalier.CSRApprover.ObserveOnly = true
	s.Start()
	name := s.ask("n")
	s.Eventually(s.eventsOf(name)).WithTimeout(binary.Patience).Should(HaveLen(1))
}

func TestEventsNameTheReason(t *testing.T) {
	o := with(func(c *config.EspalierCSRApprover) { c.Events = true })
	o.before = homes("n")
	s := newScene(t, o)
	good, bad := s.ask("n"), s.ask("n", func(w *wish) { w.template.DNSNames = []string{"x"} })
	s.expect(good, allPassed)
	s.Eventually(s.eventsOf(good)).WithTimeout(binary.Patience).Should(Equal([]string{"Normal RequestApproved: Approved: all checks passed"}))
	s.Eventually(s.eventsOf(bad)).WithTimeout(binary.Patience).Should(Equal([]string{"Warning RequestDenied: Denied: " + wrongDNS}))
}

func TestWithoutMachinesTheKindIsNotEvenNeeded(t *testing.T) {
	s := newScene(t, options{stopped: true, twoClusters: true, before: func(s *scene) { s.onlyNode("n", home("n")...) }})
	s.Config.Controllers.KubeletCSRApprover.MachineNamespace = ""
	s.Config.Espalier.CSRApprover.WithoutMachines = true
	s.withoutSource()
	s.Start()
	s.expect(s.ask("n"), allPassed)
	s.expect(s.ask("ghost"), denied(`could not find node object with name "ghost"`))
}

func TestFloodIsDeniedAndDelaysNoOtherRequest(t *testing.T) {
	o := with(func(c *config.EspalierCSRApprover) {
		c.RateLimit = &config.EspalierCSRRateLimit{Requests: 2, Period: seconds(3600), MaxDelay: seconds(0)}
	})
	o.stopped, o.before = true, homes("flood", "modest")
	configure := o.configure
	o.configure = func(c *config.ResourceManagerConfiguration) {
		configure(c)
		c.Controllers.KubeletCSRApprover.ConcurrentSyncs = ptr.To(1)
	}
	s := newScene(t, o)
	var flood []string
	for i := range 40 {
		flood = append(flood, s.ask("flood", func(w *wish) { w.name = fmt.Sprintf("flood-%02d", i) }))
	}
	modest := s.ask("modest", func(w *wish) { w.name = "modest" })
	s.Start()
	s.expect(modest, allPassed)
	for _, each := range flood {
		s.Eventually(func() []string { return s.conditions(each) }).WithTimeout(binary.Patience).Should(HaveLen(1))
	}
	s.expectDecided("approved", "all-checks-passed", 3)
	s.expectDecided("denied", "rate-limit", 38)
	var written []string
	for _, each := range s.Requests.Writes() {
		if name, isDecision := strings.CutSuffix(each, "/approval"); isDecision {
			written = append(written, name[strings.LastIndex(name, "/")+1:])
		}
	}
	s.Expect(written).To(HaveLen(41))
	s.Expect(slices.Index(written, "modest")).To(BeNumerically("<", 20), "refusals come after what others ask for")
	refused := 0
	for _, each := range flood {
		if slices.Equal(s.conditions(each), []string{denied(`too many requests of user "system:node:flood"`)}) {
			refused++
		}
	}
	s.Expect(refused).To(Equal(38))
}

func TestWhoAsksForMuchIsAnsweredLater(t *testing.T) {
	now := testclock.NewFakeClock(clock.RealClock{}.Now())
	o := with(func(c *config.EspalierCSRApprover) {
		c.RateLimit = &config.EspalierCSRRateLimit{Requests: 1, Period: seconds(2), MaxDelay: seconds(3600)}
	})
	o.before, o.clock = homes("n"), now
	s := newScene(t, o)
	requests := []string{s.ask("n"), s.ask("n"), s.ask("n")}
	s.expectDecided("approved", "all-checks-passed", 1)
	s.Eventually(func() float64 { return s.postponed("rate-limit") }).WithTimeout(binary.Patience).Should(BeNumerically(">=", 2))
	s.expectDecided("approved", "all-checks-passed", 1) // no time has passed
	now.Step(4 * time.Second)
	for _, each := range requests {
		s.expect(each, allPassed)
	}
	s.expectDecided("denied", "rate-limit", 0)
}

// Another client decides just before the controller writes its own decision.
func TestAConflictEndsWithTheOthersDecision(t *testing.T) {
	log := &binary.Log{}
	s := newScene(t, options{before: homes("n"), log: log})
	done := make(chan struct{}, 1)
	s.Requests.SetHook(func(request *http.Request) error {
		if strings.HasSuffix(request.URL.Path, "/contested/approval") {
			select {
			case done <- struct{}{}:
				s.decideAsAdmin("contested", "Denied")
			default:
			}
		}
		return nil
	})
	s.ask("n", func(w *wish) { w.name = "contested" })
	s.expect("contested", "Denied True ByAnotherClient: has decided")
	s.approvesAnother()
	s.Expect(s.conditions("contested")).To(Equal([]string{"Denied True ByAnotherClient: has decided"}))
	s.expectDecided("approved", "all-checks-passed", 1)
	s.Expect(log.Containing("Reconciler error")).To(BeEmpty(), "a conflict is retried without the back-off of failures")
}

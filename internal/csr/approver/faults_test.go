package approver_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/espalier-dev/espalier/test/binary"
)

// Approver and signer read only the first PEM block, so a request cannot show them different blocks.
func TestOfSeveralPEMBlocksTheFirstCounts(t *testing.T) {
	s := newScene(t, options{before: homes("n")})
	good, bad := s.wish("n").raw, s.wish("n", func(w *wish) { w.template.DNSNames = []string{"kubernetes"} }).raw
	first := s.ask("n", func(w *wish) { w.raw = append(append([]byte("some text\n"), good...), bad...) })
	s.expect(first, allPassed)
	s.expect(s.ask("n", func(w *wish) { w.raw = append(append([]byte{}, bad...), good...) }), denied(wrongDNS))
	s.Eventually(func() []byte { return s.get(first).Status.Certificate }).WithTimeout(binary.Patience).ShouldNot(BeEmpty())
	block, _ := pem.Decode(s.get(first).Status.Certificate)
	certificate, err := x509.ParseCertificate(block.Bytes)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(certificate.DNSNames).To(Equal([]string{"n"}))
}

func TestHugeListsOfNames(t *testing.T) {
	s := newScene(t, options{before: homes("n")})
	huge := s.ask("n", func(w *wish) {
		for i := range 20000 {
			w.template.DNSNames = append(w.template.DNSNames, fmt.Sprintf("n-%d.example.com", i))
		}
	})
	s.expect(huge, denied(wrongDNS))
	s.approvesAnother()
}

// Wrong usages are not checked by the approver: the signer refuses them.
func TestWrongUsagesAreTheSigners(t *testing.T) {
	s := newScene(t, options{before: homes("n")})
	name := s.ask("n", func(w *wish) { w.usages = []certificatesv1.KeyUsage{"digital signature", "client auth"} })
	s.Eventually(func() []string { return s.conditions(name) }).WithTimeout(binary.Patience).Should(HaveExactElements(
		Equal(allPassed), HavePrefix("Failed True SignerValidationFailure: "),
	))
	s.touch(name)
	s.approvesAnother()
	s.Expect(s.conditions(name)).To(HaveLen(2))
}

func TestAnyKindOfKey(t *testing.T) {
	s := newScene(t, options{before: homes("n")})
	w := s.wish("n")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	s.Expect(err).NotTo(HaveOccurred())
	der, err := x509.CreateCertificateRequest(rand.Reader, &w.template, key)
	s.Expect(err).NotTo(HaveOccurred())
	s.expect(s.ask("n", func(w *wish) { w.raw = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}) }), allPassed)
}

func TestLongNodeNames(t *testing.T) {
	long := strings.Repeat("n", 60) + "." + strings.Repeat("m", 40) // longer than a label's value, so no Machine can name it
	s := newScene(t, options{before: func(s *scene) { s.onlyNode(long, home(long)...) }})
	s.expect(s.ask(long), denied(`Expected exactly one machine in namespace "`+s.Namespace+`" for node "`+long+`" but found 0`))
	s.expect(s.ask("", func(w *wish) { w.groups = []string{"system:masters"} }), denied(`could not find node object with name ""`))
}

// If a write fails for a while, only this decision is delayed.
func TestWritesThatFailAreRepeated(t *testing.T) {
	s := newScene(t, options{before: homes("n")})
	failures := 0
	s.Requests.SetHook(func(request *http.Request) error {
		if strings.HasSuffix(request.URL.Path, "/unlucky/approval") && failures < 5 {
			failures++
			return errors.New("synthetic")
		}
		return nil
	})
	s.ask("n", func(w *wish) { w.name = "unlucky" })
	s.approvesAnother()
	s.expect("unlucky", allPassed)
	s.expectDecided("approved", "all-checks-passed", 2)
}

func TestRequestsMadeWhileTheApproverIsDownAreDecided(t *testing.T) {
	s := newScene(t, options{before: homes("n")})
	var good, bad string
	s.Restart(func() { good, bad = s.ask("n"), s.ask("ghost") })
	s.expect(good, allPassed)
	s.expect(bad, denied(`could not find node object with name "ghost"`))
}

func TestCrashPoints(t *testing.T) {
	s := newScene(t, options{twoClusters: true, before: homes("n")})
	tried := binary.EveryCut(t, 1, func(t *testing.T, at binary.Cut) bool {
		t.Helper()
		g := NewWithT(t)
		s.AwaitRest() // the requests of the start do not count
		s.Requests.CutOff(at)
		good, ghost := s.ask("n"), s.ask("ghost")
		also := s.ask("n", func(w *wish) { w.template.IPAddresses = []net.IP{{1, 1, 1, 1}} })
		all := []string{good, ghost, also}
		g.Eventually(func() bool {
			if s.Requests.IsCutOff() {
				return true
			}
			for _, each := range all {
				if len(s.conditions(each)) == 0 {
					return false
				}
			}
			return true
		}).WithTimeout(binary.Patience).Should(BeTrue())
		s.Stop()
		happened := s.Requests.Connect()
		s.Start()
		s.expect(good, allPassed)
		s.expect(ghost, denied(`could not find node object with name "ghost"`))
		s.expect(also, denied(wrongIPs))
		return happened
	})
	s.Expect(tried).To(Equal(6), "each of three decisions, before and after")
}

package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

const auditText = `{"kind":"Event","stage":"ResponseComplete","verb":"create","user":{"username":"me"},` +
	`"objectRef":{"resource":"configmaps","namespace":"bench-ours-001","apiVersion":"v1"},"responseStatus":{"code":201}}
{"kind":"Event","stage":"ResponseComplete","verb":"create","user":{"username":"me"},"objectRef":{"resource":"configmaps","namespace":"bench-ours-002","apiVersion":"v1"},"responseStatus":{"code":201}}
{"kind":"Event","stage":"ResponseComplete","verb":"create","user":{"username":"you"},"objectRef":{"resource":"configmaps","namespace":"bench-ours-001"},"responseStatus":{"code":201}}
{"kind":"Event","stage":"ResponseStarted","verb":"watch","user":{"username":"me"},"objectRef":{"resource":"deployments","apiGroup":"apps"},"responseStatus":{"code":200}}
{"kind":"Event","stage":"ResponseComplete","verb":"watch","user":{"username":"me"},"objectRef":{"resource":"deployments","apiGroup":"apps"},"responseStatus":{"code":200}}
{"kind":"Event","stage":"ResponseStarted","verb":"watch","user":{"username":"me"},"objectRef":{"resource":"services"},"responseStatus":{"code":200}}
{"kind":"Event","stage":"ResponseComplete","verb":"list","user":{"username":"me"},"objectRef":{"resource":"deployments","apiGroup":"apps"},"responseStatus":{"code":200}}
{"kind":"Event","stage":"ResponseComplete","verb":"get","user":{"username":"me"},"objectRef":{"resource":"secrets","namespace":"bench-sets"},"responseStatus":{"code":200}}
{"kind":"Event","stage":"ResponseComplete","verb":"get","user":{"username":"me"},"objectRef":{"resource":"secrets","namespace":"bench-ours-001"},"responseStatus":{"code":404}}
{"kind":"Event","stage":"ResponseComplete","verb":"update","user":{"username":"me"},"objectRef":{"resource":"managedresources","namespace":"bench-sets","apiGroup":"resources.gardener.cloud","subresource":"status"},"responseStatus":{"code":200}}
{"kind":"Event","stage":"ResponseComplete","verb":"update","user":{"username":"me"},"objectRef":{"resource":"leases","namespace":"espalier-system","apiGroup":"coordination.k8s.io"},"responseStatus":{"code":200}}
{"kind":"Event","stage":"ResponseComplete","verb":"get","user":{"username":"me"},"responseStatus":{"code":200}}
`

func TestAuditCountsRequestsOnceByVerbAndResource(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "audit.log")
	g.Expect(os.WriteFile(file, []byte(auditText), 0o600)).To(Succeed())
	requests, err := auditedSince(file, 0, "me")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(requests.Only(Request.Counts).String()).To(
		Equal("2 create configmaps, 1 get (no resource), 1 get secrets, 1 get secrets (404), 1 list deployments, 1 update " +
			"managedresources/status"))
	waiting := requests.Only(func(r Request) bool { return !r.Counts() })
	g.Expect(waiting.String()).To(Equal("1 update leases, 1 watch deployments, 1 watch services"))
	writes := requests.Only(Request.IsWrite)
	g.Expect(writes.String()).To(Equal("2 create configmaps, 1 update leases, 1 update managedresources/status"))
	g.Expect(Requests(nil).String()).To(Equal("none"))
}

func TestAuditReadsWhatWasLoggedSince(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "audit.log")
	g.Expect(auditEnd(file)).To(BeZero(), "the log does not exist yet")

	first, rest, _ := strings.Cut(auditText, "\n")
	g.Expect(os.WriteFile(file, []byte(first+"\n"), 0o600)).To(Succeed())
	place, err := auditEnd(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(file, []byte(first+"\n"+rest+`{"kind":"Event","stage":"Resp`), 0o600)).To(Succeed())

	requests, err := auditedSince(file, place, "me")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(requests.Only(Request.IsWrite).String()).To(
		Equal("1 create configmaps, 1 update leases, 1 update managedresources/status"), "an incomplete line is read later")
}

func TestAuditPolicyNamesTheUsers(t *testing.T) {
	NewWithT(t).Expect(string(auditPolicy("a", "b"))).To(ContainSubstring(`users: ["a", "b"]`))
}

func TestPeriodIsFromTheFirstBeginningToTheLastEnd(t *testing.T) {
	g := NewWithT(t)
	of := func(begin, end time.Duration) (r Request) {
		r.RequestReceivedTimestamp.Time, r.StageTimestamp.Time = time.Unix(1000, 0).Add(begin), time.Unix(1000, 0).Add(end)
		return r
	}
	requests := Requests{of(200*time.Millisecond, time.Second), of(100*time.Millisecond, 500*time.Millisecond)}
	g.Expect(requests.Period()).To(Equal(900 * time.Millisecond))
	g.Expect(Requests(nil).Period()).To(BeZero())
}

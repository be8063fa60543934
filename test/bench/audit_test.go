package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const auditText = `{"kind":"Event","stage":"ResponseComplete","verb":"create","user":{"username":"me"},"objectRef":{"resource":"configmaps","namespace":"bench-ours-001","apiVersion":"v1"},"responseStatus":{"code":201}}
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
	requests, err := parseAudit([]byte(auditText+`{"kind":"Event","stage":"Resp`), "me")
	g.Expect(err).NotTo(HaveOccurred())
	managed := func(q request) bool { return counted(q) && q.isManaged() }
	other := func(q request) bool { return counted(q) && !q.isManaged() }
	g.Expect(summary(requests, managed)).To(Equal("2 create configmaps, 1 get secrets (404), 1 list deployments"))
	g.Expect(count(requests, managed)).To(Equal(4))
	g.Expect(summary(requests, other)).To(Equal("1 get (no resource), 1 get secrets of the source, 1 update managedresources/status"))
	g.Expect(summary(requests, func(q request) bool { return !counted(q) })).To(Equal("1 update leases, 1 watch deployments, 1 watch services"))
	g.Expect(summary(requests, request.isWrite)).To(Equal("2 create configmaps, 1 update leases, 1 update managedresources/status"))
	g.Expect(summary(nil, counted)).To(Equal("none"))
}

func TestAuditReadsWhatWasLoggedSince(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "audit.log")
	log := auditLog{file}
	g.Expect(log.end()).To(BeZero(), "a log that nobody has written to yet")

	first, rest, _ := strings.Cut(auditText, "\n")
	g.Expect(os.WriteFile(file, []byte(first+"\n"), 0o600)).To(Succeed())
	place, err := log.end()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(file, []byte(first+"\n"+rest), 0o600)).To(Succeed())

	requests, err := log.since(place, "me")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(summary(requests, request.isManaged)).To(Equal("1 create configmaps, 1 get secrets (404), 1 list deployments, 1 watch deployments, 1 watch services"))
}

func TestAuditPolicyNamesTheUsers(t *testing.T) {
	NewWithT(t).Expect(string(auditPolicy("a", "b"))).To(ContainSubstring(`users: ["a", "b"]`))
}

func TestPressureLeavesOutWaitingRequests(t *testing.T) {
	g := NewWithT(t)
	requests, err := parseAudit([]byte(`{"stage":"ResponseComplete","verb":"get","user":{"username":"me"},"objectRef":{"resource":"secrets"},"requestReceivedTimestamp":"2026-01-02T03:04:05.000000Z","stageTimestamp":"2026-01-02T03:04:05.500000Z"}
{"stage":"ResponseComplete","verb":"get","user":{"username":"me"},"objectRef":{"resource":"secrets"},"requestReceivedTimestamp":"2026-01-02T03:04:05.100000Z","stageTimestamp":"2026-01-02T03:04:06.000000Z"}
{"stage":"ResponseStarted","verb":"watch","user":{"username":"me"},"objectRef":{"resource":"secrets"},"requestReceivedTimestamp":"2026-01-02T03:04:05.100000Z","stageTimestamp":"2026-01-02T03:09:06.000000Z"}
`), "me")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pressure(requests)).To(Equal("2, on average 1.4 at a time, each 700ms"))
	g.Expect(pressure(nil)).To(Equal("none"))
}

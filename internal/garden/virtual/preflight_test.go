package virtual

import (
	"testing"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

func TestRemovedAPIsAreThoseThatTheWantedVersionDoesNotHave(t *testing.T) {
	g := NewWithT(t)
	metrics := []byte(`# HELP apiserver_requested_deprecated_apis Deprecated APIs that were requested.
# TYPE apiserver_requested_deprecated_apis gauge
apiserver_requested_deprecated_apis{group="a.example.com",removed_release="1.36",resource="tests",subresource="",version="v1beta1"} 1
apiserver_requested_deprecated_apis{group="a.example.com",removed_release="1.36",resource="tests",subresource="status",version="v1beta1"} 1
apiserver_requested_deprecated_apis{group="a.example.com",removed_release="1.37",resource="later",subresource="",version="v1beta1"} 1
apiserver_requested_deprecated_apis{group="",removed_release="1.35",resource="olds",subresource="",version="v1"} 1
apiserver_requested_deprecated_apis{group="",removed_release="",resource="endpoints",subresource="",version="v1"} 1
`)
	removed, err := removedAPIs(metrics, version.MustParseSemantic("1.36.3"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(removed).To(Equal([]string{"olds.v1 (removed in 1.35)", "tests.v1beta1.a.example.com (removed in 1.36)"}))
	removed, err = removedAPIs(nil, version.MustParseSemantic("1.36.3"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(removed).To(BeEmpty())
}

func TestEtcdsThatAreAlmostFull(t *testing.T) {
	g := NewWithT(t)
	metrics := []byte(`# TYPE apiserver_storage_size_bytes gauge
apiserver_storage_size_bytes{storage_cluster_id="etcd-0"} 8.1e+09
apiserver_storage_size_bytes{storage_cluster_id="etcd-1"} 2.0e+07
`)
	quota := resource.MustParse("8Gi")
	g.Expect(fullEtcds(metrics, quota)).To(Equal([]string{"etcd-0 is filled to 94%"}))
	g.Expect(fullEtcds(metrics, resource.MustParse("16Gi"))).To(BeEmpty())
	g.Expect(fullEtcds(nil, quota)).To(BeEmpty())
	_, err := fullEtcds([]byte("no metric"), quota)
	g.Expect(err).To(MatchError(HavePrefix("read metrics of the virtual cluster: ")))
}

func TestEtcdNeedsARecentBackupIfItHasAStore(t *testing.T) {
	etcd := func(store bool, reported ...druidcorev1alpha1.Condition) *druidcorev1alpha1.Etcd {
		e := &druidcorev1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "main"}}
		if store {
			e.Spec.Backup.Store = &druidcorev1alpha1.StoreSpec{}
		}
		e.Status.Conditions, e.Status.Ready = reported, new(bool)
		*e.Status.Ready = true
		return e
	}
	reports := func(status druidcorev1alpha1.ConditionStatus) druidcorev1alpha1.Condition {
		return druidcorev1alpha1.Condition{Type: "BackupReady", Status: status, Message: "a message"}
	}
	for sentence, tc := range map[string]struct {
		etcd    *druidcorev1alpha1.Etcd
		skipped []string
		want    string
	}{
		"no store":         {etcd: etcd(false)},
		"a recent backup":  {etcd: etcd(true, reports("True"))},
		"not reported yet": {etcd: etcd(true), want: "etcd-druid does not report a recent backup of Etcd garden/main; wait until"},
		"unknown":          {etcd: etcd(true, reports("Unknown")), want: "etcd-druid does not report a recent backup of Etcd garden/main; wait"},
		"backups fail":     {etcd: etcd(true, reports("False")), want: "backups of Etcd garden/main fail: a message; repair them, or skip"},
		"skipped":          {etcd: etcd(true), skipped: []string{"etcd-backup"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			problems := checks{skipped: tc.skipped}.etcdProblems(tc.etcd)
			if tc.want == "" {
				g.Expect(problems).To(BeEmpty())
				return
			}
			g.Expect(problems).To(ConsistOf(And(HavePrefix(tc.want), HaveSuffix("espalier.dev/skipped-checks=etcd-backup"))))
		})
	}
}

func TestLastBackupBeforeARotationIsRecent(t *testing.T) {
	now := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	lease := func(age time.Duration) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: new(metav1.NewMicroTime(now.Add(-age)))}}
	}
	const old = "the last backup of Etcd garden/main is from 2026-01-01T11:00:00Z; repair its backups"
	for sentence, tc := range map[string]struct {
		leases []*coordinationv1.Lease
		period time.Duration
		want   string
	}{
		"no Leases":                          {leases: []*coordinationv1.Lease{nil, nil}},
		"no times":                           {leases: []*coordinationv1.Lease{{}, nil}},
		"a recent incremental snapshot":      {leases: []*coordinationv1.Lease{lease(20 * time.Hour), lease(time.Minute)}},
		"a recent full snapshot":             {leases: []*coordinationv1.Lease{lease(time.Minute), lease(time.Hour)}},
		"a full snapshot only, which is old": {leases: []*coordinationv1.Lease{lease(time.Hour), nil}, want: old},
		"both are old":                       {leases: []*coordinationv1.Lease{lease(2 * time.Hour), lease(time.Hour)}, want: old},
		"incremental snapshots are rare":     {leases: []*coordinationv1.Lease{nil, lease(time.Hour)}, period: 40 * time.Minute},
	} {
		t.Run(sentence, func(t *testing.T) {
			live := &druidcorev1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "main"}}
			live.Spec.Backup.DeltaSnapshotPeriod = &metav1.Duration{Duration: tc.period}
			got := oldBackupProblem(live, tc.leases, now)
			if tc.want == "" {
				NewWithT(t).Expect(got).To(BeEmpty())
				return
			}
			NewWithT(t).Expect(got).To(And(HavePrefix(tc.want), HaveSuffix("espalier.dev/skipped-checks=etcd-backup")))
		})
	}
}

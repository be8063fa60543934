package etcd_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	druidapicommon "github.com/gardener/etcd-druid/api/common"
	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

var now = time.Date(2026, time.March, 4, 5, 6, 7, 0, time.UTC)

func secretsOf(role etcd.Role) etcd.Secrets {
	return etcd.Secrets{
		CA: "ca-etcd-bundle-1", Server: "etcd-server-" + string(role) + "-1", Client: "etcd-client-1",
		PeerCA: "ca-etcd-peer-bundle-1", PeerServer: "etcd-peer-server-" + string(role) + "-1",
	}
}

// plain returns values with a window from 21:00 to 22:00 UTC.
func plain(changes ...func(*values.Values)) values.Values {
	v := values.Values{
		Operator:              values.Operator{Namespace: "garden", RuntimeKubernetes: version.MustParseSemantic("1.34.0")},
		VerticalPodAutoscaler: true, GardenUID: "abcdef", GardenCreated: now,
		Maintenance: values.Maintenance{
			Window: operatorv1alpha1.MaintenanceTimeWindow{Begin: "220000+0100", End: "230000+0100"}, Begin: 21 * time.Hour, Length: time.Hour,
		},
	}
	for _, each := range changes {
		each(&v)
	}
	return v
}

func highlyAvailable(v *values.Values) { v.HighAvailability = true }
func topologyAware(v *values.Values)   { v.TopologyAwareRouting = true }
func oldRuntime(v *values.Values)      { v.RuntimeKubernetes = version.MustParseSemantic("1.33.4") }
func withoutWindow(v *values.Values)   { v.Maintenance = values.Maintenance{} }
func ownAutoscaler(v *values.Values)   { v.VerticalPodAutoscaler = false }
func backup(bucket *string) func(*values.Values) {
	return func(v *values.Values) {
		v.ETCDMain.Backup = &operatorv1alpha1.Backup{
			Provider: "S3", BucketName: bucket, SecretRef: corev1.LocalObjectReference{Name: "backup-credentials"},
		}
	}
}

func configured(v *values.Values) {
	list := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi"), corev1.ResourceCPU: resource.MustParse("10m")}
	storage := &operatorv1alpha1.Storage{Capacity: ptr.To(resource.MustParse("7Gi")), ClassName: ptr.To("fast")}
	v.ETCDMain.Autoscaling, v.ETCDMain.Storage = &operatorv1alpha1.Autoscaling{MinAllowed: list}, storage
	v.ETCDEvents.Autoscaling, v.ETCDEvents.Storage = &operatorv1alpha1.Autoscaling{MinAllowed: list}, storage
	v.ETCDConfig = config.ETCDConfig{
		BackupLeaderElection: &config.ETCDBackupLeaderElection{
			ReelectionPeriod: &metav1.Duration{Duration: 11 * time.Second}, ETCDConnectionTimeout: &metav1.Duration{Duration: 6 * time.Second},
		},
		DeltaSnapshotRetentionPeriod: &metav1.Duration{Duration: 48 * time.Hour},
	}
}

func objects(v values.Values) []client.Object {
	var all []client.Object
	for _, role := range []etcd.Role{etcd.Main, etcd.Events} {
		all = append(all, etcd.Request(etcd.Object(v, role, secretsOf(role), nil), nil, now), etcd.Autoscaler(v, role, nil))
	}
	return all
}

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	goldentest.Compare(t, "plain", map[string][]client.Object{
		"plain":                objects(plain()),
		"ha":                   objects(plain(highlyAvailable)),
		"topology":             objects(plain(topologyAware)),
		"topology-old-runtime": objects(plain(topologyAware, oldRuntime)),
		"own-vpa":              objects(plain(ownAutoscaler)),
		"backup":               objects(plain(backup(ptr.To("bucket")))),
		"configured":           objects(plain(backup(ptr.To("bucket/a/b/")), configured)),
		"full":                 objects(plain(highlyAvailable, topologyAware, backup(nil), configured)),
	})
}

// Another controller of the operator sets eviction requirements, and a reconciliation of the Garden must not undo that.
func TestEvictionRequirementsOfALiveAutoscalerStay(t *testing.T) {
	g := NewWithT(t)
	policy := func(live *unstructured.Unstructured) map[string]any {
		autoscaler, ok := etcd.Autoscaler(plain(), etcd.Events, live).(*unstructured.Unstructured)
		g.Expect(ok).To(BeTrue())
		found, _, err := unstructured.NestedMap(autoscaler.Object, "spec", "updatePolicy")
		g.Expect(err).NotTo(HaveOccurred())
		return found
	}
	requirements := []any{map[string]any{"resources": []any{"cpu"}, "changeRequirement": "TargetHigherThanRequests"}}
	live := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"updatePolicy": map[string]any{
		"updateMode": "Off", "evictionRequirements": requirements,
	}}}}
	g.Expect(policy(live)).To(Equal(map[string]any{"updateMode": "InPlaceOrRecreate", "evictionRequirements": requirements}))
	for _, without := range []*unstructured.Unstructured{nil, {Object: map[string]any{"spec": map[string]any{}}}} {
		g.Expect(policy(without)).To(Equal(map[string]any{"updateMode": "InPlaceOrRecreate"}))
	}
}

// Events are the least trusted data of the garden: any user of the virtual cluster causes them.
func TestEventsEtcdCannotReachBackups(t *testing.T) {
	g := NewWithT(t)
	events := etcd.Object(plain(highlyAvailable, backup(ptr.To("bucket")), configured), etcd.Events, secretsOf(etcd.Events), nil)
	g.Expect(events.Spec.Backup.Store).To(BeNil())
	g.Expect(json.Marshal(events)).NotTo(ContainSubstring("backup-credentials"))
	g.Expect(events.Spec.Labels).NotTo(Or(
		HaveKey("networking.gardener.cloud/to-public-networks"), HaveKey("networking.gardener.cloud/to-private-networks"),
		HaveKey("networking.resources.gardener.cloud/to-virtual-garden-etcd-events-client-tcp-8080"),
	))
	g.Expect(events.Spec.Labels).To(HaveKey("networking.resources.gardener.cloud/to-virtual-garden-etcd-events-client-tcp-2380"))
}

func TestContainerOfARunningEtcdStaysIfTheGardenNamesNone(t *testing.T) {
	g := NewWithT(t)
	container := func(v values.Values, live *druidcorev1alpha1.Etcd) string {
		return *etcd.Object(v, etcd.Main, secretsOf(etcd.Main), live).Spec.Backup.Store.Container
	}
	live := etcd.Object(plain(backup(ptr.To("mine/prefix"))), etcd.Main, secretsOf(etcd.Main), nil)
	g.Expect(container(plain(backup(nil)), live)).To(Equal("mine"))
	g.Expect(container(plain(backup(ptr.To("other"))), live)).To(Equal("other"))
	g.Expect(container(plain(backup(nil)), nil)).To(HavePrefix("garden-"))
}

func TestSchedulesNeverChange(t *testing.T) {
	g := NewWithT(t)
	main := func(v values.Values, live *druidcorev1alpha1.Etcd) []string {
		o := etcd.Object(v, etcd.Main, secretsOf(etcd.Main), live)
		return []string{*o.Spec.Etcd.DefragmentationSchedule, *o.Spec.Backup.FullSnapshotSchedule}
	}
	v := plain(backup(nil))
	first := main(v, nil)
	live := etcd.Object(v, etcd.Main, secretsOf(etcd.Main), nil)
	moved := plain(backup(nil), func(v *values.Values) { v.Maintenance.Begin, v.Maintenance.Length = 3*time.Hour, 2*time.Hour })
	g.Expect(main(moved, nil)).NotTo(Equal(first))
	g.Expect(main(moved, live)).To(Equal(first))
	g.Expect(main(plain(backup(nil), withoutWindow), nil)).To(Equal([]string{"6 5 * * *", "6 5 * * *"}))
	midnight := plain(backup(nil), func(v *values.Values) { v.Maintenance.Begin, v.GardenUID = 0, "" })
	g.Expect(main(midnight, nil)).To(Equal([]string{"0 0 * * *", "45 22 * * *"}))
}

func TestStorageNeverChanges(t *testing.T) {
	for name, live := range map[string]druidcorev1alpha1.EtcdSpec{
		"another class": {StorageCapacity: ptr.To(resource.MustParse("3Gi")), StorageClass: ptr.To("slow")},
		"no class":      {StorageCapacity: ptr.To(resource.MustParse("3Gi"))},
	} {
		g := NewWithT(t)
		got := etcd.Object(plain(configured), etcd.Main, secretsOf(etcd.Main), &druidcorev1alpha1.Etcd{Spec: live}).Spec
		g.Expect(got.StorageCapacity.String()).To(Equal("3Gi"), name)
		g.Expect(got.StorageClass).To(Equal(live.StorageClass), name)
	}
}

func TestChangeOfTheStorageClassIsAProblem(t *testing.T) {
	live := func(class *string) *druidcorev1alpha1.Etcd {
		return &druidcorev1alpha1.Etcd{Spec: druidcorev1alpha1.EtcdSpec{StorageClass: class}}
	}
	for want, got := range map[string]string{
		"": etcd.StorageProblem(plain(configured), etcd.Main, live(ptr.To("fast"))) + etcd.StorageProblem(plain(), etcd.Events, live(nil)),
		`spec.virtualCluster.etcd.main.storage.className: Invalid value: "fast": field is immutable: ` +
			`Etcd virtual-garden-etcd-main has the StorageClass "slow"`: etcd.StorageProblem(plain(configured), etcd.Main, live(ptr.To("slow"))),
		`spec.virtualCluster.etcd.events.storage.className: Invalid value: "": field is immutable: ` +
			`Etcd virtual-garden-etcd-events has the StorageClass "slow"`: etcd.StorageProblem(plain(), etcd.Events, live(ptr.To("slow"))),
	} {
		NewWithT(t).Expect(got).To(Equal(want))
	}
}

// reconciled returns an Etcd in the state in which etcd-druid leaves it after a reconciliation, with changes.
func reconciled(changes ...func(*druidcorev1alpha1.Etcd)) *druidcorev1alpha1.Etcd {
	o := etcd.Object(plain(), etcd.Main, secretsOf(etcd.Main), nil)
	o.Generation = 3
	o.Annotations = map[string]string{"gardener.cloud/timestamp": "2026-03-04T05:06:07Z"}
	o.Status = druidcorev1alpha1.EtcdStatus{
		ObservedGeneration: ptr.To[int64](3), Ready: ptr.To(true),
		Conditions: []druidcorev1alpha1.Condition{
			{Type: druidcorev1alpha1.ConditionTypeAllMembersUpdated, Status: druidcorev1alpha1.ConditionTrue},
		},
	}
	for _, each := range changes {
		each(o)
	}
	return o
}

func pending(o *druidcorev1alpha1.Etcd)  { o.Annotations["gardener.cloud/operation"] = "reconcile" }
func outdated(o *druidcorev1alpha1.Etcd) { o.Status.ObservedGeneration = ptr.To[int64](2) }
func failed(o *druidcorev1alpha1.Etcd) {
	o.Status.LastErrors = []druidapicommon.LastError{{Code: "ERR_A", Description: "boom"}}
}

func TestReconciliationIsRequestedWhereItIsNeeded(t *testing.T) {
	for sentence, tc := range map[string]struct {
		live    *druidcorev1alpha1.Etcd
		changes []func(*values.Values)
		want    bool
	}{
		"nothing changes":              {live: reconciled()},
		"there is no Etcd":             {want: true},
		"the specification changes":    {live: reconciled(), changes: []func(*values.Values){topologyAware}, want: true},
		"the last one failed":          {live: reconciled(failed), want: true},
		"the last one is not complete": {live: reconciled(pending), want: true},
		"the last one has not begun":   {live: reconciled(outdated), want: true},
		"a quantity is written in other way": {
			live: reconciled(func(o *druidcorev1alpha1.Etcd) { o.Spec.Etcd.Quota = ptr.To(resource.MustParse("8192Mi")) }),
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			got := etcd.Request(etcd.Object(plain(tc.changes...), etcd.Main, secretsOf(etcd.Main), tc.live), tc.live, now)
			if !tc.want {
				g.Expect(got.Annotations).To(BeEmpty())
				return
			}
			g.Expect(got.Annotations).To(Equal(map[string]string{
				"gardener.cloud/operation": "reconcile", "gardener.cloud/timestamp": "2026-03-04T05:06:07Z",
			}))
		})
	}
}

func TestWhyAnEtcdIsNotReady(t *testing.T) {
	members := func(status druidcorev1alpha1.ConditionStatus) func(*druidcorev1alpha1.Etcd) {
		return func(o *druidcorev1alpha1.Etcd) {
			o.Status.Conditions[0].Status, o.Status.Conditions[0].Message = status, "1 of 3"
		}
	}
	for want, live := range map[string]*druidcorev1alpha1.Etcd{
		"": reconciled(),
		"the request for its reconciliation was overwritten": reconciled(func(o *druidcorev1alpha1.Etcd) { o.Annotations = nil }),
		"etcd-druid reports errors: boom (ERR_A)":            reconciled(failed),
		"it is being deleted": reconciled(func(o *druidcorev1alpha1.Etcd) {
			o.DeletionTimestamp = &metav1.Time{}
		}),
		"etcd-druid has not reconciled it yet": reconciled(outdated),
		"its StatefulSet is not ready":         reconciled(func(o *druidcorev1alpha1.Etcd) { o.Status.Ready = nil }),
		"not all members are updated: 1 of 3":  reconciled(members(druidcorev1alpha1.ConditionFalse)),
		"etcd-druid has not reported yet whether all members are updated": reconciled(func(o *druidcorev1alpha1.Etcd) {
			o.Status.Conditions = nil
		}),
	} {
		g := NewWithT(t)
		g.Expect(etcd.Problem(live, etcd.Request(reconciled(), nil, now))).To(Equal(want))
	}
	g := NewWithT(t)
	g.Expect(etcd.Problem(reconciled(pending), reconciled())).To(Equal("etcd-druid has not reconciled it yet"))
	stopped := reconciled(func(o *druidcorev1alpha1.Etcd) { o.Spec.Replicas, o.Status.Ready, o.Status.Conditions = 0, nil, nil })
	g.Expect(etcd.Problem(stopped, reconciled())).To(BeEmpty())
}

func TestPeersTrustANewAuthorityFirst(t *testing.T) {
	g := NewWithT(t)
	live := etcd.Object(plain(highlyAvailable), etcd.Main, secretsOf(etcd.Main), nil)
	changed := etcd.WithPeerAuthority(live, "ca-etcd-peer-bundle-2", now)
	g.Expect(changed.Annotations).To(HaveKeyWithValue("gardener.cloud/operation", "reconcile"))
	g.Expect(changed.Spec.Etcd.PeerUrlTLS.TLSCASecretRef.Name).To(Equal("ca-etcd-peer-bundle-2"))
	changed.Spec.Etcd.PeerUrlTLS.TLSCASecretRef.Name = "ca-etcd-peer-bundle-1"
	g.Expect(changed.Spec).To(BeComparableTo(live.Spec))
	g.Expect(etcd.WithPeerAuthority(live, "ca-etcd-peer-bundle-1", now)).To(BeComparableTo(live))
	single := reconciled()
	g.Expect(etcd.WithPeerAuthority(single, "ca-etcd-peer-bundle-2", now)).To(BeComparableTo(single))
}

func TestSnapshots(t *testing.T) {
	g := NewWithT(t)
	g.Expect(etcd.SnapshotURL(plain())).To(BeEmpty())
	g.Expect(etcd.SnapshotURL(plain(backup(nil)))).To(Equal("https://virtual-garden-etcd-main-client.garden:8080/snapshot/full?final=true"))
	g.Expect(etcd.JudgeSnapshot(http.StatusOK)).To(Succeed())
	g.Expect(etcd.JudgeSnapshot(http.StatusMethodNotAllowed)).To(MatchError(etcd.ErrNoBackupLeader))
	g.Expect(etcd.JudgeSnapshot(http.StatusInternalServerError)).To(MatchError("taking the snapshot failed with status 500"))
}

package lifecycle_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/lifecycle"
)

// cachedGarden is a cache with one Garden, nil for none.
type cachedGarden struct {
	client.Reader
	garden *operatorv1alpha1.Garden
}

func (c *cachedGarden) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if found, isList := list.(*operatorv1alpha1.GardenList); isList && c.garden != nil {
		found.Items = []operatorv1alpha1.Garden{*c.garden}
	}
	return nil
}

// samples returns the metrics in a registry: for each the suffix of its name, with the values of its labels, and its value. Counters of 0
// are left out.
func samples(g *WithT, registry *prometheus.Registry) map[string]float64 {
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	found := map[string]float64{}
	for _, family := range families {
		for _, each := range family.GetMetric() {
			key := []string{strings.TrimPrefix(family.GetName(), "espalier_garden_")}
			for _, label := range each.GetLabel() {
				key = append(key, label.GetValue())
			}
			if value := each.GetGauge().GetValue() + each.GetCounter().GetValue(); each.GetCounter() == nil || value > 0 {
				found[strings.Join(key, " ")] = value
			}
		}
	}
	return found
}

func TestMetricsShowTheStatus(t *testing.T) {
	g := NewWithT(t)
	at := func(seconds int64) metav1.Time { return metav1.Unix(seconds, 0) }
	condition := func(kind corev1beta1.ConditionType, status corev1beta1.ConditionStatus, since int64) corev1beta1.Condition {
		return corev1beta1.Condition{Type: kind, Status: status, LastTransitionTime: at(since)}
	}
	cached, registry := &cachedGarden{}, prometheus.NewRegistry()
	lifecycle.NewMetrics(registry, cached)
	checks := map[string]float64{
		"preflight_failing kubernetes-version": 0, "preflight_failing deprecated-apis": 0, "preflight_failing etcd-backup": 0,
	}
	g.Expect(samples(g, registry)).To(Equal(checks), "there is no Garden")
	cached.garden = &operatorv1alpha1.Garden{}
	g.Expect(samples(g, registry)).To(HaveKeyWithValue("backup_configured", 0.0))
	cached.garden.Spec.VirtualCluster.ETCD = &operatorv1alpha1.ETCD{Main: &operatorv1alpha1.ETCDMain{Backup: &operatorv1alpha1.Backup{}}}
	cached.garden = &operatorv1alpha1.Garden{Spec: cached.garden.Spec, Status: operatorv1alpha1.GardenStatus{
		Conditions: []corev1beta1.Condition{
			condition("RuntimeComponentsHealthy", "False", 5), condition("VirtualComponentsHealthy", "True", 6),
			condition("ReconciliationPaused", "True", 7),
		},
		LastOperation: &operatorv1alpha1.LastOperation{Type: "Reconcile", State: "Succeeded", LastUpdateTime: at(100)},
		Tasks: []operatorv1alpha1.Task{
			{Name: "a", State: "Succeeded", Since: at(1)},
			{Name: "b", State: "Running", Since: at(2)},
			{Name: "c", State: "Failed", Since: at(3)},
			{Name: "d", State: "Pending", Since: at(4)},
			{Name: "e", State: "Pending", Since: at(4)},
		},
		Credentials: &operatorv1alpha1.Credentials{Rotation: &operatorv1alpha1.CredentialsRotation{
			CertificateAuthorities: &operatorv1alpha1.Rotation{
				Phase: "Prepared", LastInitiationTime: ptr.To(at(10)), LastInitiationFinishedTime: ptr.To(at(20)),
			},
			ServiceAccountKey: &operatorv1alpha1.Rotation{
				Phase: "Completing", LastInitiationTime: ptr.To(at(15)), AbortedInitiationTime: ptr.To(at(14)),
			},
			Observability: &operatorv1alpha1.ObservabilityRotation{LastInitiationTime: ptr.To(at(30)), LastCompletionTime: ptr.To(at(29))},
		}},
	}}
	want := map[string]float64{
		"condition_since_timestamp_seconds RuntimeComponentsHealthy False":       5,
		"condition_since_timestamp_seconds VirtualComponentsHealthy True":        6,
		"condition_since_timestamp_seconds ReconciliationPaused True":            7,
		"paused_since_timestamp_seconds":                                         7,
		"rotation_phase_since_timestamp_seconds certificateAuthorities Prepared": 20,
		"rotation_phase_since_timestamp_seconds serviceAccountKey Completing":    15, // the status has no later time
		"rotation_phase_since_timestamp_seconds observability Preparing":         30,
		"rotation_aborting serviceAccountKey":                                    1,
		"task_since_timestamp_seconds running b":                                 2,
		"task_since_timestamp_seconds failed c":                                  3,
		"tasks pending":                                                          2,
		"tasks running":                                                          1,
		"tasks failed":                                                           1,
		"tasks succeeded":                                                        1,
		"tasks skipped":                                                          0,
		"last_success_timestamp_seconds":                                         100,
		"backup_configured":                                                      1,
		"last_operation reconcile Processing":                                    0,
		"last_operation reconcile Succeeded":                                     1,
		"last_operation reconcile Error":                                         0,
	}
	maps.Copy(want, checks)
	g.Expect(samples(g, registry)).To(Equal(want))

	cached.garden.Status.LastOperation = &operatorv1alpha1.LastOperation{Type: "Reconcile", State: "Error", LastUpdateTime: at(200)}
	want["last_operation reconcile Succeeded"], want["last_operation reconcile Error"] = 0, 1
	g.Expect(samples(g, registry)).To(Equal(want), "the last success stays")
	cached.garden.UID = "another"
	g.Expect(samples(g, registry)).NotTo(HaveKey("last_success_timestamp_seconds"))
}

func TestMetricsCountOperationsAndWrites(t *testing.T) {
	s := newInstalledScene(t)
	registry := prometheus.NewRegistry()
	s.reconciler.Metrics = lifecycle.NewMetrics(registry, s.admin)
	s.reconciler.Client = s.reconciler.Metrics.Counting(s.reconciler.Client)
	counted := func(family string) map[string]float64 {
		t.Helper()
		found := samples(s.WithT, registry)
		for key := range found {
			if !strings.HasPrefix(key, family) {
				delete(found, key)
			}
		}
		return found
	}
	s.mustReconcile()
	s.Expect(counted("reconciles_total")).To(Equal(map[string]float64{"reconciles_total reconcile succeeded": 1}))
	s.Expect(counted("writes_total")).To(BeEmpty(), "nothing has changed")
	s.Expect(counted("last_success")).To(HaveKeyWithValue("last_success_timestamp_seconds", float64(s.clock.Now().Unix())))

	s.clock.SetTime(s.clock.Now().Add(time.Hour))
	etcds := s.etcd("virtual-garden-etcd-main")
	s.Expect(s.admin.Delete(t.Context(), etcds)).To(Succeed())
	s.mustReconcile()
	s.Expect(counted("writes_total")).To(HaveKeyWithValue("writes_total Etcd create", 1.0))

	s.lose("ca")
	_, err := s.reconcile()
	s.Expect(err).To(HaveOccurred())
	s.Expect(counted("reconciles_total")).To(HaveKeyWithValue("reconciles_total reconcile failed", 1.0))
	s.Expect(counted("last_success")).To(HaveKeyWithValue("last_success_timestamp_seconds", float64(s.clock.Now().Unix())))
}

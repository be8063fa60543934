package applier

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// knownManagers are the field managers that are values of a label of the drift metrics. All other field managers count as "other", so that
// the number of time series stays bounded. If the field manager is not known, the value is "unknown". If the field manager is known, the
// Event about a repair names it.
var knownManagers = []string{
	"kubectl", "kubectl-client-side-apply", "kubectl-edit", "kubectl-patch", "kubectl-scale", "kubectl-label", "kubectl-annotate",
	"kubectl-replace",
	"helm", "Helm", "argocd-controller", "kustomize-controller", "helm-controller", "terraform", "kube-controller-manager",
	"cluster-autoscaler",
	"gardener-resource-manager", "gardenlet", "espalier",
}

// Metrics are the metrics of the ManagedResource controller.
type Metrics struct {
	repairs  *prometheus.CounterVec
	reports  *prometheus.CounterVec
	duration prometheus.Histogram
	saved    prometheus.Counter
	claimed  prometheus.Counter
	objects  *prometheus.GaugeVec
	// unwatched counts the objects that no watch covers. Each costs a read in each sync period.
	unwatched prometheus.Gauge

	mu   sync.Mutex
	sets map[types.NamespacedName]counts
}

type counts struct{ applied, failed, claimed, unwatched int }

// NewMetrics registers the metrics. The function watches returns the number of watches on managed objects. The function secrets returns the
// number of Secrets in the source whose versions are stored.
func NewMetrics(registry prometheus.Registerer, watches, secrets func() int) *Metrics {
	m := &Metrics{
		repairs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "espalier_managedresource_drift_repairs_total",
			Help: "Objects restored after another client changed or deleted them, by kind and field manager.",
		}, []string{"group", "kind", "manager"}),
		// Only for sets with the annotation `espalier.dev/drift: report`.
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "espalier_managedresource_drift_reports_total",
			Help: "Objects that another client changed or deleted and that were not restored, by kind and field manager.",
		}, []string{"group", "kind", "manager"}),
		// From the beginning of the reconciliation to the last answer. It does not include the wait for deletions.
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "espalier_managedresource_apply_duration_seconds", Help: "Time to bring one set that needed requests to its desired state.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 14),
		}),
		saved: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "espalier_managedresource_requests_saved_total", Help: "Comparisons of an object with its desired state that needed no request.",
		}),
		claimed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "espalier_managedresource_claims_lost_total", Help: "Objects left to another set that wants them as well.",
		}),
		// States are `applied`, `failed` and `claimed` (another ManagedResource has the object). Counted when a set is reconciled. If the
		// Secrets of a set cannot be read, the set keeps its last figures.
		objects: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "espalier_managedresource_objects", Help: "Objects of all sets by state: applied, failed, or claimed by another set.",
		}, []string{"state"}),
		// Not 0: grant `list` and `watch`, see docs/security.md, with `lockdown` to ServiceAccounts, see docs/teams.md.
		unwatched: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "espalier_managedresource_unwatched_objects", Help: "Objects that no granted watch covers: they are read once in each sync " +
				"period.",
		}),
		sets: map[types.NamespacedName]counts{},
	}
	// One watch for each kind where a cluster-wide watch is allowed, else one watch for each kind and namespace. One more watch for each
	// object whose manifest has the annotation `ignore`. With `lockdown`, each ServiceAccount has watches of its own.
	running := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "espalier_managedresource_watches", Help: "Watches on managed objects.",
	}, func() float64 { return float64(watches()) })
	// These are the Secrets of sets and, for a moment, Secrets with the finalizer. All others are not counted, and take no memory.
	tracked := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "espalier_managedresource_tracked_secrets", Help: "Secrets of the source whose versions are kept.",
	}, func() float64 { return float64(secrets()) })
	registry.MustRegister(m.repairs, m.reports, m.duration, m.saved, m.claimed, m.objects, m.unwatched, running, tracked)
	return m
}

func (m *Metrics) addRepair(kind schema.GroupVersionKind, manager string) {
	m.repairs.WithLabelValues(kind.Group, kind.Kind, managerLabel(manager)).Inc()
}

func (m *Metrics) addReport(kind schema.GroupVersionKind, manager string) {
	m.reports.WithLabelValues(kind.Group, kind.Kind, managerLabel(manager)).Inc()
}

// managerLabel returns the value of a label for a field manager.
func managerLabel(manager string) string {
	switch {
	case manager == "":
		return "unknown"
	case !slices.Contains(knownManagers, manager):
		return "other"
	}
	return manager
}

// updateObjects replaces the counts of one set in the metric of objects by state. For a set that does not exist any more, next is zero.
func (m *Metrics) updateObjects(set types.NamespacedName, next counts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(m.sets[set], -1)
	m.add(next, 1)
	m.sets[set] = next
	if next == (counts{}) {
		delete(m.sets, set)
	}
}

func (m *Metrics) add(c counts, sign float64) {
	m.objects.WithLabelValues("applied").Add(sign * float64(c.applied))
	m.objects.WithLabelValues("failed").Add(sign * float64(c.failed))
	m.objects.WithLabelValues("claimed").Add(sign * float64(c.claimed))
	m.unwatched.Add(sign * float64(c.unwatched))
}

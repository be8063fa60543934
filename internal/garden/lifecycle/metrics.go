package lifecycle

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
	"github.com/espalier-dev/espalier/internal/process"
)

// Values of label outcome.
const (
	outcomeSucceeded = "succeeded"
	outcomeFailed    = "failed"
	outcomeOutdated  = "outdated"
)

// scrapePatience is how long a scrape waits for a cache that has not synced. After that, it sends nothing about the status of Gardens.
const scrapePatience = time.Second

// Metrics count operations, failures and writes of the main loop. The methods that count do nothing if the pointer is nil.
type Metrics struct {
	operations, failures, writes *prometheus.CounterVec
	preflight                    *prometheus.GaugeVec

	conditions, rotations, aborts, lastOperation, tasks, taskSince, lastSuccess, paused, backup *prometheus.Desc
	// latest is the latest known success of a Garden. Status.lastOperation does not show it while the next operation runs or fails.
	latest atomic.Pointer[success]
}

// success is the end of a reconciliation that has succeeded.
type success struct {
	garden types.UID
	at     time.Time
}

// NewMetrics registers the metrics. Those about the status of Gardens are computed at each scrape, from the cache.
func NewMetrics(registry prometheus.Registerer, cached client.Reader) *Metrics {
	m := &Metrics{
		// Operations are `reconcile` and `delete`; outcomes are `succeeded`, `failed` and `outdated` (the Garden was changed meanwhile, and a
		// new operation follows at once). Conflicts are not counted.
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "espalier_garden_reconciles_total", Help: "Operations on Gardens that have ended, by operation and outcome.",
		}, []string{"operation", "outcome"}),
		// `task` is a name in `status.tasks`.
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "espalier_garden_task_failures_total", Help: "Tasks of operations that failed, by task; conflicts aside.",
		}, []string{"task"}),
		// Verbs are `create`, `update`, `patch` and `delete`. Writes of the status of Gardens are not counted. The reconciliation of an unchanged
		// Garden writes nothing else.
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "espalier_garden_writes_total", Help: "Successful writes of objects in the runtime cluster, by kind and verb.",
		}, []string{"kind", "verb"}),
		// Of the last operation that has ended. Checks are `kubernetes-version`, `deprecated-apis` and `etcd-backup`.
		preflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "espalier_garden_preflight_failing",
			Help: "Whether a check stops a change of the Kubernetes version of the virtual cluster (1) or not (0).",
		}, []string{"check"}),
		// One series for each condition in the status, with its current `status`: `True`, `False`, `Unknown` or `Progressing`. Every replica has
		// this metric and the following ones.
		conditions: prometheus.NewDesc("espalier_garden_condition_since_timestamp_seconds",
			"When a condition of the Garden got its current status, in seconds since 1970.", []string{"condition", "status"}, nil),
		// `credential` is the field of `status.credentials.rotation`. A rotation in one step has a phase only while it is going on: `Preparing`.
		rotations: prometheus.NewDesc("espalier_garden_rotation_phase_since_timestamp_seconds",
			"When the rotation of a credential entered its current phase, in seconds since 1970.", []string{"credential", "phase"}, nil),
		// Absent while no abort is going on. `credential` is as above.
		aborts: prometheus.NewDesc("espalier_garden_rotation_aborting", "1 for each rotation that leads back to the former credential.",
			[]string{"credential"}, nil),
		// States are `Processing`, `Succeeded` and `Error`; operations are as above.
		lastOperation: prometheus.NewDesc("espalier_garden_last_operation",
			"Whether the current or last operation is in this state (1) or not (0).", []string{"operation", "state"}, nil),
		// States are `pending`, `running`, `failed`, `succeeded` and `skipped`.
		tasks: prometheus.NewDesc("espalier_garden_tasks", "Tasks of the current or last operation, by state.", []string{"state"}, nil),
		// Only of tasks that are `running` or `failed`. The sentence in `status.tasks` gives the reason.
		taskSince: prometheus.NewDesc("espalier_garden_task_since_timestamp_seconds",
			"When a task that has not succeeded entered its state, in seconds since 1970.", []string{"task", "state"}, nil),
		// Absent before the first success that this process knows of.
		lastSuccess: prometheus.NewDesc("espalier_garden_last_success_timestamp_seconds",
			"When the last reconciliation succeeded, in seconds since 1970.", nil, nil),
		// Absent while the Garden is not paused.
		paused: prometheus.NewDesc("espalier_garden_paused_since_timestamp_seconds",
			"When the reconciliation of the Garden was paused, in seconds since 1970.", nil, nil),
		backup: prometheus.NewDesc("espalier_garden_backup_configured",
			"Whether the Garden has backups of its main etcd (1) or not (0).", nil, nil),
	}
	for _, operation := range []operatorv1alpha1.LastOperationType{
		operatorv1alpha1.LastOperationReconcile, operatorv1alpha1.LastOperationDelete,
	} {
		for _, outcome := range []string{outcomeSucceeded, outcomeFailed, outcomeOutdated} {
			m.operations.WithLabelValues(lower(operation), outcome)
		}
	}
	m.checked(nil)
	registry.MustRegister(m.operations, m.failures, m.writes, m.preflight, process.Collector(func(out chan<- prometheus.Metric) {
		ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
		defer cancel()
		list := &operatorv1alpha1.GardenList{}
		if cached.List(ctx, list, client.UnsafeDisableDeepCopy) == nil && len(list.Items) == 1 {
			m.collect(&list.Items[0], out)
		}
	}, m.conditions, m.rotations, m.aborts, m.lastOperation, m.tasks, m.taskSince, m.lastSuccess, m.paused, m.backup))
	return m
}

// collect sends the metrics about the status of a Garden, which it does not change.
func (m *Metrics) collect(garden *operatorv1alpha1.Garden, out chan<- prometheus.Metric) {
	since := func(description *prometheus.Desc, at time.Time, labels ...string) {
		out <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, float64(at.Unix()), labels...)
	}
	flag := func(description *prometheus.Desc, isTrue bool, labels ...string) {
		out <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, map[bool]float64{true: 1}[isTrue], labels...)
	}
	for _, each := range garden.Status.Conditions {
		since(m.conditions, each.LastTransitionTime.Time, string(each.Type), string(each.Status))
		if each.Type == operatorv1alpha1.ReconciliationPaused && each.Status == corev1beta1.ConditionTrue {
			since(m.paused, each.LastTransitionTime.Time)
		}
	}
	for credential, each := range rotation.Since(garden) {
		since(m.rotations, each.Time, string(credential), string(each.Phase))
		if each.Aborts {
			flag(m.aborts, true, string(credential))
		}
	}
	if last := garden.Status.LastOperation; last != nil {
		for _, each := range []operatorv1alpha1.LastOperationState{
			operatorv1alpha1.LastOperationProcessing, operatorv1alpha1.LastOperationSucceeded, operatorv1alpha1.LastOperationError,
		} {
			flag(m.lastOperation, last.State == each, lower(last.Type), string(each))
		}
	}
	etcd := garden.Spec.VirtualCluster.ETCD
	flag(m.backup, etcd != nil && etcd.Main != nil && etcd.Main.Backup != nil)
	counts := map[operatorv1alpha1.TaskState]int{
		operatorv1alpha1.TaskPending: 0, operatorv1alpha1.TaskRunning: 0, operatorv1alpha1.TaskFailed: 0,
		operatorv1alpha1.TaskSucceeded: 0, operatorv1alpha1.TaskSkipped: 0,
	}
	for _, each := range garden.Status.Tasks {
		counts[each.State]++
		if each.State == operatorv1alpha1.TaskRunning || each.State == operatorv1alpha1.TaskFailed {
			since(m.taskSince, each.Since.Time, each.Name, lower(each.State))
		}
	}
	for state, count := range counts {
		out <- prometheus.MustNewConstMetric(m.tasks, prometheus.GaugeValue, float64(count), lower(state))
	}
	m.saw(garden)
	if latest := m.latest.Load(); latest != nil && latest.garden == garden.UID {
		since(m.lastSuccess, latest.at)
	}
}

// saw remembers when the last reconciliation of a Garden succeeded, if its status shows this success as the last operation. It is called
// before the next operation begins, and at each scrape.
func (m *Metrics) saw(garden *operatorv1alpha1.Garden) {
	last := garden.Status.LastOperation
	if m == nil || last == nil {
		return
	}
	if last.Type != operatorv1alpha1.LastOperationReconcile || last.State != operatorv1alpha1.LastOperationSucceeded {
		return
	}
	m.latest.Store(&success{garden: garden.UID, at: last.LastUpdateTime.Time})
}

// ended counts an operation.
func (m *Metrics) ended(garden *operatorv1alpha1.Garden, outcome string) {
	if m != nil {
		m.operations.WithLabelValues(lower(operationType(garden)), outcome).Inc()
	}
}

// checked shows which checks have failed in an operation, by the error of the operation, which may be nil.
func (m *Metrics) checked(err error) {
	if m == nil {
		return
	}
	for _, each := range virtual.UpgradeChecks() {
		failing := 0.0
		if errors.Is(err, &virtual.CheckError{Check: each}) {
			failing = 1
		}
		m.preflight.WithLabelValues(each).Set(failing)
	}
}

// taskFailed counts a task that failed.
func (m *Metrics) taskFailed(task string) {
	if m != nil {
		m.failures.WithLabelValues(task).Inc()
	}
}

// Counting returns a client whose writes are counted.
func (m *Metrics) Counting(c client.WithWatch) client.WithWatch {
	return counting{WithWatch: c, writes: m.writes}
}

// counting is a client that counts the writes that succeed, except writes of subresources.
type counting struct {
	client.WithWatch
	writes *prometheus.CounterVec
}

func (c counting) count(o client.Object, verb string, err error) error {
	if err != nil {
		return err
	}
	if kind, unknown := apiutil.GVKForObject(o, c.Scheme()); unknown == nil {
		c.writes.WithLabelValues(kind.Kind, verb).Inc()
	}
	return nil
}

func (c counting) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	return c.count(o, "create", c.WithWatch.Create(ctx, o, options...))
}

func (c counting) Update(ctx context.Context, o client.Object, options ...client.UpdateOption) error {
	return c.count(o, "update", c.WithWatch.Update(ctx, o, options...))
}

func (c counting) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	return c.count(o, "patch", c.WithWatch.Patch(ctx, o, patch, options...))
}

func (c counting) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	return c.count(o, "delete", c.WithWatch.Delete(ctx, o, options...))
}

func lower[S ~string](s S) string { return strings.ToLower(string(s)) }

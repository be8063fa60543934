package virtual

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubecontrollermanager"
)

// Names of the checks before the virtual cluster gets a later minor version.
const (
	// CheckDeprecatedAPIs is the check that no client has used an API which the later version does not have.
	CheckDeprecatedAPIs = "deprecated-apis"
	// CheckBackup is the check that etcd-druid does not report failing backups.
	CheckBackup = "etcd-backup"
)

// Names of the checks before a rotation starts, beside CheckBackup and CheckSeeds. Before a rotation, CheckBackup is the check that there
// is a recent backup: etcd-druid reports that snapshots are as recent as their schedule demands, and the last backup is not older than
// oldestBackup allows.
const (
	// CheckETCDs is the check that the etcds are ready.
	CheckETCDs = "etcds"
	// CheckQuota is the check that the data of each etcd are smaller than maxUsed of the smallest quota: a rotation of the encryption key
	// writes all encrypted objects twice.
	CheckQuota = "etcd-quota"
	// CheckRollouts is the check that the API servers and kube-controller-manager are rolled out.
	CheckRollouts = "rollouts"
)

// deprecatedMetric is a metric of API servers. It has a sample for each deprecated API that was requested since the server started.
const deprecatedMetric = "apiserver_requested_deprecated_apis"

// sizeMetric is a metric of kube-apiserver: the size of the data of each etcd, in bytes.
const sizeMetric = "apiserver_storage_size_bytes"

// maxUsed is the part of the quota of an etcd, in percent, from which on no rotation starts.
const maxUsed = 80

// checkUpgrade fails if an upgrade of the virtual cluster to the next minor version would break its users, or could not be undone.
func (c checks) checkUpgrade(ctx context.Context) error {
	return errors.Join(failed(CheckDeprecatedAPIs, c.checkDeprecatedAPIs(ctx)), failed(CheckBackup, c.checkBackup(ctx)))
}

// CheckError is the error of a check before the virtual cluster gets another version of Kubernetes.
type CheckError struct {
	// Check is the name of the check, one of UpgradeChecks.
	Check string
	error
}

// UpgradeChecks returns the names of the checks before the virtual cluster gets another version of Kubernetes.
func UpgradeChecks() []string { return []string{CheckVersionSkew, CheckDeprecatedAPIs, CheckBackup} }

func (e *CheckError) Unwrap() error { return e.error }

// Is reports whether the target is an error of the same check, whatever its cause.
func (e *CheckError) Is(target error) bool {
	other, isCheck := target.(*CheckError)
	return isCheck && other.Check == e.Check
}

// failed returns the error of a check, or nil.
func failed(check string, err error) error {
	if err == nil {
		return nil
	}
	return &CheckError{check, err}
}

// metrics returns the metrics of one of the API servers.
func (c checks) metrics(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	clients, err := c.connection.Clients(ctx)
	if err != nil {
		return nil, err
	}
	return clients.REST.Get().AbsPath("/metrics").DoRaw(ctx)
}

// checkDeprecatedAPIs asks one of the API servers. If none answers, it succeeds, because the upgrade may repair them.
func (c checks) checkDeprecatedAPIs(ctx context.Context) error {
	if c.skips(CheckDeprecatedAPIs) {
		return nil
	}
	metrics, err := c.metrics(ctx)
	if err != nil {
		log.FromContext(ctx).Info("Did not check for deprecated APIs, because the virtual cluster does not answer", "reason", err.Error())
		return nil
	}
	removed, err := removedAPIs(metrics, c.values.Kubernetes)
	if err != nil || len(removed) == 0 {
		return err
	}
	const remedy = "make them use other versions, and restart the Pods of kube-apiserver, which count since they started"
	return fmt.Errorf("clients of the virtual cluster use APIs that Kubernetes %s does not have: %s; %s",
		c.values.Kubernetes, strings.Join(removed, ", "), advice(remedy, CheckDeprecatedAPIs))
}

// removedAPIs returns the APIs in the metrics of an API server that a version of Kubernetes does not have.
func removedAPIs(metrics []byte, wanted *version.Version) ([]string, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(metrics))
	if err != nil {
		return nil, fmt.Errorf("read metrics of the virtual cluster: %w (the annotation %s=%s skips this check)",
			err, operatorv1alpha1.AnnotationSkippedChecks, CheckDeprecatedAPIs)
	}
	var removed []string
	for _, sample := range families[deprecatedMetric].GetMetric() {
		labels := labelsOf(sample)
		in, err := version.ParseGeneric(labels["removed_release"])
		if err != nil || !wanted.AtLeast(in) { // some APIs are only deprecated
			continue
		}
		api := strings.Trim(fmt.Sprintf("%s.%s.%s", labels["resource"], labels["version"], labels["group"]), ".")
		removed = append(removed, fmt.Sprintf("%s (removed in %s)", api, in))
	}
	slices.Sort(removed)
	return slices.Compact(removed), nil
}

func labelsOf(sample *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, each := range sample.GetLabel() {
		labels[each.GetName()] = each.GetValue()
	}
	return labels
}

// quotaProblem asks one of the API servers for the sizes of the etcds, and returns why no rotation must start, or "". Quota is the
// smallest quota of the etcds, or nil. If no API server answers, quotaProblem returns "": a rotation does not go on anyway as long as no
// API server answers.
func (c checks) quotaProblem(ctx context.Context, quota *resource.Quantity) string {
	if quota == nil || c.skips(CheckQuota) {
		return ""
	}
	metrics, err := c.metrics(ctx)
	if err != nil {
		log.FromContext(ctx).Info("Did not check the quota of etcds, because the virtual cluster does not answer", "reason", err.Error())
		return ""
	}
	full, err := fullEtcds(metrics, *quota)
	switch {
	case err != nil:
		return fmt.Sprintf("%s; %s", err, advice("make it answer with metrics", CheckQuota))
	case len(full) > 0:
		return fmt.Sprintf("kube-apiserver reports for its etcds, whose quota is %s: %s; %s", quota, strings.Join(full, ", "),
			advice("delete objects that nobody needs, and wait for the next defragmentation", CheckQuota))
	}
	return ""
}

// fullEtcds returns the etcds in the metrics of an API server that use at least maxUsed of a quota.
func fullEtcds(metrics []byte, quota resource.Quantity) ([]string, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(metrics))
	if err != nil {
		return nil, fmt.Errorf("read metrics of the virtual cluster: %w", err)
	}
	var full []string
	for _, sample := range families[sizeMetric].GetMetric() {
		used := max(sample.GetGauge().GetValue(), sample.GetUntyped().GetValue())
		if percent := used / quota.AsApproximateFloat64() * 100; percent >= maxUsed {
			full = append(full, fmt.Sprintf("%s is filled to %.0f%%", labelsOf(sample)["storage_cluster_id"], percent))
		}
	}
	slices.Sort(full)
	return slices.Compact(full), nil
}

// checkBackup reads the status of the main etcd. If etcd-druid has not reported the state of backups yet, checkBackup succeeds.
func (c checks) checkBackup(ctx context.Context) error {
	if c.values.ETCDMain.Backup == nil || c.skips(CheckBackup) {
		return nil
	}
	live, err := read(ctx, c.namespace, etcd.Main.Name(), &druidcorev1alpha1.Etcd{})
	if err != nil || live == nil {
		return err
	}
	if problem := backupProblem(live); problem != "" {
		return errors.New(problem)
	}
	return nil
}

// backupProblem returns why the backups of an Etcd fail, or "".
func backupProblem(live *druidcorev1alpha1.Etcd) string {
	for _, each := range live.Status.Conditions {
		if each.Type == druidcorev1alpha1.ConditionTypeBackupReady && each.Status == druidcorev1alpha1.ConditionFalse {
			return fmt.Sprintf("backups of Etcd %s/%s fail: %s; %s", live.Namespace, live.Name, each.Message, advice("repair them", CheckBackup))
		}
	}
	return ""
}

// noBackupProblem returns why it is not known that an Etcd has a recent backup, or "". It returns "" for an Etcd without a store.
func noBackupProblem(live *druidcorev1alpha1.Etcd) string {
	if live.Spec.Backup.Store == nil || slices.ContainsFunc(live.Status.Conditions, func(each druidcorev1alpha1.Condition) bool {
		return each.Type == druidcorev1alpha1.ConditionTypeBackupReady && each.Status == druidcorev1alpha1.ConditionTrue
	}) {
		return ""
	}
	return fmt.Sprintf("etcd-druid does not report a recent backup of Etcd %s/%s; %s", live.Namespace, live.Name,
		advice("wait until its condition "+string(druidcorev1alpha1.ConditionTypeBackupReady)+" is True", CheckBackup))
}

// snapshots returns the Leases with the times of the last full snapshot and of the last incremental snapshot. etcd-backup-restore writes
// these Leases. A Lease that does not exist is nil. The Leases are up to date even if etcd-druid does not run. The condition that
// etcd-druid derives from the Leases is not.
func (c checks) snapshots(ctx context.Context, live *druidcorev1alpha1.Etcd) (leases []*coordinationv1.Lease, err error) {
	for _, name := range []string{
		druidcorev1alpha1.GetFullSnapshotLeaseName(live.ObjectMeta), druidcorev1alpha1.GetDeltaSnapshotLeaseName(live.ObjectMeta),
	} {
		lease, err := read(ctx, c.namespace, name, &coordinationv1.Lease{})
		if err != nil {
			return nil, err
		}
		leases = append(leases, lease)
	}
	return leases, nil
}

// oldestBackup is the greatest age that the last backup of an Etcd may have when a rotation starts. If twice the period of incremental
// snapshots is longer, this longer time counts.
const oldestBackup = 30 * time.Minute

// oldBackupProblem returns why the last backup of an Etcd is too old, or "". If no Lease has a time, the age is not known, and the result
// is "".
func oldBackupProblem(live *druidcorev1alpha1.Etcd, leases []*coordinationv1.Lease, now time.Time) string {
	var last time.Time
	for _, each := range leases {
		if each != nil && each.Spec.RenewTime != nil && each.Spec.RenewTime.After(last) {
			last = each.Spec.RenewTime.Time
		}
	}
	period := ptr.Deref(live.Spec.Backup.DeltaSnapshotPeriod, metav1.Duration{}).Duration
	if last.IsZero() || now.Sub(last) <= max(oldestBackup, 2*period) {
		return ""
	}
	return fmt.Sprintf("the last backup of Etcd %s/%s is from %s; %s", live.Namespace, live.Name, last.UTC().Format(time.RFC3339),
		advice("repair its backups: the log of its container backup-restore says why there is no later one", CheckBackup))
}

// ageProblem returns why the last backup of the main etcd is too old, or "".
func (c checks) ageProblem(ctx context.Context, live *druidcorev1alpha1.Etcd, now time.Time) (string, error) {
	if live.Name != etcd.Main.Name() || live.Spec.Backup.Store == nil || c.skips(CheckBackup) {
		return "", nil
	}
	leases, err := c.snapshots(ctx, live)
	if err != nil {
		return "", err
	}
	return oldBackupProblem(live, leases, now), nil
}

// etcdsProblems returns the problems of the etcds that forbid the start of a rotation. It also returns the smallest quota of the etcds, or
// nil if no etcd has a quota.
func (c checks) etcdsProblems(ctx context.Context, now time.Time) (problems []string, quota *resource.Quantity, err error) {
	for _, name := range []string{etcd.Main.Name(), etcd.Events.Name()} {
		live, err := read(ctx, c.namespace, name, &druidcorev1alpha1.Etcd{})
		if err != nil {
			return nil, nil, err
		}
		if live == nil {
			continue
		}
		problems = append(problems, c.etcdProblems(live)...)
		problem, err := c.ageProblem(ctx, live, now)
		if err != nil {
			return nil, nil, err
		}
		if problem != "" {
			problems = append(problems, problem)
		}
		if own := live.Spec.Etcd.Quota; own != nil && (quota == nil || own.Cmp(*quota) < 0) {
			quota = own
		}
	}
	return problems, quota, nil
}

// startProblem returns why no rotation must start, or "". A rotation restarts etcds and API servers, and writes all encrypted objects.
// Etcds and Deployments that do not exist yet are no problem.
func (c checks) startProblem(ctx context.Context, now time.Time) (string, error) {
	problems, quota, err := c.etcdsProblems(ctx, now)
	if err != nil {
		return "", err
	}
	if problem := c.quotaProblem(ctx, quota); problem != "" {
		problems = append(problems, problem)
	}
	for _, name := range []string{kubeapiserver.Name, gardenerapiserver.Name, kubecontrollermanager.Name} {
		live, err := c.deployment(ctx, name)
		if err != nil {
			return "", err
		}
		if live == nil || c.skips(CheckRollouts) {
			continue
		}
		problem, err := c.rolloutProblem(ctx, live)
		if err != nil {
			return "", err
		}
		if problem != "" {
			problems = append(problems, problem+"; "+advice("wait until it is rolled out", CheckRollouts))
		}
	}
	return strings.Join(problems, "; "), nil
}

// etcdProblems returns why no rotation must start while an Etcd has this status.
func (c checks) etcdProblems(live *druidcorev1alpha1.Etcd) []string {
	var problems []string
	if problem := cmp.Or(backupProblem(live), noBackupProblem(live)); problem != "" && !c.skips(CheckBackup) {
		problems = append(problems, problem)
	}
	if !ptr.Deref(live.Status.Ready, false) && !c.skips(CheckETCDs) {
		problems = append(problems, fmt.Sprintf("Etcd %s/%s is not ready; %s", live.Namespace, live.Name, advice("repair it", CheckETCDs)))
	}
	return problems
}

// advice names the remedy for a check that has failed.
func advice(remedy, check string) string {
	return fmt.Sprintf("%s, or skip this check with the annotation %s=%s", remedy, operatorv1alpha1.AnnotationSkippedChecks, check)
}

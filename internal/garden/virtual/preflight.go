package virtual

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
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

// Names of the checks before a rotation starts, beside CheckBackup and CheckSeeds.
const (
	// CheckETCDs is the check that the etcds are ready.
	CheckETCDs = "etcds"
	// CheckRollouts is the check that the API servers and kube-controller-manager are rolled out.
	CheckRollouts = "rollouts"
)

// deprecatedMetric is a metric of API servers. It has a sample for each deprecated API that was requested since the server started.
const deprecatedMetric = "apiserver_requested_deprecated_apis"

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

// checkDeprecatedAPIs asks one of the API servers. If none answers, it succeeds, because the upgrade may repair them.
func (c checks) checkDeprecatedAPIs(ctx context.Context) error {
	if c.skips(CheckDeprecatedAPIs) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	clients, err := c.connection.Clients(ctx)
	var metrics []byte
	if err == nil {
		metrics, err = clients.REST.Get().AbsPath("/metrics").DoRaw(ctx)
	}
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
		labels := map[string]string{}
		for _, each := range sample.GetLabel() {
			labels[each.GetName()] = each.GetValue()
		}
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

// startProblem returns why no rotation must start, or "". A rotation restarts etcds and API servers, and writes all encrypted objects.
// Etcds and Deployments that do not exist yet are no problem.
func (c checks) startProblem(ctx context.Context) (string, error) {
	var problems []string
	for _, name := range []string{etcd.Main.Name(), etcd.Events.Name()} {
		live, err := read(ctx, c.namespace, name, &druidcorev1alpha1.Etcd{})
		if err != nil {
			return "", err
		}
		if live != nil {
			problems = append(problems, c.etcdProblems(live)...)
		}
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
	if problem := backupProblem(live); problem != "" && !c.skips(CheckBackup) {
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

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
	"sigs.k8s.io/controller-runtime/pkg/log"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
)

// Names of the checks before the virtual cluster gets a later minor version.
const (
	// CheckDeprecatedAPIs is the check that no client has used an API which the later version does not have.
	CheckDeprecatedAPIs = "deprecated-apis"
	// CheckBackup is the check that etcd-druid does not report failing backups.
	CheckBackup = "etcd-backup"
)

// deprecatedMetric is a metric of API servers. It has a sample for each deprecated API that was requested since the server started.
const deprecatedMetric = "apiserver_requested_deprecated_apis"

// checkUpgrade fails if an upgrade of the virtual cluster to the next minor version would break its users, or could not be undone.
func (c *ControlPlane) checkUpgrade(ctx context.Context) error {
	return errors.Join(c.checkDeprecatedAPIs(ctx), c.checkBackup(ctx))
}

// checkDeprecatedAPIs asks one of the API servers. If none answers, it succeeds, because the upgrade may repair them.
func (c *ControlPlane) checkDeprecatedAPIs(ctx context.Context) error {
	if c.skips(CheckDeprecatedAPIs) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	clients, err := c.Connection.Clients(ctx)
	var metrics []byte
	if err == nil {
		metrics, err = clients.REST.Get().AbsPath("/metrics").DoRaw(ctx)
	}
	if err != nil {
		log.FromContext(ctx).Info("Did not check for deprecated APIs, because the virtual cluster does not answer", "reason", err.Error())
		return nil
	}
	removed, err := removedAPIs(metrics, c.Values.Kubernetes)
	if err != nil || len(removed) == 0 {
		return err
	}
	const remedy = "make them use other versions, and restart the Pods of kube-apiserver, which count since they started"
	return fmt.Errorf("clients of the virtual cluster use APIs that Kubernetes %s does not have: %s; %s",
		c.Values.Kubernetes, strings.Join(removed, ", "), advice(remedy, CheckDeprecatedAPIs))
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
func (c *ControlPlane) checkBackup(ctx context.Context) error {
	if c.Values.ETCDMain.Backup == nil || c.skips(CheckBackup) {
		return nil
	}
	live, err := read(ctx, c, etcd.Main.Name(), &druidcorev1alpha1.Etcd{})
	if err != nil || live == nil {
		return err
	}
	for _, each := range live.Status.Conditions {
		if each.Type == druidcorev1alpha1.ConditionTypeBackupReady && each.Status == druidcorev1alpha1.ConditionFalse {
			return fmt.Errorf("backups of Etcd %s/%s fail: %s; %s", live.Namespace, live.Name, each.Message, advice("repair them", CheckBackup))
		}
	}
	return nil
}

// advice names the remedy for a check that has failed.
func advice(remedy, check string) string {
	return fmt.Sprintf("%s, or skip this check with the annotation %s=%s", remedy, operatorv1alpha1.AnnotationSkippedChecks, check)
}

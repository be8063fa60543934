package backup

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
)

// drilled is the result of a restore drill, which becomes the condition BackupRestorable.
type drilled struct {
	reason, message string
	// taken is the time of the last file that can be restored; zero if there is none.
	taken time.Time
	// data is the last restoration of data; nil if there is none.
	data *restoration
}

// drill reads the last file back and checks that a restoration of this file would succeed: the operator decrypts the file, the digests are
// right, the file has all keys that the Garden needs in the phases of its rotations, this version of the operator could reconcile the
// Garden, and the cluster has the same keys and authorities. Then drill restores the data, if that is due.
func (s *Schedule) drill(ctx context.Context, garden *operatorv1alpha1.Garden, identity age.Identity, done attempt) drilled {
	files, err := s.files(garden.Name)
	if err != nil {
		return drilled{reason: operatorv1alpha1.ReasonBackupFailed, message: err.Error()}
	}
	if len(files) == 0 {
		return drilled{reason: operatorv1alpha1.ReasonBackupFailed, message: fmt.Sprintf("There is no backup: %v.", done.err)}
	}
	file := files[len(files)-1]
	b, err := readBackup(file, identity)
	if err == nil {
		err = s.rehearse(ctx, b)
	}
	name := filepath.Base(file)
	if err != nil {
		return drilled{reason: operatorv1alpha1.ReasonDrillFailed, message: fmt.Sprintf("File %s cannot be restored: %v.", name, err)}
	}
	data, err := s.restoreData(ctx, b, name)
	if err != nil {
		return drilled{
			reason: operatorv1alpha1.ReasonDrillFailed, message: fmt.Sprintf("The data of the etcd could not be restored: %v.", err),
			taken: b.Manifest.Taken.Time,
		}
	}
	return s.judge(b, name, done, data)
}

// judge returns the result of a drill whose file can be restored.
func (s *Schedule) judge(b *Backup, name string, done attempt, data *restoration) drilled {
	found := drilled{taken: b.Manifest.Taken.Time, data: data}
	switch {
	case !s.Clock.Now().Before(found.taken.Add(overdueFactor * s.Interval)):
		found.reason, found.message = operatorv1alpha1.ReasonBackupTooOld, fmt.Sprintf("The last backup is file %s.", name)
		if done.err != nil {
			found.message += fmt.Sprintf(" The next one fails: %v.", done.err)
		}
	case done.err != nil:
		found.reason, found.message = operatorv1alpha1.ReasonBackupFailed,
			fmt.Sprintf("File %s can be restored, but the schedule fails: %v.", name, done.err)
	case done.damaged != nil:
		found.reason, found.message = operatorv1alpha1.ReasonDrillFailed,
			fmt.Sprintf("File %s can be restored, and was written because another one is damaged: %v.", name, done.damaged)
	case data != nil && data.Failure != "":
		found.reason, found.message = operatorv1alpha1.ReasonDrillFailed,
			fmt.Sprintf("At %s, the last snapshot of etcd %s could not be restored with the keys in file %s: %s.",
				data.At.UTC().Format(time.RFC3339), etcd.Main.Name(), data.File, data.Failure)
	default:
		found.reason = operatorv1alpha1.ReasonDrillSucceeded
		found.message = fmt.Sprintf("File %s can be restored: it has %d objects.", name, len(b.Objects))
		switch {
		case data != nil:
			found.message += fmt.Sprintf(" At %s, the last snapshot of etcd %s was restored with the keys in file %s: all of its %d objects of %d "+
				"kinds can be read, among them %d Secrets.",
				data.At.UTC().Format(time.RFC3339), etcd.Main.Name(), data.File, data.Objects, data.Kinds, data.Secrets)
		case s.Data != nil && !s.SkipData && !hasSnapshots(b):
			found.message += fmt.Sprintf(" Etcd %s has no backups.", etcd.Main.Name())
		}
	}
	return found
}

// rehearse checks the content of a backup as a restoration does, and compares its irreplaceable keys and authorities with the live ones.
func (s *Schedule) rehearse(ctx context.Context, b *Backup) error {
	if err := check(b); err != nil {
		return err
	}
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(secretKind.GroupVersion().WithKind("SecretList"))
	if err := s.Client.List(ctx, all, client.InNamespace(s.Namespace)); err != nil {
		return fmt.Errorf("list Secrets in namespace %s: %w", s.Namespace, err)
	}
	var unlike []string
	for i := range all.Items {
		each := &all.Items[i]
		if each.DeletionTimestamp != nil || !irreplaceable(each.Labels) {
			continue
		}
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(secretKind)
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(each), live)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read Secret %s/%s: %w", s.Namespace, each.Name, err)
		}
		if err != nil { // it was deleted meanwhile
			continue
		}
		i := slices.IndexFunc(b.Objects, func(o *unstructured.Unstructured) bool {
			return o.GroupVersionKind() == secretKind && o.GetName() == each.Name
		})
		if i < 0 {
			unlike = append(unlike, each.Name+" is missing in the file")
		} else if fields := differences(b.Objects[i], live); len(fields) > 0 {
			unlike = append(unlike, fmt.Sprintf("%s has other content in the cluster (%s)", each.Name, strings.Join(fields, ", ")))
		}
	}
	if len(unlike) > 0 {
		slices.Sort(unlike)
		return fmt.Errorf("its keys are not those of the Garden: Secret %s", strings.Join(unlike, ", Secret "))
	}
	return nil
}

// Metrics are the metrics about scheduled backups.
type Metrics struct {
	taken, lastSuccess, failing       prometheus.Gauge
	dataTime, dataSeconds, dataFailed prometheus.Gauge
	dataObjects, dataSecrets          prometheus.Gauge
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	factory := promauto.With(registry)
	return &Metrics{
		taken: factory.NewGauge(prometheus.GaugeOpts{
			Name: "espalier_garden_restore_drill_backup_timestamp_seconds",
			Help: "Time of the last scheduled backup that can be restored, in seconds since 1970; 0 if there is none.",
		}),
		lastSuccess: factory.NewGauge(prometheus.GaugeOpts{
			Name: "espalier_garden_restore_drill_last_success_timestamp_seconds",
			Help: "Time of the last restore drill that succeeded, in seconds since 1970; 0 if none has succeeded since the process started.",
		}),
		failing: factory.NewGauge(prometheus.GaugeOpts{
			Name: "espalier_garden_restore_drill_failing",
			Help: "1 if scheduled backups are configured, and the last one failed, is too old, or cannot be restored; otherwise 0.",
		}),
		dataTime: factory.NewGauge(prometheus.GaugeOpts{
			Name: "espalier_garden_restore_drill_data_timestamp_seconds",
			Help: "Time at which the last restoration of the data of etcd main began, in seconds since 1970; 0 if there was none.",
		}),
		dataSeconds: factory.NewGauge(prometheus.GaugeOpts{
			Name: "espalier_garden_restore_drill_data_duration_seconds",
			Help: "Duration of the last restoration of the data of etcd main.",
		}),
		dataFailed: factory.NewGauge(prometheus.GaugeOpts{
			Name: "espalier_garden_restore_drill_data_failed",
			Help: "1 if the last restoration of the data of etcd main failed; otherwise 0.",
		}),
		dataObjects: factory.NewGauge(prometheus.GaugeOpts{
			Name: "espalier_garden_restore_drill_data_objects",
			Help: "Number of objects that could be read after the last restoration of the data of etcd main.",
		}),
		dataSecrets: factory.NewGauge(prometheus.GaugeOpts{
			Name: "espalier_garden_restore_drill_data_secrets",
			Help: "Number of Secrets that could be decrypted after the last restoration of the data of etcd main.",
		}),
	}
}

func (m *Metrics) set(found drilled, now time.Time) {
	m.failing.Set(1)
	if found.reason == operatorv1alpha1.ReasonDrillSucceeded {
		m.failing.Set(0)
		m.lastSuccess.Set(float64(now.Unix()))
	}
	if !found.taken.IsZero() {
		m.taken.Set(float64(found.taken.Unix()))
	}
	if found.data == nil {
		return
	}
	m.dataTime.Set(float64(found.data.At.Unix()))
	m.dataSeconds.Set(found.data.Took.Seconds())
	m.dataObjects.Set(float64(found.data.Objects))
	m.dataSecrets.Set(float64(found.data.Secrets))
	m.dataFailed.Set(0)
	if found.data.Failure != "" {
		m.dataFailed.Set(1)
	}
}

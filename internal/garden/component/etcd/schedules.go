package etcd

import (
	"fmt"
	"hash/crc32"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/garden/values"
)

const (
	garbageCollectionPeriod = 12 * time.Hour
	deltaSnapshotPeriod     = 5 * time.Minute
	// Full snapshots are scheduled in the hour that ends 15 minutes before the maintenance window begins.
	snapshotWindow = time.Hour
	snapshotMargin = 15 * time.Minute
)

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

// defragmentation returns the schedule of the live Etcd, or else a time in the maintenance window: of each day for the main etcd, of every
// third day for the events etcd.
func defragmentation(v values.Values, role Role, live *druidcorev1alpha1.Etcd) string {
	if live != nil && live.Spec.Etcd.DefragmentationSchedule != nil {
		return *live.Spec.Etcd.DefragmentationSchedule
	}
	days := "*"
	if role == Events {
		days = "*/3"
	}
	return schedule(v, v.Maintenance.Begin, v.Maintenance.Length, days)
}

// fullSnapshot returns the schedule of the live Etcd, or else a time on each day before the maintenance window.
func fullSnapshot(v values.Values, live *druidcorev1alpha1.Etcd) string {
	if live != nil && live.Spec.Backup.FullSnapshotSchedule != nil {
		return *live.Spec.Backup.FullSnapshotSchedule
	}
	return schedule(v, v.Maintenance.Begin-snapshotMargin-snapshotWindow, snapshotWindow, "*")
}

// schedule returns a schedule in UTC, in the format of cron. The argument days is the field of the schedule for days of the month. The UID
// of the Garden selects a minute between begin and begin+length, so that the etcds of different Gardens do not all work at the same time.
// If the Garden has no maintenance window, the schedule names the time of day when the Garden was created.
func schedule(v values.Values, begin, length time.Duration, days string) string {
	const day = 24 * time.Hour
	at := v.GardenCreated.UTC().Sub(v.GardenCreated.UTC().Truncate(day))
	if minutes := int64(length / time.Minute); v.Maintenance.Length > 0 && minutes > 0 {
		at = begin + time.Duration(int64(crc32.ChecksumIEEE([]byte(v.GardenUID)))%minutes)*time.Minute
	}
	at = (at%day + day) % day
	return fmt.Sprintf("%d %d %s * *", int(at.Minutes())%60, int(at.Hours()), days)
}

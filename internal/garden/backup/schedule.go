package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
)

// Schedule writes a backup of the Garden into a folder at an interval, and sooner if the phase of a rotation has changed. After each
// backup, and at least once an hour, a restore drill reads the last file back. If the schedule restores data, the drill also restores the
// data of the main etcd after each backup, and at least once in each interval, and reads the data with the keys in the file. The condition
// BackupRestorable and metrics show the result.
//
// The schedule never changes a file. It deletes the oldest files if there are more files than Keep. A file appears when it is complete. So
// if a process ends while it writes a file, the former files stay as they are, and the next process writes the backup if it is due, and
// does the drill.
type Schedule struct {
	// Client reads and writes live.
	Client client.Client
	Clock  clock.Clock
	// Namespace is the namespace of the Secrets of the Garden.
	Namespace string
	// Folder is the folder for the files. It must exist. Empty: there are no scheduled backups.
	Folder string
	// Interval is the time between two backups, and Keep the number of files that stay.
	Interval time.Duration
	Keep     int
	// Recipients can decrypt the files, beside the operator.
	Recipients []age.Recipient
	// Data restores the data of the main etcd. If Data is nil, or if SkipData is true, the drill only reads files, and restores no data. If
	// SkipData is true, the Schedule uses Data only to remove the objects that an earlier process has left.
	Data     DataRestorer
	SkipData bool
	Metrics  *Metrics
	Log      logr.Logger
}

const (
	// identityName is the name of the Secret with the identity of the operator, and identityKey its key.
	identityName, identityKey = "garden-backup-identity", "identity"
	// drillPeriod is the longest time between two drills, and retryPeriod the time after a failure.
	drillPeriod, retryPeriod = time.Hour, 10 * time.Minute
	// overdueFactor is how many intervals old the last file may be.
	overdueFactor = 2
	// stamp is the time in the name of a file.
	stamp = "20060102T150405Z"
	// fileSuffix is the end of the name of each file.
	fileSuffix = ".age"
)

// NeedLeaderElection makes only the active replica write backups.
func (s *Schedule) NeedLeaderElection() bool { return true }

// Start runs the schedule until the context ends.
func (s *Schedule) Start(ctx context.Context) error {
	if s.Data != nil { // a process before this one may have ended in a restoration
		if err := s.Data.Clean(ctx); err != nil {
			s.Log.Error(err, "Failed to remove objects of a restore drill")
		}
	}
	for {
		next := s.Run(ctx)
		if next == 0 {
			return nil
		}
		timer := s.Clock.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// Run writes a backup if it is due, and does a drill each time. Without a folder or a living Garden, it does neither. Run returns the time
// until the next run; 0 if there is no folder.
func (s *Schedule) Run(ctx context.Context) time.Duration {
	gardens := &operatorv1alpha1.GardenList{}
	if err := s.Client.List(ctx, gardens); err != nil {
		s.Log.Error(err, "Failed to list Gardens for backups")
		return retryPeriod
	}
	if len(gardens.Items) == 0 || gardens.Items[0].DeletionTimestamp != nil {
		return s.idle()
	}
	garden := &gardens.Items[0]
	if s.Folder == "" {
		if err := s.report(ctx, garden, nil); err != nil {
			s.Log.Error(err, "Failed to remove condition about backups")
			return retryPeriod
		}
		return s.idle()
	}
	found := s.backUpAndDrill(ctx, garden)
	s.Metrics.set(found, s.Clock.Now())
	if found.reason != operatorv1alpha1.ReasonDrillSucceeded {
		s.Log.Info("Restore drill failed", "reason", found.reason, "message", found.message)
	}
	if err := s.report(ctx, garden, &found); err != nil {
		s.Log.Error(err, "Failed to report restore drill")
		return retryPeriod
	}
	if found.reason != operatorv1alpha1.ReasonDrillSucceeded {
		return retryPeriod
	}
	return max(min(found.taken.Add(s.Interval).Sub(s.Clock.Now()), drillPeriod), time.Second)
}

func (s *Schedule) idle() time.Duration {
	if s.Folder == "" {
		return 0
	}
	return retryPeriod
}

// backUpAndDrill makes the backup if it is due, and does the drill.
func (s *Schedule) backUpAndDrill(ctx context.Context, garden *operatorv1alpha1.Garden) drilled {
	identity, err := s.identity(ctx)
	if err != nil {
		return drilled{reason: operatorv1alpha1.ReasonBackupFailed, message: err.Error()}
	}
	done := s.backUp(ctx, garden, identity)
	return s.drill(ctx, garden, identity, done)
}

// attempt is the result of a run before its drill.
type attempt struct {
	// damaged is the error of reading the last file before the run; nil if it can be read. With an error, another backup is due at once.
	damaged error
	// err is why a due backup could not be written, or why old files could not be deleted.
	err error
}

// backUp writes a backup if it is due.
func (s *Schedule) backUp(ctx context.Context, garden *operatorv1alpha1.Garden, identity *age.X25519Identity) (done attempt) {
	files, err := s.files(garden.Name)
	if err != nil {
		return attempt{err: err}
	}
	now := s.Clock.Now().UTC()
	if len(files) > 0 {
		name := files[len(files)-1]
		last, failure := readBackup(name, identity)
		if failure == nil && !isDue(last.Manifest, garden, now, s.Interval) {
			return attempt{}
		}
		if failure != nil {
			done.damaged = fmt.Errorf("file %s cannot be restored: %w", filepath.Base(name), failure)
		}
	}
	b, err := Take(ctx, s.Client, s.Namespace, now)
	if err != nil {
		done.err = fmt.Errorf("read the Garden: %w", err)
		return done
	}
	file := filepath.Join(s.Folder, "garden-"+garden.Name+"-"+now.Format(stamp)+fileSuffix)
	recipients := append(slices.Clone(s.Recipients), identity.Recipient())
	if _, err := save(file, func(w io.Writer) error { return b.Write(w, recipients) }); err != nil {
		done.err = err
		return done
	}
	s.Log.Info("Wrote backup of Garden", "file", filepath.Base(file))
	done.err = prune(append(files, file), s.Keep)
	return done
}

// isDue reports whether a new backup must follow the last one. This is so if the interval has passed since the last backup, if the last
// backup is of a Garden with another UID, or if the phases of the rotations have changed since the last backup.
func isDue(last Manifest, garden *operatorv1alpha1.Garden, now time.Time, interval time.Duration) bool {
	phases := map[string]string{}
	for credential, phase := range rotation.PhasesOf(garden) {
		phases[string(credential)] = string(phase)
	}
	return !now.Before(last.Taken.Add(interval)) || last.Garden.UID != string(garden.UID) || !maps.Equal(last.Rotations, phases)
}

// files returns the files of a Garden, the oldest one first.
func (s *Schedule) files(garden string) ([]string, error) {
	entries, err := os.ReadDir(s.Folder)
	if err != nil {
		return nil, fmt.Errorf("read the folder of espalier.garden.backup.folder: %w", err)
	}
	var files []string
	for _, each := range entries {
		between, isOwn := strings.CutPrefix(each.Name(), "garden-"+garden+"-")
		at, isFile := strings.CutSuffix(between, fileSuffix)
		if _, err := time.Parse(stamp, at); isOwn && isFile && err == nil {
			files = append(files, filepath.Join(s.Folder, each.Name()))
		}
	}
	slices.Sort(files)
	return files, nil
}

// prune deletes the oldest files until keep of them are left.
func prune(files []string, keep int) error {
	old := files[:max(0, len(files)-keep)]
	failures := make([]error, 0, len(old))
	for _, each := range old {
		failures = append(failures, os.Remove(each))
	}
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("delete old backups: %w", err)
	}
	return nil
}

// identity returns the age identity of the operator, with which the drill decrypts files. If the Secret of this identity does not exist,
// the function creates an identity and the Secret. The next backup is then due at once, because the new identity cannot decrypt the last
// file.
func (s *Schedule) identity(ctx context.Context) (*age.X25519Identity, error) {
	secret := &corev1.Secret{}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: identityName}, secret)
	if apierrors.IsNotFound(err) {
		made, failure := age.GenerateX25519Identity()
		if failure != nil {
			return nil, fmt.Errorf("generate identity for restore drills: %w", failure)
		}
		secret = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: identityName},
			Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{identityKey: []byte(made.String() + "\n")},
		}
		err = s.Client.Create(ctx, secret, client.FieldOwner(fieldManager))
	}
	if err != nil {
		return nil, fmt.Errorf("read or create Secret %s/%s: %w", s.Namespace, identityName, err)
	}
	identity, err := age.ParseX25519Identity(strings.TrimSpace(string(secret.Data[identityKey])))
	if err != nil { // the cause may have the content
		return nil, fmt.Errorf("key %s of Secret %s/%s is no identity of age: delete the Secret, and the operator creates another one",
			identityKey, s.Namespace, identityName)
	}
	return identity, nil
}

// readBackup reads a file with an identity.
func readBackup(file string, identity age.Identity) (*Backup, error) {
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }()
	return Read(opened, []age.Identity{identity})
}

// report writes the result into the condition of the Garden; nil removes the condition. A drill can take minutes. Because other programs
// can change the Garden in this time, report reads the Garden again.
func (s *Schedule) report(ctx context.Context, garden *operatorv1alpha1.Garden, found *drilled) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live := &operatorv1alpha1.Garden{}
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(garden), live)
		if apierrors.IsNotFound(err) || err == nil && live.UID != garden.UID {
			return nil
		} else if err != nil {
			return fmt.Errorf("read Garden again: %w", err)
		}
		return s.setCondition(ctx, live, found)
	})
}

func (s *Schedule) setCondition(ctx context.Context, garden *operatorv1alpha1.Garden, found *drilled) error {
	const kind = operatorv1alpha1.BackupRestorable
	updated := garden.DeepCopy()
	conditions := slices.Clone(garden.Status.Conditions)
	i := slices.IndexFunc(conditions, func(c corev1beta1.Condition) bool { return c.Type == kind })
	switch {
	case found == nil && i < 0:
		return nil
	case found == nil:
		conditions = slices.Delete(conditions, i, i+1)
	default:
		state := corev1beta1.ConditionFalse
		if found.reason == operatorv1alpha1.ReasonDrillSucceeded {
			state = corev1beta1.ConditionTrue
		}
		former := corev1beta1.GetOrInitCondition(s.Clock, conditions, kind)
		next := corev1beta1.UpdatedCondition(s.Clock, former, state, found.reason, found.message)
		if i >= 0 && conditions[i].Status == next.Status && conditions[i].Reason == next.Reason && conditions[i].Message == next.Message {
			return nil
		}
		conditions = corev1beta1.MergeConditions(conditions, next)
	}
	updated.Status.Conditions = conditions
	if err := s.Client.Status().Patch(ctx, updated, conflict.MergeFrom(garden)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write condition %s of Garden %s: %w", kind, garden.Name, err)
	}
	return nil
}

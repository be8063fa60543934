package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/garden/backup/throwaway"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// DataRestorer restores the last snapshot of the main etcd, and counts the objects in it. It checks that an API server with an encryption
// configuration can read them.
type DataRestorer interface {
	Restore(ctx context.Context, encryption []byte) (throwaway.Contents, error)
	// Clean removes the objects of a restoration that was not completed.
	Clean(ctx context.Context) error
}

const (
	// annotationRestoration is an annotation of the Secret with the identity of the operator: the last restoration of data, as JSON.
	annotationRestoration = "espalier.dev/last-restore-drill"
	// dataRetryPeriod is the time after a failed restoration of data.
	dataRetryPeriod = time.Hour
	maxFailure      = 1000
)

// restoration is the result of a restoration of data.
type restoration struct {
	// File is the name of the backup file, and At the time at which the restoration began. Took is its duration.
	File string          `json:"file"`
	At   metav1.Time     `json:"at"`
	Took metav1.Duration `json:"took"`
	// Objects is the number of objects, Secrets the number of Secrets among them, and Kinds the number of their kinds.
	Objects int `json:"objects,omitempty"`
	Secrets int `json:"secrets,omitempty"`
	Kinds   int `json:"kinds,omitempty"`
	// Failure is why the restoration failed; empty if it succeeded.
	Failure string `json:"failure,omitempty"`
}

// isDue reports whether the data must be restored again. This is so if there was no restoration (r is nil), if the last restoration was
// with another file or is older than the interval, or if it failed and is older than dataRetryPeriod.
func (r *restoration) isDue(file string, now time.Time, interval time.Duration) bool {
	if r == nil {
		return true
	}
	if r.Failure != "" {
		interval = dataRetryPeriod
	}
	return r.File != file || !now.Before(r.At.Add(interval))
}

// hasSnapshots reports whether a backup names the place of the snapshots of the main etcd.
func hasSnapshots(b *Backup) bool {
	return slices.ContainsFunc(b.Manifest.Etcds, func(e EtcdReference) bool { return e.Name == etcd.Main.Name() })
}

// restoreData restores the data if that is due, and returns the last restoration; nil if the schedule restores no data, or the main etcd
// has no backups.
func (s *Schedule) restoreData(ctx context.Context, b *Backup, file string) (*restoration, error) {
	if s.Data == nil || s.SkipData || !hasSnapshots(b) {
		return nil, nil
	}
	secret := &corev1.Secret{}
	if err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: identityName}, secret); err != nil {
		return nil, fmt.Errorf("read the last restoration in Secret %s/%s: %w", s.Namespace, identityName, err)
	}
	last := lastRestoration(secret)
	if !last.isDue(file, s.Clock.Now(), s.Interval) {
		return last, nil
	}
	next := &restoration{File: file, At: metav1.NewTime(s.Clock.Now().UTC())}
	s.Log.Info("Restoring data for restore drill", "file", file)
	encryption, err := encryptionOf(b)
	var contents throwaway.Contents
	if err == nil {
		contents, err = s.Data.Restore(ctx, encryption)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	next.Took = metav1.Duration{Duration: s.Clock.Since(next.At.Time).Round(time.Second)}
	if err != nil {
		next.Failure = excerpt.Ends(err.Error(), maxFailure)
	}
	next.Objects, next.Kinds, next.Secrets = contents.Objects(), len(contents), contents[secretKind.Kind]
	s.Log.Info("Restored data for restore drill", "file", file, "objects", contents, "seconds", next.Took.Seconds(), "failure", next.Failure)
	record, err := json.Marshal(next)
	if err != nil {
		return nil, fmt.Errorf("encode restoration: %w", err)
	}
	before := secret.DeepCopy()
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, annotationRestoration, string(record))
	if err := s.Client.Patch(ctx, secret, client.MergeFrom(before), client.FieldOwner(fieldManager)); err != nil {
		return nil, fmt.Errorf("record restoration in Secret %s/%s: %w", s.Namespace, identityName, err)
	}
	return next, nil
}

// lastRestoration returns the recorded restoration; nil if there is none that can be read.
func lastRestoration(secret *corev1.Secret) *restoration {
	record, found := secret.Annotations[annotationRestoration]
	last := &restoration{}
	if !found || json.Unmarshal([]byte(record), last) != nil {
		return nil
	}
	return last
}

// encryptionOf returns the encryption configuration that kube-apiserver has after a restoration of a backup: with it, kube-apiserver can
// read objects that are encrypted with any key in the file.
func encryptionOf(b *Backup) ([]byte, error) {
	garden, err := b.Garden()
	if err != nil {
		return nil, err
	}
	type generation struct {
		began int64
		key   secretconfig.UsableEncryptionKey
	}
	var generations []generation
	for _, each := range b.Objects {
		labels := each.GetLabels()
		if each.GroupVersionKind() != secretKind || !isManaged(labels) || labels[secrets.LabelName] != kubeapiserver.EncryptionKeyName {
			continue
		}
		secret, err := convert[corev1.Secret](each)
		if err != nil {
			return nil, err
		}
		key, err := secretconfig.ParseEncryptionKey(secret.Data)
		if err != nil {
			return nil, fmt.Errorf("read encryption key in %s: %w", describe(each), err)
		}
		generations = append(generations, generation{secrets.Generation(each), key})
	}
	if len(generations) == 0 {
		return nil, errors.New("the file has no encryption key of kube-apiserver")
	}
	slices.SortStableFunc(generations, func(a, b generation) int { return cmp.Compare(b.began, a.began) })
	server := ptr.Deref(garden.Spec.VirtualCluster.Kubernetes.KubeAPIServer, operatorv1alpha1.KubeAPIServer{})
	e := apiserver.Encryption{
		Config: server.EncryptionConfig, Always: kubeapiserver.AlwaysEncrypted(),
		Former: apiserver.OfKubernetes(garden.Status.EncryptionAtRest().Resources),
	}
	for _, each := range generations {
		e.Keys = append(e.Keys, each.key)
	}
	return e.YAML()
}

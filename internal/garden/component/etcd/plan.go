package etcd

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// operationTimestamp is an annotation with the time of the last request for an operation. It makes two requests differ.
const operationTimestamp = "gardener.cloud/timestamp"

// Request returns the Etcd with the annotations that make etcd-druid reconcile it, if that is needed: if it does not exist yet, if its
// specification changes, or if etcd-druid has not completed the last reconciliation or reports errors. Otherwise it returns the Etcd
// unchanged.
func Request(desired, live *druidcorev1alpha1.Etcd, now time.Time) *druidcorev1alpha1.Etcd {
	if live != nil && equality.Semantic.DeepEqual(desired.Spec, live.Spec) && observed(live) && len(live.Status.LastErrors) == 0 {
		return desired
	}
	return requested(desired, now)
}

func requested(o *druidcorev1alpha1.Etcd, now time.Time) *druidcorev1alpha1.Etcd {
	o = o.DeepCopy()
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	maps.Copy(o.Annotations, map[string]string{
		resourcesv1alpha1.GardenerOperation: "reconcile", operationTimestamp: now.UTC().Format(time.RFC3339Nano),
	})
	return o
}

// WithPeerAuthority returns a copy of the live Etcd. In this copy, the peers trust the authorities in another Secret, and annotations
// request a reconciliation; nothing else is changed. If the live Etcd has no TLS for peers, or already names this Secret, the copy is
// unchanged. With high availability, all members must trust a new authority before the first of them gets a certificate that the new
// authority has signed.
func WithPeerAuthority(live *druidcorev1alpha1.Etcd, secret string, now time.Time) *druidcorev1alpha1.Etcd {
	changed := live.DeepCopy()
	if changed.Spec.Etcd.PeerUrlTLS == nil || changed.Spec.Etcd.PeerUrlTLS.TLSCASecretRef.Name == secret {
		return changed
	}
	changed.Spec.Etcd.PeerUrlTLS.TLSCASecretRef.Name = secret
	return requested(changed, now)
}

// observed reports whether etcd-druid has completed the last reconciliation.
func observed(live *druidcorev1alpha1.Etcd) bool {
	_, pending := live.Annotations[resourcesv1alpha1.GardenerOperation]
	return !pending && live.Status.ObservedGeneration != nil && *live.Status.ObservedGeneration == live.Generation
}

// Problem returns why an Etcd is not ready, or "". Wanted is the Etcd that was deployed.
func Problem(live, wanted *druidcorev1alpha1.Etcd) string {
	switch {
	case live.Annotations[operationTimestamp] != wanted.Annotations[operationTimestamp] && wanted.Annotations[operationTimestamp] != "":
		return "the request for its reconciliation was overwritten"
	case len(live.Status.LastErrors) > 0:
		all := make([]string, 0, len(live.Status.LastErrors))
		for _, each := range live.Status.LastErrors {
			all = append(all, fmt.Sprintf("%s (%s)", each.Description, each.Code))
		}
		return "etcd-druid reports errors: " + strings.Join(all, "; ")
	case live.DeletionTimestamp != nil:
		return "it is being deleted"
	case !observed(live):
		return "etcd-druid has not reconciled it yet"
	case live.Spec.Replicas == 0:
		return ""
	}
	if problem := membersProblem(live); problem != "" {
		return problem
	}
	if live.Status.Ready == nil || !*live.Status.Ready {
		return "its StatefulSet is not ready"
	}
	return ""
}

func membersProblem(live *druidcorev1alpha1.Etcd) string {
	for _, each := range live.Status.Conditions {
		if each.Type != druidcorev1alpha1.ConditionTypeAllMembersUpdated {
			continue
		}
		if each.Status == druidcorev1alpha1.ConditionTrue {
			return ""
		}
		return "not all members are updated: " + each.Message
	}
	return "etcd-druid has not reported yet whether all members are updated"
}

// SnapshotURL returns the URL at which a GET request makes the main etcd take a full snapshot, or "" if there are no backups. The client
// must verify the certificate of the server with the bundle of ca-etcd. The client needs no certificate of its own.
func SnapshotURL(v values.Values) string {
	if v.ETCDMain.Backup == nil {
		return ""
	}
	return fmt.Sprintf("https://%s-client.%s:%d/snapshot/full?final=true", Main.Name(), v.Namespace, backupPort)
}

// Reasons why a snapshot was not taken.
var (
	ErrNoBackupLeader = errors.New("the etcd has no healthy leader for backups, or no store for them")
	ErrSnapshot       = errors.New("taking the snapshot failed")
)

// JudgeSnapshot returns nil if the status of the answer to a request for a snapshot is a success, or else an error with the reason. The
// operator may request the snapshot again.
func JudgeSnapshot(status int) error {
	switch status {
	case http.StatusOK:
		return nil
	case http.StatusMethodNotAllowed:
		return ErrNoBackupLeader
	}
	return fmt.Errorf("%w with status %d", ErrSnapshot, status)
}

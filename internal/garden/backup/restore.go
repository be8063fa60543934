package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/identity"
	"github.com/espalier-dev/espalier/internal/garden/skew"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// Users who restore a Garden get these roles by bindings of their own.
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=gardens,verbs=list;create;patch,roleName=espalier-garden-operator-restore
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=gardens/status,verbs=patch,roleName=espalier-garden-operator-restore
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=extensions,verbs=get;create,roleName=espalier-garden-operator-restore
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=garden,verbs=get,roleName=espalier-garden-operator-restore
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=create,roleName=espalier-garden-operator-restore
// +kubebuilder:rbac:groups="",resources=secrets;configmaps,verbs=get;create,namespace=garden,roleName=espalier-garden-operator-restore
// +kubebuilder:rbac:groups="",resources=secrets,verbs=list,namespace=garden,roleName=espalier-garden-operator-restore

// fieldManager is the field manager of the writes, which is also the field manager of the operator.
const fieldManager = "garden-operator"

// Restorer brings a Garden back from a backup.
//
// It first compares the cluster with the whole backup, and writes nothing if an existing object differs from the backup. If the operator
// reconciled the Garden before all keys and the status of the Garden exist, it would generate new keys. So the Garden is paused during the
// restoration. A Garden that exists is paused first. Otherwise the Garden is created last, with the pause. The annotation
// operatorv1alpha1.AnnotationRestoring marks a Garden whose restoration has begun. When the status is written, a single patch removes the
// mark and the pause. So if the restoration ends at any point, either there is no Garden, or the Garden is paused, or it is complete. The
// next run creates the objects that are missing.
type Restorer struct {
	Client client.Client
	// Say reports an action to the user. Its arguments have no content of objects.
	Say func(format string, args ...any)
}

// Restore restores a backup.
func (r *Restorer) Restore(ctx context.Context, b *Backup) error {
	if err := check(b); err != nil {
		return err
	}
	c, err := r.observe(ctx, b)
	if err != nil {
		return err
	}
	wanted := b.Objects[len(b.Objects)-1].DeepCopy()
	if live := c.garden(); live == nil || string(live.GetUID()) != b.Manifest.Garden.UID {
		named, err := nameBucket(wanted, etcd.Main.Name(), b.Manifest.Etcds)
		if err != nil {
			return fmt.Errorf("%s is malformed", describe(wanted))
		}
		if named && live == nil {
			r.Say("The operator had created the bucket for backups. The restored Garden names it in spec.virtualCluster.etcd.main.backup.")
		}
	}
	if found := problems(b, wanted, c); len(found) > 0 {
		return fmt.Errorf("nothing was written, because the cluster does not fit the file:\n- %s", strings.Join(found, "\n- "))
	}
	return r.write(ctx, b, wanted, c)
}

// check fails if the operator of this release could not reconcile the Garden of a backup.
func check(b *Backup) error {
	garden, err := b.Garden()
	if err != nil {
		return err
	}
	if missing := lost(garden, b.Objects); len(missing) > 0 {
		return fmt.Errorf("nothing was written, because the file lacks keys and authorities of its Garden: %s; use another file",
			strings.Join(missing, ", "))
	}
	if err := skew.Check([]operatorv1alpha1.Garden{*garden}, identity.GardenerVersion); err != nil {
		return fmt.Errorf("nothing was written, because this version of the operator could not reconcile the Garden: %w", err)
	}
	return nil
}

// observe reads the part of the cluster that the restoration depends on.
func (r *Restorer) observe(ctx context.Context, b *Backup) (c cluster, err error) {
	if c.gardens, err = list(ctx, r.Client, gardenKind); err != nil {
		if meta.IsNoMatchError(err) {
			err = fmt.Errorf("%w; first install the operator, or only its definitions: kubectl apply -f deploy/garden-operator/crds", err)
		}
		return c, err
	}
	namespace := b.Manifest.Garden.Namespace
	if c.namespace, err = rollout.Find(ctx, r.Client, "", namespace, &corev1.Namespace{}); err != nil {
		return c, err
	}
	for _, each := range b.Objects[:len(b.Objects)-1] {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(each.GroupVersionKind())
		if live, err = rollout.Find(ctx, r.Client, each.GetNamespace(), each.GetName(), live); err != nil {
			return c, err
		}
		c.existing = append(c.existing, live)
	}
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(secretKind.GroupVersion().WithKind("SecretList"))
	if err := r.Client.List(ctx, all, client.InNamespace(namespace)); err != nil {
		return c, fmt.Errorf("list Secrets in namespace %s: %w", namespace, err)
	}
	for i := range all.Items {
		if irreplaceable(all.Items[i].Labels) {
			c.keys = append(c.keys, all.Items[i].Name)
		}
	}
	return c, nil
}

// write creates the objects that do not exist, the Garden last, and writes its status.
func (r *Restorer) write(ctx context.Context, b *Backup, wanted *unstructured.Unstructured, c cluster) error {
	var missing []*unstructured.Unstructured
	for i, live := range c.existing {
		if live == nil {
			missing = append(missing, b.Objects[i])
		}
	}
	live := c.garden()
	if live != nil && len(missing) == 0 && !isMarked(live) && !isBlank(live) {
		r.Say("Everything in the file exists already. Nothing was written.")
		return nil
	}
	blank := live == nil || isBlank(live)
	if live != nil && !isMarked(live) {
		if err := r.mark(ctx, b, live); err != nil {
			return err
		}
	}
	if err := r.createAll(ctx, b.Manifest.Garden.Namespace, c, missing); err != nil {
		return err
	}
	if live == nil {
		live = wanted.DeepCopy()
		delete(live.Object, "status")
		setMark(live, b)
		if err := r.create(ctx, live, describe(live)+", paused"); err != nil {
			return err
		}
	}
	if blank {
		if err := r.writeStatus(ctx, wanted); err != nil {
			return err
		}
	}
	return r.end(ctx, live)
}

// createAll creates the missing objects, and their namespace if it does not exist.
func (r *Restorer) createAll(ctx context.Context, namespace string, c cluster, missing []*unstructured.Unstructured) error {
	if c.namespace == nil {
		o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		if err := r.create(ctx, o, "Namespace "+namespace); err != nil {
			return err
		}
	}
	for _, each := range missing {
		if err := r.create(ctx, each.DeepCopy(), describe(each)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Restorer) create(ctx context.Context, o client.Object, what string) error {
	if err := r.Client.Create(ctx, o, client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("create %s: %w; remove the cause, and run the same command again", what, err)
	}
	r.Say("Created %s.", what)
	return nil
}

// setMark pauses a Garden, and marks it.
func setMark(garden *unstructured.Unstructured, b *Backup) {
	annotations := garden.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[operatorv1alpha1.AnnotationRestoring] = newMark(b.gardenDigest(), annotations[operatorv1alpha1.AnnotationPausedUntil])
	annotations[operatorv1alpha1.AnnotationPausedUntil] = "true"
	garden.SetAnnotations(annotations)
}

// mark pauses an existing Garden, and marks it. It fails if the Garden has changed since it was read.
func (r *Restorer) mark(ctx context.Context, b *Backup, live *unstructured.Unstructured) error {
	before := live.DeepCopy()
	setMark(live, b)
	if err := r.Client.Patch(ctx, live, conflict.MergeFrom(before), client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("pause %s: %w; run the same command again", describe(live), err)
	}
	r.Say("Paused %s.", describe(live))
	return nil
}

// writeStatus writes the status that the Garden has in the file into the cluster. It leaves out the conditions: they are results of checks
// at another time, and the operator checks again.
func (r *Restorer) writeStatus(ctx context.Context, wanted *unstructured.Unstructured) error {
	status, found, err := unstructured.NestedMap(wanted.Object, "status")
	if err != nil {
		return errors.New("status of the Garden is malformed")
	}
	if !found {
		return nil
	}
	delete(status, "conditions")
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	target := &unstructured.Unstructured{}
	target.SetGroupVersionKind(gardenKind)
	target.SetName(wanted.GetName())
	merge := client.RawPatch(types.MergePatchType, patch)
	if err := r.Client.Status().Patch(ctx, target, merge, client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("write status of %s: %w; remove the cause, and run the same command again", describe(wanted), err)
	}
	r.Say("Wrote the status of %s.", describe(wanted))
	return nil
}

// end removes the mark of a Garden, and sets the pause that the Garden had.
func (r *Restorer) end(ctx context.Context, live *unstructured.Unstructured) error {
	_, pause := parseMark(live.GetAnnotations()[operatorv1alpha1.AnnotationRestoring])
	annotations := map[string]any{operatorv1alpha1.AnnotationRestoring: nil, operatorv1alpha1.AnnotationPausedUntil: nil}
	if pause != "" {
		annotations[operatorv1alpha1.AnnotationPausedUntil] = pause
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return fmt.Errorf("encode annotations: %w", err)
	}
	if err := r.Client.Patch(ctx, live, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("end the pause of %s: %w; run the same command again", describe(live), err)
	}
	if pause != "" {
		r.Say("%s is complete, and paused as in the file: remove the annotation %s.", describe(live), operatorv1alpha1.AnnotationPausedUntil)
		return nil
	}
	r.Say("%s is complete. The operator reconciles it.", describe(live))
	return nil
}

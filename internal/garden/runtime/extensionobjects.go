package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	extensionsv1alpha1 "github.com/espalier-dev/espalier/api/extensions/v1alpha1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/exposure"
	"github.com/espalier-dev/espalier/internal/garden/component/extensionobjects"
	"github.com/espalier-dev/espalier/internal/garden/component/istio"
	"github.com/espalier-dev/espalier/internal/garden/extension/rules"
	"github.com/espalier-dev/espalier/internal/garden/install"
	"github.com/espalier-dev/espalier/internal/rollout"
)

var extensionKind = operatorv1alpha1.SchemeGroupVersion.WithKind("Extension")

// extensionTasks do the work for the rows of objects of extensions: DNS records, backups and Extensions.
type extensionTasks struct{ *Platform }

// reconcileObjects deploys objects of extensions, and waits until their controllers have reconciled them. It requests a reconciliation of
// an object only if the last reconciliation did not succeed, or if the Secret of the object has changed since: controllers do not watch
// these Secrets. So a reconciliation of an unchanged Garden writes nothing.
//
// The parameter within limits the wait for each object. If it is 0, the default limit applies.
func reconcileObjects[T client.Object](ctx context.Context, p extensionTasks, within time.Duration, objects ...T) error {
	for _, each := range objects {
		if err := p.Cluster.DeployTyped(ctx, each); err != nil {
			return err
		}
		identity := rollout.Identity(each.GetObjectKind().GroupVersionKind(), each.GetNamespace(), each.GetName())
		revision, err := p.secretRevision(ctx, each)
		if err != nil {
			return err
		}
		state, err := p.readState(ctx, identity)
		if err != nil {
			return err
		}
		if !state.NeedsRequest(revision) {
			continue
		}
		if err := p.Cluster.Annotate(ctx, identity, extensionobjects.Request(revision)); err != nil {
			return err
		}
	}
	for _, each := range objects {
		if err := p.untilReconciled(ctx, cmp.Or(within, p.Timing.defaulted().ExtensionObjects), each); err != nil {
			return err
		}
	}
	return nil
}

// secretRevision returns the UID and the resource version of the Secret that an object refers to. It returns "" if the object refers to no
// Secret in the namespace of the Garden, or if the Secret does not exist.
func (p extensionTasks) secretRevision(ctx context.Context, o client.Object) (string, error) {
	name := extensionobjects.SecretOf(o, p.Values.Namespace)
	if name == "" {
		return "", nil
	}
	secret, err := rollout.Find(ctx, p.Cluster.Client, p.Values.Namespace, name, rollout.MetadataOf(
		rollout.Identity(corev1.SchemeGroupVersion.WithKind("Secret"), p.Values.Namespace, name)))
	if err != nil || secret == nil {
		return "", err
	}
	return string(secret.UID) + "." + secret.ResourceVersion, nil
}

func (p extensionTasks) readState(ctx context.Context, identity *unstructured.Unstructured) (extensionobjects.State, error) {
	live := identity.DeepCopy()
	if err := p.Cluster.Client.Get(ctx, client.ObjectKeyFromObject(identity), live); err != nil {
		return extensionobjects.State{}, fmt.Errorf("read %s %s: %w", identity.GetKind(), identity.GetName(), err)
	}
	return extensionobjects.StateOf(live)
}

// untilReconciled waits until the controller of an extension has reconciled an object.
func (p extensionTasks) untilReconciled(ctx context.Context, within time.Duration, o client.Object) error {
	identity := rollout.Identity(o.GetObjectKind().GroupVersionKind(), o.GetNamespace(), o.GetName())
	return p.Cluster.Until(ctx, within, func(ctx context.Context) error {
		state, err := p.readState(ctx, identity)
		if err != nil {
			return err
		}
		if problem := state.Problem(); problem != "" {
			return fmt.Errorf("%s %s is not ready: %s", identity.GetKind(), identity.GetName(), problem)
		}
		return nil
	}, rollout.WatchObject(identity))
}

// untilOffered waits until an Extension offers objects of a kind and type.
func (p extensionTasks) untilOffered(ctx context.Context, kind, typ string) error {
	return p.Cluster.Until(ctx, p.Timing.defaulted().ExtensionObjects, func(ctx context.Context) error {
		available, err := p.extensions(ctx)
		if err != nil {
			return err
		}
		if !rules.Offers(available, kind, typ) {
			return fmt.Errorf("no Extension offers objects of kind %s and type %q", kind, typ)
		}
		return nil
	}, rollout.Watched{Kind: extensionKind})
}

func (p extensionTasks) extensions(ctx context.Context) ([]operatorv1alpha1.Extension, error) {
	list := &operatorv1alpha1.ExtensionList{}
	if err := p.Cluster.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list Extensions: %w", err)
	}
	return list.Items, nil
}

func (p extensionTasks) dnsSteps() install.Steps {
	steps := install.Steps{Deploy: p.deployDNSRecords, Destroy: p.destroyDNSRecords}
	if p.Values.DNS == nil {
		steps.SkipsDeploy = "The Garden has no DNS providers."
	}
	return steps
}

// deployDNSRecords deletes stale DNSRecords, and then deploys the wanted DNSRecords. The order is important, because a stale DNSRecord of
// another provider may be for the same host. If it were deleted later, its controller would remove the record set that the controller of
// the new DNSRecord has written.
func (p extensionTasks) deployDNSRecords(ctx context.Context) error {
	gateway := &corev1.Service{}
	key := client.ObjectKey{Namespace: istio.GatewayNamespace, Name: istio.Gateway}
	if err := p.Cluster.Client.Get(ctx, key, gateway); err != nil {
		return fmt.Errorf("read Service %s: %w", key, err)
	}
	if problem := exposure.Problem(gateway); problem != "" {
		return errors.New(problem)
	}
	records, err := extensionobjects.DNSRecords(p.Values, exposure.Address(gateway))
	if err != nil {
		return err
	}
	for _, each := range records {
		if failure := p.untilOffered(ctx, each.Kind, each.Spec.Type); failure != nil {
			return failure
		}
		revision, failure := p.secretRevision(ctx, each)
		if failure != nil {
			return failure
		}
		if revision == "" {
			return fmt.Errorf("secret %s/%s of DNSRecord %s is missing: create it; until then, former DNSRecords stay",
				each.Spec.SecretRef.Namespace, each.Spec.SecretRef.Name, each.Name)
		}
	}
	live, err := p.ownDNSRecords(ctx)
	if err != nil {
		return err
	}
	if err := p.destroyRecords(ctx, extensionobjects.StaleDNSRecords(records, live)); err != nil {
		return err
	}
	return reconcileObjects(ctx, p, 0, records...)
}

// destroyDNSRecords destroys all DNSRecords that the operator created, even if the Garden has lost its DNS providers.
func (p extensionTasks) destroyDNSRecords(ctx context.Context) error {
	live, err := p.ownDNSRecords(ctx)
	if err != nil {
		return err
	}
	return p.destroyRecords(ctx, live)
}

func (p extensionTasks) destroyRecords(ctx context.Context, records []*extensionsv1alpha1.DNSRecord) error {
	objects := make([]*unstructured.Unstructured, 0, len(records))
	for _, each := range records {
		objects = append(objects, rollout.Identity(extensionobjects.DNSRecordKind, each.Namespace, each.Name))
	}
	return p.Cluster.Destroy(ctx, p.Timing.defaulted().ExtensionObjects, objects...)
}

// ownDNSRecords returns the DNSRecords that the operator created.
func (p extensionTasks) ownDNSRecords(ctx context.Context) ([]*extensionsv1alpha1.DNSRecord, error) {
	list, err := p.own(ctx, extensionobjects.DNSRecordKind)
	if err != nil {
		return nil, err
	}
	all := make([]*extensionsv1alpha1.DNSRecord, len(list))
	for i := range list {
		all[i] = &extensionsv1alpha1.DNSRecord{}
		if err := convert(&list[i], all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// own returns the objects of a kind that the operator created in the namespace of the Garden. There are none if the kind is not served.
func (p extensionTasks) own(ctx context.Context, kind schema.GroupVersionKind) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	err := p.Cluster.Client.List(ctx, list, client.InNamespace(p.Values.Namespace),
		client.MatchingLabels{p.Cluster.CreatedBy.Key: p.Cluster.CreatedBy.Value})
	if err != nil && !rollout.IsGone(err) {
		return nil, fmt.Errorf("list objects of kind %s: %w", kind.Kind, err)
	}
	return list.Items, nil
}

func convert(from *unstructured.Unstructured, to any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, to); err != nil {
		return fmt.Errorf("convert %s %s: %w", from.GetKind(), from.GetName(), err)
	}
	return nil
}

const noBucket = "The Garden has no backup, or names its bucket."

// createsBucket reports whether the Garden has a backup in a bucket that the operator creates.
func (p extensionTasks) createsBucket() bool {
	backup := p.Values.ETCDMain.Backup
	return backup != nil && backup.CreatesBucket()
}

func (p extensionTasks) backupBucketSteps() install.Steps {
	steps := install.Steps{Deploy: p.deployBackupBucket, Destroy: func(ctx context.Context) error {
		return p.destroyBackups(ctx, extensionobjects.BackupBucketKind, operatorv1alpha1.DefaultBucket(p.Garden.UID))
	}}
	if !p.createsBucket() {
		steps.SkipsDeploy = noBucket
	}
	return steps
}

func (p extensionTasks) backupEntrySteps() install.Steps {
	steps := install.Steps{Deploy: p.deployBackupEntry, Destroy: func(ctx context.Context) error {
		return p.destroyBackups(ctx, extensionobjects.BackupEntryKind, extensionobjects.BackupEntryName(p.Values.Namespace, p.Garden.UID))
	}}
	switch {
	case !p.createsBucket():
		steps.SkipsDeploy = noBucket
	case !p.Values.BackupEntry:
		steps.SkipsDeploy = "The feature gate BackupEntryForGarden is disabled."
	}
	return steps
}

// destroyBackups destroys the BackupBucket or BackupEntry with a name if the operator created it, and thereby deletes the backups. Backups
// outlive the etcds, so a user must confirm their loss.
func (p extensionTasks) destroyBackups(ctx context.Context, kind schema.GroupVersionKind, name string) error {
	identity, bucket := rollout.Identity(kind, "", name), operatorv1alpha1.DefaultBucket(p.Garden.UID)
	own, err := p.Cluster.HasOwn(ctx, identity)
	if err != nil || !own {
		return err
	}
	if p.Garden.Annotations[operatorv1alpha1.AnnotationConfirmLostBackups] != bucket {
		return fmt.Errorf("%s %s has the backups of the Garden; to delete all of them, set the annotation %s=%s of the Garden",
			kind.Kind, name, operatorv1alpha1.AnnotationConfirmLostBackups, bucket)
	}
	return p.Cluster.Destroy(ctx, p.Timing.defaulted().ExtensionObjects, identity)
}

// deployBackupBucket creates the BackupBucket, or reconciles it if it exists. It fails if the main etcd stores its backups in another
// bucket. It creates none if no Extension offers the provider, or if the Garden names no region or no Secret: a Garden without bucketName
// may have been stored with such gaps. The etcds then start without a bucket, and condition VirtualComponentsHealthy of the Garden reports
// this.
func (p extensionTasks) deployBackupBucket(ctx context.Context) error {
	name := operatorv1alpha1.DefaultBucket(p.Values.GardenUID)
	live, err := etcdTasks(p).readEtcd(ctx, etcd.Main)
	if err != nil {
		return err
	}
	if live != nil && live.Spec.Backup.Store != nil {
		if used := ptr.Deref(live.Spec.Backup.Store.Container, name); used != name {
			return fmt.Errorf("spec.virtualCluster.etcd.main.backup.bucketName is not set, but Etcd %s stores backups in %q: restore the field",
				live.Name, used)
		}
	}
	bucket, err := p.readBackupBucket(ctx)
	if err != nil {
		return err
	}
	if bucket == nil {
		available, err := p.extensions(ctx)
		if err != nil {
			return err
		}
		backup := p.Values.ETCDMain.Backup
		offered := rules.OffersBackups(available, backup.Provider)
		if !offered || extensionobjects.RegionOfBackup(p.Values) == "" || backup.SecretRef.Name == "" {
			log.FromContext(ctx).Info("Created no bucket for backups: see condition VirtualComponentsHealthy of the Garden", "bucket", name)
			return nil
		}
	}
	return reconcileObjects(ctx, p, 0, extensionobjects.BackupBucket(p.Values, name))
}

// deployBackupEntry creates the BackupEntry for the folder in the bucket, if the operator has created a bucket.
func (p extensionTasks) deployBackupEntry(ctx context.Context) error {
	bucket, err := p.readBackupBucket(ctx)
	if err != nil || bucket == nil {
		return err
	}
	return reconcileObjects(ctx, p, 0, extensionobjects.BackupEntry(p.Values, bucket))
}

// readBackupBucket returns the bucket that the operator has created, nil if there is none.
func (p extensionTasks) readBackupBucket(ctx context.Context) (*extensionsv1alpha1.BackupBucket, error) {
	live := rollout.Identity(extensionobjects.BackupBucketKind, "", operatorv1alpha1.DefaultBucket(p.Values.GardenUID))
	live, err := rollout.Find(ctx, p.Cluster.Client, "", live.GetName(), live)
	if err != nil || live == nil {
		return nil, err
	}
	bucket := &extensionsv1alpha1.BackupBucket{}
	return bucket, convert(live, bucket)
}

// backupSecret returns the name of the Secret with the credentials for the bucket that the operator has created. It returns "" if the
// operator creates no bucket, or if there is no Secret for this bucket: then the etcd uses the Secret that the Garden names.
func (p extensionTasks) backupSecret(ctx context.Context) (string, error) {
	if !p.createsBucket() {
		return "", nil
	}
	bucket, err := p.readBackupBucket(ctx)
	switch {
	case err != nil || bucket == nil:
		return "", err
	case p.Values.BackupEntry:
		return extensionobjects.BackupSecret, nil
	case bucket.Status.GeneratedSecretRef != nil:
		return bucket.Status.GeneratedSecretRef.Name, nil
	}
	return "", nil
}

// deployEarlyExtensions deploys the Extensions that are reconciled before kube-apiserver is deployed.
func (p extensionTasks) deployEarlyExtensions(ctx context.Context) error {
	all, err := p.activated(ctx)
	if err != nil {
		return err
	}
	return p.deployExtensions(ctx, slices.DeleteFunc(all, func(a extensionobjects.Activated) bool { return !a.Early }))
}

// deployLateExtensions deploys the other Extensions, after it has deleted stale ones.
func (p extensionTasks) deployLateExtensions(ctx context.Context) error {
	all, err := p.activated(ctx)
	if err != nil {
		return err
	}
	err = p.destroyOwnExtensions(ctx, func(typ string) bool {
		return !slices.ContainsFunc(all, func(a extensionobjects.Activated) bool { return a.Spec.Type == typ })
	})
	if err != nil {
		return err
	}
	return p.deployExtensions(ctx, slices.DeleteFunc(all, func(a extensionobjects.Activated) bool { return a.Early }))
}

// activated returns the Extensions that the Garden has, after it has waited until an Extension offers each of them.
func (p extensionTasks) activated(ctx context.Context) ([]extensionobjects.Activated, error) {
	for _, each := range p.Values.Extensions {
		if err := p.untilOffered(ctx, operatorv1alpha1.KindExtension, each.Type); err != nil {
			return nil, err
		}
	}
	available, err := p.extensions(ctx)
	if err != nil {
		return nil, err
	}
	return extensionobjects.Extensions(p.Values, available), nil
}

func (p extensionTasks) deployExtensions(ctx context.Context, all []extensionobjects.Activated) error {
	for _, each := range all {
		if err := reconcileObjects(ctx, p, each.Within, each.Extension); err != nil {
			return err
		}
	}
	return nil
}

// destroyEarlyDeleted destroys the Extensions that need the virtual cluster until they are gone.
func (p extensionTasks) destroyEarlyDeleted(ctx context.Context) error {
	available, err := p.extensions(ctx)
	if err != nil {
		return err
	}
	return p.destroyOwnExtensions(ctx, func(typ string) bool { return extensionobjects.IsDeletedEarly(typ, available) })
}

// destroyExtensions destroys all Extensions that are left.
func (p extensionTasks) destroyExtensions(ctx context.Context) error {
	return p.destroyOwnExtensions(ctx, func(string) bool { return true })
}

// destroyOwnExtensions destroys the Extensions that the operator created, of the types that satisfy a condition.
func (p extensionTasks) destroyOwnExtensions(ctx context.Context, condition func(typ string) bool) error {
	list, err := p.own(ctx, extensionobjects.ExtensionKind)
	if err != nil {
		return err
	}
	var doomed []*unstructured.Unstructured
	for i := range list {
		if typ, _, _ := unstructured.NestedString(list[i].Object, "spec", "type"); condition(typ) {
			doomed = append(doomed, rollout.Identity(extensionobjects.ExtensionKind, list[i].GetNamespace(), list[i].GetName()))
		}
	}
	return p.Cluster.Destroy(ctx, p.Timing.defaulted().ExtensionObjects, doomed...)
}

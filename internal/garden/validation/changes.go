package validation

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/extensionobjects"
	"github.com/espalier-dev/espalier/internal/garden/extension/rules"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

// changes returns the errors of the differences between the specs of two Gardens.
func changes(updated, old *operatorv1alpha1.Garden) field.ErrorList {
	runtimePath, virtualPath := field.NewPath("spec", "runtimeCluster"), field.NewPath("spec", "virtualCluster")
	runtime, runtimeBefore := updated.Spec.RuntimeCluster, old.Spec.RuntimeCluster
	virtual, virtualBefore := updated.Spec.VirtualCluster, old.Spec.VirtualCluster

	found := firstDomainChange(
		runtimePath.Child("ingress", "domains").Index(0), runtime.Ingress.AllDomains(), runtimeBefore.Ingress.AllDomains())
	networking := runtimePath.Child("networking")
	found = append(found, networkChanges(networking.Child("nodes"), "nodes", runtime.Networking.Nodes, runtimeBefore.Networking.Nodes)...)
	found = append(found, networkChanges(networking.Child("pods"), "pods", runtime.Networking.Pods, runtimeBefore.Networking.Pods)...)
	found = append(found, networkChanges(
		networking.Child("services"), "services", runtime.Networking.Services, runtimeBefore.Networking.Services)...)

	found = append(found, firstDomainChange(
		virtualPath.Child("dns", "domains").Index(0).Child("name"), virtual.DNS.Domains, virtualBefore.DNS.Domains)...)
	found = append(found, networkChanges(
		virtualPath.Child("networking", "services"), "services", virtual.Networking.Services, virtualBefore.Networking.Services)...)
	if highlyAvailable(old) && !highlyAvailable(updated) {
		at := virtualPath.Child("controlPlane", "highAvailability")
		found = append(found, field.Invalid(at, field.OmitValueType{}, immutable))
	}
	main, events := etcdSettings(updated)
	oldMain, oldEvents := etcdSettings(old)
	found = append(found, backupChanges(virtualPath.Child("etcd", "main", "backup"), updated, old)...)
	found = append(found, storageClassChange(virtualPath.Child("etcd", "main"), main.Storage, oldMain.Storage)...)
	found = append(found, storageClassChange(virtualPath.Child("etcd", "events"), events.Storage, oldEvents.Storage)...)
	found = append(found, versionChange(
		virtualPath.Child("kubernetes", "version"), virtual.Kubernetes.Version, virtualBefore.Kubernetes.Version)...)
	found = append(found, resourceMoves(virtualPath, updated, old)...)
	return append(found, encryptionChanges(virtualPath, updated, old)...)
}

func firstDomainChange(path *field.Path, updated, old []operatorv1alpha1.Domain) field.ErrorList {
	if len(updated) == 0 || len(old) == 0 || updated[0].Name == old[0].Name {
		return nil
	}
	return field.ErrorList{field.Invalid(path, updated[0].Name, immutable)}
}

// etcdSettings returns the settings of both etcds. Settings that are not set are empty.
func etcdSettings(g *operatorv1alpha1.Garden) (operatorv1alpha1.ETCDMain, operatorv1alpha1.ETCDEvents) {
	settings := ptr.Deref(g.Spec.VirtualCluster.ETCD, operatorv1alpha1.ETCD{})
	return ptr.Deref(settings.Main, operatorv1alpha1.ETCDMain{}), ptr.Deref(settings.Events, operatorv1alpha1.ETCDEvents{})
}

// backupChanges judges a changed backup of a Garden. A missing name of the bucket can be set to the name of the container in use.
func backupChanges(path *field.Path, updated, old *operatorv1alpha1.Garden) field.ErrorList {
	main, _ := etcdSettings(updated)
	before, _ := etcdSettings(old)
	if before.Backup == nil {
		return nil
	}
	if main.Backup == nil {
		return field.ErrorList{field.Forbidden(path, "backup must not be deactivated if it was set before")}
	}
	creates := main.Backup.CreatesBucket() && before.Backup.CreatesBucket()
	if was := regionOfBackup(old); creates && was != "" && was != regionOfBackup(updated) {
		return field.ErrorList{field.Invalid(path.Child("region"), regionOfBackup(updated), fmt.Sprintf(
			"the bucket is in region %q; set this field if spec.runtimeCluster.provider.region has changed", was))}
	}
	bucket, was := ptr.Deref(main.Backup.BucketName, ""), ptr.Deref(before.Backup.BucketName, "")
	if bucket == was || was == "" && bucket == operatorv1alpha1.DefaultBucket(old.UID) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("bucketName"), bucket, immutable)}
}

// backup judges the backup of a new Garden, or a backup that differs from the old one. The operator creates a bucket only through an
// Extension, and an etcd without credentials for its bucket has no backups.
func backup(path *field.Path, g, old *operatorv1alpha1.Garden, available []operatorv1alpha1.Extension) field.ErrorList {
	main, _ := etcdSettings(g)
	before, _ := etcdSettings(old)
	if main.Backup == nil || equality.Semantic.DeepEqual(main.Backup, before.Backup) {
		return nil
	}
	var found field.ErrorList
	offered := rules.OffersBackups(available, main.Backup.Provider)
	removesName := before.Backup != nil && !before.Backup.CreatesBucket() // is refused by itself
	switch {
	case !main.Backup.CreatesBucket() || removesName:
	case !offered:
		found = append(found, field.Required(path.Child("bucketName"), fmt.Sprintf(
			"name an existing bucket, or create an Extension that offers BackupBucket and BackupEntry of type %q", main.Backup.Provider)))
	case regionOfBackup(g) == "":
		found = append(found, field.Required(path.Child("region"),
			"name the region in which the operator creates the bucket, here or in spec.runtimeCluster.provider.region"))
	}
	if offered && main.Backup.CreatesBucket() && main.Backup.SecretRef.Name == extensionobjects.BackupSecret {
		found = append(found, field.Invalid(path.Child("secretRef", "name"), extensionobjects.BackupSecret,
			"the controller of the BackupEntry replaces the content of this Secret, and deletes it"))
	}
	if main.Backup.SecretRef.Name == "" {
		found = append(found, field.Required(path.Child("secretRef", "name"), "name the Secret with the credentials for the bucket"))
	}
	return found
}

// regionOfBackup returns the region of the bucket that the operator creates, "" if the Garden does not name one.
func regionOfBackup(g *operatorv1alpha1.Garden) string {
	main, _ := etcdSettings(g)
	backup := ptr.Deref(main.Backup, operatorv1alpha1.Backup{})
	return cmp.Or(ptr.Deref(backup.Region, ""), ptr.Deref(g.Spec.RuntimeCluster.Provider.Region, ""))
}

// backupPath is the path of the backup in a Garden, for sentences about a stored Garden.
const backupPath = "spec.virtualCluster.etcd.main.backup"

// IncompleteBackup names the part that the backup of a stored Garden lacks, and the remedy, in one sentence. It returns "" if the backup
// lacks nothing. A Garden with an incomplete backup may have been stored while the webhook was unavailable, or by an earlier release.
// Available are the Extensions of the runtime cluster.
func IncompleteBackup(g *operatorv1alpha1.Garden, available []operatorv1alpha1.Extension) string {
	main, _ := etcdSettings(g)
	switch {
	case main.Backup == nil:
		return ""
	case main.Backup.CreatesBucket() && !rules.OffersBackups(available, main.Backup.Provider):
		return fmt.Sprintf("%s.bucketName is not set, and no Extension offers BackupBucket and BackupEntry of type %q: create such an "+
			"Extension, or create bucket %q, which the etcd uses, and name it there",
			backupPath, main.Backup.Provider, operatorv1alpha1.DefaultBucket(g.UID))
	case main.Backup.CreatesBucket() && regionOfBackup(g) == "":
		return fmt.Sprintf("%s.region is not set: name the region in which the operator creates bucket %q there, or in "+
			"spec.runtimeCluster.provider.region", backupPath, operatorv1alpha1.DefaultBucket(g.UID))
	case main.Backup.SecretRef.Name == "":
		return backupPath + ".secretRef.name is not set: name the Secret with the credentials for the bucket there"
	}
	return ""
}

// storageClassChange judges the StorageClass of an etcd, which etcd-druid cannot change.
func storageClassChange(path *field.Path, updated, old *operatorv1alpha1.Storage) field.ErrorList {
	class := ptr.Deref(updated, operatorv1alpha1.Storage{}).ClassName
	if ptr.Equal(class, ptr.Deref(old, operatorv1alpha1.Storage{}).ClassName) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("storage", "className"), ptr.Deref(class, ""), immutable)}
}

func versionChange(path *field.Path, updated, old string) field.ErrorList {
	if updated == old {
		return nil
	}
	to, err := versions.ParseKubernetes(updated)
	if err != nil {
		return field.ErrorList{field.Invalid(path, updated, err.Error())}
	}
	from, err := versions.ParseKubernetes(old)
	if err != nil {
		return field.ErrorList{field.Invalid(path, old, err.Error())}
	}
	if to.LessThan(from) {
		return field.ErrorList{field.Forbidden(path, "kubernetes version downgrade is not supported")}
	}
	if to.SkipsMinor(from) {
		return field.ErrorList{field.Forbidden(path, "kubernetes version upgrade cannot skip a minor version")}
	}
	return nil
}

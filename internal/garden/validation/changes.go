package validation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

// changes judges the differences between two specs, in their normal forms.
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
	bucket, was := ptr.Deref(main.Backup.BucketName, ""), ptr.Deref(before.Backup.BucketName, "")
	if bucket == was || was == "" && bucket == operatorv1alpha1.DefaultBucket(old.UID) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("bucketName"), bucket, immutable)}
}

// backup judges the backup of a new Garden, or a backup that differs from the old one. This operator creates no bucket, and an etcd
// without credentials for its bucket has no backups.
func backup(path *field.Path, g, old *operatorv1alpha1.Garden) field.ErrorList {
	main, _ := etcdSettings(g)
	before, _ := etcdSettings(old)
	if main.Backup == nil || equality.Semantic.DeepEqual(main.Backup, before.Backup) {
		return nil
	}
	var found field.ErrorList
	was := ptr.Deref(before.Backup, operatorv1alpha1.Backup{})
	if ptr.Deref(main.Backup.BucketName, "") == "" && ptr.Deref(was.BucketName, "") == "" { // a name that is removed is refused by itself
		found = append(found, field.Required(path.Child("bucketName"), "name an existing bucket, the operator creates none"))
	}
	if main.Backup.SecretRef.Name == "" {
		found = append(found, field.Required(path.Child("secretRef", "name"), "name the Secret with the credentials for the bucket"))
	}
	return found
}

// backupPath is the path of the backup in a Garden, for sentences about a stored Garden.
const backupPath = "spec.virtualCluster.etcd.main.backup"

// IncompleteBackup names the missing field in the backup of a stored Garden, and the remedy, in one sentence; "" if nothing is missing. A
// Garden can be stored without it while the webhook is away, or by an earlier release.
func IncompleteBackup(g *operatorv1alpha1.Garden) string {
	main, _ := etcdSettings(g)
	switch {
	case main.Backup == nil:
		return ""
	case ptr.Deref(main.Backup.BucketName, "") == "":
		return fmt.Sprintf("%s.bucketName is not set, and the operator creates no bucket: "+
			"create bucket %q, which the etcd uses, and name it there", backupPath, operatorv1alpha1.DefaultBucket(g.UID))
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

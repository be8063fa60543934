package validation

import (
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
	found = append(found, backupChanges(virtualPath.Child("etcd", "main", "backup"), backupOf(updated), backupOf(old))...)
	found = append(found, storageClassChanges(virtualPath.Child("etcd"), virtual.ETCD, virtualBefore.ETCD)...)
	found = append(found, versionChange(
		virtualPath.Child("kubernetes", "version"), virtual.Kubernetes.Version, virtualBefore.Kubernetes.Version)...)
	return append(found, encryptionChanges(virtualPath, updated, old)...)
}

func firstDomainChange(path *field.Path, updated, old []operatorv1alpha1.Domain) field.ErrorList {
	if len(updated) == 0 || len(old) == 0 || updated[0].Name == old[0].Name {
		return nil
	}
	return field.ErrorList{field.Invalid(path, updated[0].Name, immutable)}
}

func backupOf(g *operatorv1alpha1.Garden) *operatorv1alpha1.Backup {
	if g.Spec.VirtualCluster.ETCD == nil || g.Spec.VirtualCluster.ETCD.Main == nil {
		return nil
	}
	return g.Spec.VirtualCluster.ETCD.Main.Backup
}

func backupChanges(path *field.Path, updated, old *operatorv1alpha1.Backup) field.ErrorList {
	if old == nil {
		return nil
	}
	if updated == nil {
		return field.ErrorList{field.Forbidden(path, "backup must not be deactivated if it was set before")}
	}
	if bucketOf(updated) == bucketOf(old) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("bucketName"), bucketOf(updated), immutable)}
}

func bucketOf(backup *operatorv1alpha1.Backup) string {
	if backup.BucketName == nil {
		return ""
	}
	return *backup.BucketName
}

// storageClassChanges judges the StorageClasses of etcds, which etcd-druid cannot change.
func storageClassChanges(path *field.Path, updated, old *operatorv1alpha1.ETCD) field.ErrorList {
	main, events := storageClasses(updated)
	oldMain, oldEvents := storageClasses(old)
	return append(storageClassChange(path.Child("main"), main, oldMain), storageClassChange(path.Child("events"), events, oldEvents)...)
}

func storageClassChange(path *field.Path, updated, old *string) field.ErrorList {
	if ptr.Equal(updated, old) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("storage", "className"), ptr.Deref(updated, ""), immutable)}
}

// storageClasses returns those that a Garden names.
func storageClasses(settings *operatorv1alpha1.ETCD) (main, events *string) {
	if settings != nil && settings.Main != nil && settings.Main.Storage != nil {
		main = settings.Main.Storage.ClassName
	}
	if settings != nil && settings.Events != nil && settings.Events.Storage != nil {
		events = settings.Events.Storage.ClassName
	}
	return main, events
}

func versionChange(path *field.Path, updated, old string) field.ErrorList {
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

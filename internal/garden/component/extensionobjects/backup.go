package extensionobjects

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	extensionsv1alpha1 "github.com/espalier-dev/espalier/api/extensions/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// BackupSecret is the name of the Secret with the credentials for the bucket. The controller of the BackupEntry writes this Secret in the
// namespace of the Garden.
const BackupSecret = "etcd-backup"

// BackupEntryName returns the name of the BackupEntry. Controllers derive from it the namespace in which they write BackupSecret.
func BackupEntryName(namespace string, garden types.UID) string {
	return namespace + "--" + string(garden)
}

// RegionOfBackup returns the region of the BackupBucket: the region that the Garden names for its backups, or else the region of the
// runtime cluster. It is "" if the Garden names neither of the two regions.
func RegionOfBackup(v values.Values) string {
	return cmp.Or(ptr.Deref(v.ETCDMain.Backup.Region, ""), v.Region)
}

// BackupBucket returns the BackupBucket called name, for the backups of the main etcd.
func BackupBucket(v values.Values, name string) *extensionsv1alpha1.BackupBucket {
	return &extensionsv1alpha1.BackupBucket{
		TypeMeta:   object.Type(BackupBucketKind.GroupVersion().String(), BackupBucketKind.Kind),
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: extensionsv1alpha1.BackupBucketSpec{
			DefaultSpec: backupDefaults(v), Region: RegionOfBackup(v),
			SecretRef: extensionsv1alpha1.SecretReference{Namespace: v.Namespace, Name: v.ETCDMain.Backup.SecretRef.Name},
		},
	}
}

// BackupEntry returns the BackupEntry, which stands for the folder with the backups of the main etcd in a live bucket. If the controller
// of the bucket has generated credentials, the BackupEntry refers to them, and not to the credentials that the Garden names.
func BackupEntry(v values.Values, bucket *extensionsv1alpha1.BackupBucket) *extensionsv1alpha1.BackupEntry {
	entry := &extensionsv1alpha1.BackupEntry{
		TypeMeta:   object.Type(BackupEntryKind.GroupVersion().String(), BackupEntryKind.Kind),
		ObjectMeta: metav1.ObjectMeta{Name: BackupEntryName(v.Namespace, v.GardenUID)},
		Spec: extensionsv1alpha1.BackupEntrySpec{
			DefaultSpec: backupDefaults(v), Region: RegionOfBackup(v), BucketName: bucket.Name,
			BackupBucketProviderStatus: bucket.Status.ProviderStatus,
			SecretRef:                  extensionsv1alpha1.SecretReference{Namespace: v.Namespace, Name: v.ETCDMain.Backup.SecretRef.Name},
		},
	}
	if generated := bucket.Status.GeneratedSecretRef; generated != nil {
		entry.Spec.SecretRef = extensionsv1alpha1.SecretReference{
			Namespace: cmp.Or(generated.Namespace, v.Namespace), Name: generated.Name,
		}
	}
	return entry
}

func backupDefaults(v values.Values) extensionsv1alpha1.DefaultSpec {
	return extensionsv1alpha1.DefaultSpec{
		Type: v.ETCDMain.Backup.Provider, Class: ptr.To(extensionsv1alpha1.ClassGarden), ProviderConfig: v.ETCDMain.Backup.ProviderConfig,
	}
}

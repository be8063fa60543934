package extensionvalidation

type backupBucketSpec struct {
	DefaultSpec `json:",inline"`
	Region      string          `json:"region"`
	SecretRef   secretReference `json:"secretRef"`
}

func backupBuckets() rules[backupBucketSpec, unread] {
	return rules[backupBucketSpec, unread]{
		check: func(bucket *object[backupBucketSpec, unread], found *findings) {
			found.require(specPath("type"), bucket.Spec.Type)
			found.require(specPath("region"), bucket.Spec.Region)
			found.require(specPath("secretRef", "name"), bucket.Spec.SecretRef.Name)
		},
		keep: func(now, before *backupBucketSpec, found *findings) {
			found.keep(specPath("type"), now.Type, before.Type)
			found.keep(specPath("region"), now.Region, before.Region)
		},
	}
}

type backupEntrySpec struct {
	DefaultSpec                `json:",inline"`
	BackupBucketProviderStatus *opaqueExtension `json:"backupBucketProviderStatus,omitempty"`
	Region                     string           `json:"region"`
	BucketName                 string           `json:"bucketName"`
	SecretRef                  secretReference  `json:"secretRef"`
}

func backupEntries() rules[backupEntrySpec, unread] {
	return rules[backupEntrySpec, unread]{
		check: func(entry *object[backupEntrySpec, unread], found *findings) {
			found.require(specPath("type"), entry.Spec.Type)
			found.require(specPath("bucketName"), entry.Spec.BucketName)
			found.require(specPath("region"), entry.Spec.Region)
			found.require(specPath("secretRef", "name"), entry.Spec.SecretRef.Name)
		},
		keep: func(now, before *backupEntrySpec, found *findings) {
			found.keep(specPath("type"), now.Type, before.Type)
		},
	}
}

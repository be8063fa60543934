package desired

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/secretversions"
)

// Reader reads the Secrets of sets and decodes them.
type Reader struct {
	// Secrets reads live from the API server, because a watch may be behind, and receives only metadata.
	Secrets client.Reader
	// Versions are the versions that the watch has shown.
	Versions Versions
	Target   *apply.Target
	// MaxDecompressedBytes is the limit for the sum of the sizes of the decompressed data values of a set.
	MaxDecompressedBytes int64
}

// Versions returns the versions of Secrets that a watch has shown. A secretversions.Tracker and secretversions.NoWatch implement it.
type Versions interface {
	Lookup(secret types.NamespacedName) (secretversions.Version, secretversions.Knowledge)
	// Restores returns how many restores of the source from a backup the watch has detected.
	Restores(secret types.NamespacedName) int
}

// Version is the version of a Secret that was read.
type Version struct {
	name            string
	uid             types.UID
	resourceVersion string
	// restores is how many restores of the source from a backup the watch had detected before the Secret was read.
	restores int
}

// IsCurrent reports whether the watch has shown no change of the set's Secrets since they were read.
func (r *Reader) IsCurrent(mr *resourcesv1alpha1.ManagedResource, versions []Version) bool {
	return len(versions) == len(mr.Spec.SecretRefs) && !slices.ContainsFunc(versions, func(read Version) bool {
		secret := types.NamespacedName{Namespace: mr.Namespace, Name: read.name}
		watched, knowledge := r.Versions.Lookup(secret)
		return !read.current(watched, knowledge, r.Versions.Restores(secret))
	})
}

// current reports whether a Secret is still as it was read: the watch has shown no later change, and no later deletion. The watch may be
// behind, so an older version in the watch does not count, unless the source was restored from a backup since the Secret was read.
func (v Version) current(watched secretversions.Version, knowledge secretversions.Knowledge, restores int) bool {
	if v.restores != restores {
		return false
	}
	switch knowledge {
	case secretversions.Absent: // the deletion of an earlier Secret of the same name does not count
		return observe.Older(watched.ResourceVersion, v.resourceVersion)
	case secretversions.Present:
		return watched.UID == v.uid &&
			(watched.ResourceVersion == v.resourceVersion || observe.Older(watched.ResourceVersion, v.resourceVersion))
	case secretversions.Unknown:
	}
	return true
}

// data is the data of the Secrets of a set: values by Secret and data key.
type data map[string]map[string][]byte

func (r *Reader) readSecrets(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (data, []Version, error) {
	read := make(data, len(mr.Spec.SecretRefs))
	versions := make([]Version, 0, len(mr.Spec.SecretRefs))
	for _, ref := range mr.Spec.SecretRefs {
		secret, name := &corev1.Secret{}, types.NamespacedName{Namespace: mr.Namespace, Name: ref.Name}
		restores := r.Versions.Restores(name) // before the Secret is read
		if err := r.Secrets.Get(ctx, name, secret); err != nil {
			return nil, nil, fmt.Errorf("could not read secret '%s/%s': %w", mr.Namespace, ref.Name, err)
		}
		read[ref.Name] = secret.Data
		versions = append(versions, Version{ref.Name, secret.UID, secret.ResourceVersion, restores})
	}
	return read, versions, nil
}

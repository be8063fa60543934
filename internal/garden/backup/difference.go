package backup

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/secrets"
)

// cluster is the part of a cluster that a restoration depends on.
type cluster struct {
	// namespace is the namespace of the Garden, nil if it does not exist.
	namespace *corev1.Namespace
	// gardens are all Gardens.
	gardens []unstructured.Unstructured
	// existing are the live objects of the backup without the Garden, in its order. Objects that do not exist are nil.
	existing []*unstructured.Unstructured
	// keys are the names of the live Secrets with keys and certificate authorities that only a rotation replaces.
	keys []string
}

// garden returns the first live Garden, nil if there is none.
func (c cluster) garden() *unstructured.Unstructured {
	if len(c.gardens) == 0 {
		return nil
	}
	return &c.gardens[0]
}

// problems returns the reasons why a backup must not be restored in a cluster, each reason with the remedy. The parameter wanted is the
// Garden that the restoration would create. The texts name objects and fields, but no values.
func problems(b *Backup, wanted *unstructured.Unstructured, c cluster) []string {
	found := gardenProblems(b, wanted, c)
	if c.namespace != nil && c.namespace.DeletionTimestamp != nil {
		found = append(found, fmt.Sprintf("Namespace %s is being deleted: wait until it is gone", c.namespace.Name))
	}
	incomplete := slices.Contains(c.existing, nil) || c.garden() == nil || isMarked(c.garden())
	for i, live := range c.existing {
		if live == nil {
			continue
		}
		if live.GetDeletionTimestamp() != nil {
			found = append(found, describe(live)+" is being deleted: wait until it is gone")
		} else if fields := differences(b.Objects[i], live); len(fields) > 0 {
			found = append(found, fmt.Sprintf("%s exists with other content (%s): if the file has the right one, pause the Garden and delete "+
				"the object; otherwise restore a newer file", describe(live), strings.Join(fields, ", ")))
		}
	}
	for _, key := range c.keys {
		isInFile := slices.ContainsFunc(b.Objects, func(o *unstructured.Unstructured) bool {
			return o.GroupVersionKind() == secretKind && o.GetName() == key
		})
		if incomplete && !isInFile {
			found = append(found, fmt.Sprintf("Secret %s/%s has a key that the file does not have: restore a file that was made after it, or, "+
				"if nothing was written with this key, pause the Garden and delete the Secret", b.Manifest.Garden.Namespace, key))
		}
	}
	return found
}

// gardenProblems returns why the Gardens of a cluster prevent a restoration.
func gardenProblems(b *Backup, wanted *unstructured.Unstructured, c cluster) []string {
	of, live := b.Manifest.Garden, c.garden()
	if live == nil {
		return nil
	}
	identity, _, _ := unstructured.NestedString(live.Object, "spec", "virtualCluster", "gardener", "clusterIdentity")
	switch {
	case len(c.gardens) > 1:
		return []string{fmt.Sprintf("the cluster has %d Gardens: delete all of them that were never reconciled, but at most one is left",
			len(c.gardens))}
	case live.GetName() != of.Name || identity != of.ClusterIdentity:
		return []string{fmt.Sprintf("the file is of Garden %s with cluster identity %q, and the cluster has Garden %s with cluster identity "+
			"%q: use the file of that Garden, or another cluster", of.Name, of.ClusterIdentity, live.GetName(), identity)}
	case live.GetDeletionTimestamp() != nil:
		return []string{fmt.Sprintf("Garden %s is being deleted: wait until it is gone", of.Name)}
	}
	if mark, marked := live.GetAnnotations()[operatorv1alpha1.AnnotationRestoring]; marked {
		if digest, _ := parseMark(mark); digest != b.gardenDigest() {
			return []string{fmt.Sprintf("Garden %s is being restored from another file: end that restoration first", of.Name)}
		}
		return nil
	}
	saved, bucket := b.Objects[len(b.Objects)-1], []string{"spec", "virtualCluster", "etcd", "main", "backup"}
	var found []string
	switch {
	case isBlank(live) && !isEqual(wanted, saved, bucket...) && !isEqual(wanted, live, bucket...):
		// The specification in the file does not have these fields either, see nameBucket.
		found = append(found, fmt.Sprintf("Garden %s was never reconciled, and does not name the bucket of its backups, which the operator had "+
			"created (spec.virtualCluster.etcd.main.backup.bucketName and secretRef): delete the Garden that was never reconciled, and restore "+
			"again", of.Name))
	case !isEqual(wanted, live, "spec"):
		found = append(found, fmt.Sprintf("Garden %s exists with another specification: make spec equal to that in the file", of.Name))
	}
	if !isBlank(live) && !isEqual(wanted, live, "status", "credentials") {
		found = append(found, fmt.Sprintf("Garden %s exists with another state of credentials (status.credentials): restore a file that was "+
			"made in this state", of.Name))
	}
	return found
}

// isBlank reports whether no operator has reconciled a Garden.
func isBlank(garden *unstructured.Unstructured) bool {
	for _, field := range []string{"credentials", "lastOperation", "observedGeneration", "encryptedResources"} {
		if _, found, _ := unstructured.NestedFieldNoCopy(garden.Object, "status", field); found {
			return false
		}
	}
	return true
}

func isEqual(a, b *unstructured.Unstructured, path ...string) bool {
	one, _, _ := unstructured.NestedFieldNoCopy(a.Object, path...)
	other, _, _ := unstructured.NestedFieldNoCopy(b.Object, path...)
	return equality.Semantic.DeepEqual(one, other)
}

// identifying are the labels by which the operator finds a Secret, and knows its generation.
var identifying = []string{
	secrets.LabelName, secrets.LabelManagedBy, secrets.LabelManagerIdentity, secrets.LabelLastRotation, secrets.LabelBundleFor,
	secrets.LabelKeptCredential, apiserver.RoleLabel,
}

// differences returns the fields in which a live object differs from an object in a file. It compares the content, and the labels by which
// the operator finds a Secret. Other labels, and all annotations, may differ.
func differences(saved, live *unstructured.Unstructured) []string {
	var fields []string
	for _, field := range []string{"type", "data", "binaryData", "immutable", "spec"} {
		if !isEqual(saved, live, field) {
			fields = append(fields, field)
		}
	}
	for _, label := range identifying {
		want, is := saved.GetLabels()[label]
		if has := live.GetLabels()[label]; is && has != want {
			fields = append(fields, "label "+label)
		}
	}
	return fields
}

// irreplaceable reports whether a Secret with these labels has a key or certificate authority that only a rotation replaces.
func irreplaceable(labels map[string]string) bool {
	return isManaged(labels) && slices.ContainsFunc(components.RotatedSecrets(), func(s rotation.Secret) bool {
		return s.Irreplaceable && s.Name == labels[secrets.LabelName]
	})
}

// A mark is the value of operatorv1alpha1.AnnotationRestoring: the beginning of the digest of the Garden in the file, and the value of the
// annotation for a pause that the Garden gets at the end of the restoration.
func newMark(digest, pause string) string { return strings.TrimSpace(digest + " " + pause) }

func parseMark(mark string) (digest, pause string) {
	digest, pause, _ = strings.Cut(mark, " ")
	return digest, pause
}

func isMarked(garden *unstructured.Unstructured) bool {
	_, marked := garden.GetAnnotations()[operatorv1alpha1.AnnotationRestoring]
	return marked
}

// gardenDigest returns the first 16 hexadecimal digits of the digest of the Garden. The whole digest is in the manifest of the file.
func (b *Backup) gardenDigest() string {
	const length = 16
	return b.Manifest.Objects[len(b.Manifest.Objects)-1].SHA256[:length]
}

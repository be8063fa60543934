package backup

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/globalmonitoring"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/lifecycle"
	"github.com/espalier-dev/espalier/internal/garden/reference"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/secrets"
)

// contents decides which Secrets and ConfigMaps belong to a backup.
type contents struct {
	// referenced are the objects that the Garden, the Extensions and the Etcds name.
	referenced sets.Set[reference.Name]
	// restored says how the Secrets of each logical name are restored.
	restored map[string]component.Restored
}

func newContents(garden *operatorv1alpha1.Garden, extensions []operatorv1alpha1.Extension, etcds []EtcdReference) contents {
	c := contents{referenced: reference.Of(garden), restored: map[string]component.Restored{}}
	for i := range extensions {
		c.referenced = c.referenced.Union(reference.OfExtension(&extensions[i]))
	}
	for _, each := range etcds {
		if each.Secret != "" {
			c.referenced.Insert(reference.Name{Kind: secretKind.Kind, Name: each.Secret})
		}
	}
	for _, each := range components.Credentials() {
		c.restored[each.Name] = each.Restored
	}
	return c
}

// rolesOfUsers are the roles of Secrets and ConfigMaps that users create beside a Garden, and that it finds by their roles.
var rolesOfUsers = []string{
	operatorv1alpha1.RoleWildcardCertificate, operatorv1alpha1.RoleFormerWildcardCertificate, operatorv1alpha1.RolePullSecret,
	operatorv1alpha1.RoleCABundle, operatorv1alpha1.RoleResourceReference, globalmonitoring.Labels()[operatorv1alpha1.LabelRole],
}

// includes reports whether an object in the namespace of the Garden belongs to a backup.
func (c contents) includes(o *metav1.PartialObjectMetadata) bool {
	labels := o.Labels
	if isManaged(labels) {
		// A logical name without a row is one of a landscape that was taken over. Nothing generates its Secrets again.
		return c.restored[cmp.Or(labels[secrets.LabelBundleFor], labels[secrets.LabelName])] != component.GeneratedAgain
	}
	if c.referenced.Has(reference.Name{Kind: o.Kind, Name: o.Name}) || slices.Contains(rolesOfUsers, labels[operatorv1alpha1.LabelRole]) {
		return true
	}
	holdsKeys := isConfiguration(labels) || labels[secrets.LabelKeptCredential] != "" || labels[secrets.LabelUseDataFor] != ""
	return o.Kind == secretKind.Kind && holdsKeys
}

func isManaged(labels map[string]string) bool {
	return labels[secrets.LabelManagedBy] == secrets.ManagedBy && labels[secrets.LabelManagerIdentity] == lifecycle.SecretsIdentity
}

// isConfiguration reports whether a Secret with these labels has an encryption configuration of an API server.
func isConfiguration(labels map[string]string) bool {
	role := labels[apiserver.RoleLabel]
	return role != "" && slices.ContainsFunc(components.Credentials(), func(c component.Credential) bool {
		return apiserver.ConfigurationRole(c.Name) == role
	})
}

// lost returns the names of the irreplaceable keys and certificate authorities that the Garden needs in the current phases of its
// rotations, and that the Secrets among the objects do not contain. Without these keys and authorities, the operator would refuse the
// restored Garden, or the data of the Garden could not be read.
func lost(garden *operatorv1alpha1.Garden, objects []*unstructured.Unstructured) []string {
	var rotations *operatorv1alpha1.CredentialsRotation
	if garden.Status.Credentials != nil {
		rotations = garden.Status.Credentials.Rotation
	}
	generations := map[string][]string{}
	for _, each := range objects {
		labels := each.GetLabels()
		if each.GroupVersionKind() == secretKind && isManaged(labels) && labels[secrets.LabelBundleFor] == "" {
			generations[labels[secrets.LabelName]] = append(generations[labels[secrets.LabelName]], labels[secrets.LabelLastRotation])
		}
	}
	var missing []string
	times, phases := components.RotatedSecrets().Times(rotations), rotation.PhasesOf(garden)
	for _, each := range components.RotatedSecrets() {
		if !each.Irreplaceable {
			continue
		}
		began, rotated := times[each.Name]
		current := strconv.FormatInt(began.Unix(), 10)
		found := generations[each.Name]
		hasCurrent := slices.Contains(found, current)
		hasFormer := slices.ContainsFunc(found, func(generation string) bool { return generation != current })
		phase := phases[each.Credential]
		switch {
		case len(found) == 0:
			missing = append(missing, each.Name)
		case !rotated:
		case phase != operatorv1alpha1.RotationPreparing && !hasCurrent:
			missing = append(missing, each.Name+" of the rotation that began at "+began.UTC().Format(time.RFC3339))
		case (phase == operatorv1alpha1.RotationPreparing || phase == operatorv1alpha1.RotationPrepared) && !hasFormer:
			missing = append(missing, each.Name+" from before the rotation that began at "+began.UTC().Format(time.RFC3339))
		}
	}
	return missing
}

// etcdsOf returns the places of the backups of etcds. An etcd without backups is left out.
func etcdsOf(etcds []druidcorev1alpha1.Etcd) []EtcdReference {
	var all []EtcdReference
	for i := range etcds {
		store := etcds[i].Spec.Backup.Store
		if store == nil {
			continue
		}
		each := EtcdReference{
			Name: etcds[i].Name, Provider: string(ptr.Deref(store.Provider, "")), Container: ptr.Deref(store.Container, ""),
			Prefix: store.Prefix,
		}
		if store.SecretRef != nil {
			each.Secret = store.SecretRef.Name
		}
		all = append(all, each)
	}
	slices.SortFunc(all, func(a, b EtcdReference) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// nameBucket writes the bucket and the credentials that the main etcd uses into the specification of a Garden, if the operator has created
// the bucket. Otherwise the restored Garden would get another bucket: the name of such a bucket contains the UID of the Garden, which
// changes. nameBucket reports whether it has changed the Garden.
func nameBucket(garden *unstructured.Unstructured, etcd string, etcds []EtcdReference) (changed bool, err error) {
	at := []string{"spec", "virtualCluster", "etcd", "main", "backup"}
	backup, found, err := unstructured.NestedMap(garden.Object, at...)
	i := slices.IndexFunc(etcds, func(each EtcdReference) bool { return each.Name == etcd })
	if err != nil || !found || i < 0 || etcds[i].Container == "" || backup["bucketName"] != nil && backup["bucketName"] != "" {
		return false, err
	}
	used := etcds[i]
	backup["bucketName"] = used.Container
	if above, _ := strings.CutSuffix(used.Prefix, etcd+"/etcd-main"); above != used.Prefix && above != "" {
		backup["bucketName"] = used.Container + "/" + strings.TrimSuffix(above, "/")
	}
	if used.Secret != "" {
		backup["secretRef"] = map[string]any{"name": used.Secret}
	}
	return true, unstructured.SetNestedMap(garden.Object, backup, at...)
}

// absent returns the names of the referenced objects that a backup does not have.
func (c contents) absent(objects []*unstructured.Unstructured) []string {
	missing := c.referenced.Clone()
	for _, each := range objects {
		missing.Delete(reference.Name{Kind: each.GetKind(), Name: each.GetName()})
	}
	names := make([]string, 0, len(missing))
	for each := range missing {
		names = append(names, each.Kind+" "+each.Name)
	}
	slices.Sort(names)
	return names
}

// isLeftOut reports whether a backup leaves out a Secret, because it contains the token of a ServiceAccount: kube-controller-manager
// writes such a Secret, and the token is valid only for the UID of that ServiceAccount.
func isLeftOut(o *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(o.Object, "type")
	return kind == string(corev1.SecretTypeServiceAccountToken)
}

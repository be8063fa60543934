package credentialtest

import (
	"crypto/sha256"
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/secrets"
)

// Match finds the credentials in objects. Found contains the number of credentials of each row of the registry, by the name of the row.
// Unknown are the credentials that belong to no row. The credentials in a Secret of a row, and copies of them in other objects, belong to
// the row.
func Match(objects []*unstructured.Unstructured, registry []components.Owned) (found map[string]int, unknown []Found) {
	found = map[string]int{}
	rows := map[[sha256.Size]byte]string{}
	var others []Found
	for _, each := range objects {
		credentials, i := Find(each), slices.IndexFunc(registry, func(row components.Owned) bool { return isOf(each, row) })
		if i < 0 {
			others = append(others, credentials...)
			continue
		}
		found[registry[i].Name] += len(credentials)
		for _, credential := range credentials {
			for _, content := range credential.content {
				rows[content] = registry[i].Name
			}
		}
	}
	for _, credential := range others {
		i := slices.IndexFunc(credential.content, func(content [sha256.Size]byte) bool { return rows[content] != "" })
		if i < 0 {
			unknown = append(unknown, credential)
			continue
		}
		found[rows[credential.content[i]]]++
	}
	return found, unknown
}

// isOf reports whether an object is a Secret of a row.
func isOf(o *unstructured.Unstructured, row components.Owned) bool {
	labels := o.GetLabels()
	if o.GetKind() != "Secret" {
		return false
	}
	if row.Secret != "" {
		matches, err := path.Match(row.Secret, o.GetName())
		return matches && err == nil
	}
	return labels[secrets.LabelManagedBy] == secrets.ManagedBy &&
		(labels[secrets.LabelName] == row.Name || labels[secrets.LabelBundleFor] == row.Name)
}

package secrets

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CheckAdoption returns an error if an existing Secret must not be used under the name that was computed for a logical name. The data of
// the Secret would become a credential. So either its labels or its managedFields must show that the manager wrote it, or it must be a
// donor for the logical name.
func (i *Inventory) CheckAdoption(name string, existing *corev1.Secret) error {
	if i.manages(existing) || existing.Labels[LabelUseDataFor] == name || wroteData(existing, i.options.Writers) {
		return nil
	}
	return fmt.Errorf("secret %q exists, and neither its labels nor its managedFields show that the operator created it; delete it, or set "+
		"the label %s=%s on it if its data is to be used", existing.Name, LabelUseDataFor, name)
}

// wroteData reports whether one of these field managers has written data of a Secret.
func wroteData(secret *corev1.Secret, writers []string) bool {
	return slices.ContainsFunc(secret.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		if entry.FieldsV1 == nil || entry.Subresource != "" || !slices.Contains(writers, entry.Manager) {
			return false
		}
		var fields map[string]json.RawMessage
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			return false
		}
		_, data := fields["f:data"]
		return data
	})
}

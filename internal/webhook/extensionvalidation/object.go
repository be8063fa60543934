package extensionvalidation

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// object is the part of an object that the handler reads.
//
// The types of specifications name every field of the kind, not only fields with rules, because a specification is frozen as a
// whole while the object is being deleted. Their Go names are part of the texts that describe a change.
type object[Spec, Status any] struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metav1.ObjectMeta `json:"metadata"`
	Spec       Spec              `json:"spec"`
	Status     Status            `json:"status"`
}

// unread is a status that has no rules.
type unread struct{}

// DefaultSpec is common to all extension kinds. It is exported because its name is part of texts.
type DefaultSpec struct {
	Type           string           `json:"type"`
	ProviderConfig *opaqueExtension `json:"providerConfig,omitempty"`
}

type secretReference struct {
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
}

// concealed is written instead of values that may hold secrets, which must not get into answers and logs.
const concealed = "(hidden)"

// opaqueBytes may hold a secret, and are never shown.
type opaqueBytes []byte

// UnmarshalJSON implements json.Unmarshaler: as elsewhere in Kubernetes, base64 may go over several lines.
func (b *opaqueBytes) UnmarshalJSON(encoded []byte) error {
	return json.Unmarshal(encoded, (*[]byte)(b))
}

// String implements fmt.Stringer.
func (opaqueBytes) String() string { return concealed }

// MarshalJSON implements json.Marshaler, by which values get into texts.
func (opaqueBytes) MarshalJSON() ([]byte, error) { return json.Marshal(concealed) }

// opaqueExtension is a runtime.RawExtension that may hold a secret, and is never shown.
type opaqueExtension struct{ runtime.RawExtension }

// String implements fmt.Stringer.
func (opaqueExtension) String() string { return concealed }

// MarshalJSON implements json.Marshaler, by which values get into texts.
func (opaqueExtension) MarshalJSON() ([]byte, error) { return json.Marshal(concealed) }

// opaqueText may hold a secret, and is never shown.
type opaqueText string

// String implements fmt.Stringer.
func (opaqueText) String() string { return concealed }

// MarshalJSON implements json.Marshaler, by which values get into texts.
func (opaqueText) MarshalJSON() ([]byte, error) { return json.Marshal(concealed) }

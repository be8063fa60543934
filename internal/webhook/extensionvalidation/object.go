package extensionvalidation

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// object is the part of a custom resource that the handler reads.
//
// The Go types of specifications contain every field of the kind, not only fields with rules, because no field of a specification may
// change while the object is being deleted. The Go names of these types and fields are part of the texts that describe a change.
type object[Spec, Status any] struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metav1.ObjectMeta `json:"metadata"`
	Spec       Spec              `json:"spec"`
	Status     Status            `json:"status"`
}

// unread is the type of a status that has no rules.
type unread struct{}

// DefaultSpec is common to all extension kinds. It is exported because its name is part of error texts.
type DefaultSpec struct {
	Type           string           `json:"type"`
	ProviderConfig *opaqueExtension `json:"providerConfig,omitempty"`
}

type secretReference struct {
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
}

// concealed replaces values that may contain secrets, which must not appear in responses and logs.
const concealed = "(hidden)"

// opaqueBytes may contain a secret, and is never shown.
type opaqueBytes []byte

// UnmarshalJSON implements json.Unmarshaler. As in other Kubernetes types, base64 may contain line breaks.
func (b *opaqueBytes) UnmarshalJSON(encoded []byte) error {
	return json.Unmarshal(encoded, (*[]byte)(b))
}

// String implements fmt.Stringer.
func (opaqueBytes) String() string { return concealed }

// MarshalJSON implements json.Marshaler, which error texts use.
func (opaqueBytes) MarshalJSON() ([]byte, error) { return json.Marshal(concealed) }

// opaqueExtension is a runtime.RawExtension that may contain a secret, and is never shown.
type opaqueExtension struct{ runtime.RawExtension }

// String implements fmt.Stringer.
func (opaqueExtension) String() string { return concealed }

// MarshalJSON implements json.Marshaler, which error texts use.
func (opaqueExtension) MarshalJSON() ([]byte, error) { return json.Marshal(concealed) }

// opaqueText may contain a secret, and is never shown.
type opaqueText string

// String implements fmt.Stringer.
func (opaqueText) String() string { return concealed }

// MarshalJSON implements json.Marshaler, which error texts use.
func (opaqueText) MarshalJSON() ([]byte, error) { return json.Marshal(concealed) }

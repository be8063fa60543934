package extensionvalidation

import (
	"bytes"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// quantity is a resource.Quantity that takes no longer to decode than it is worth: of 1e-2000000000, Kubernetes computes
// every digit before it rounds, for minutes, and whoever may write an object could keep the server from all other work.
type quantity struct{ resource.Quantity }

const (
	// maxQuantity is how long a quantity may be, in bytes.
	maxQuantity = 256
	// maxExponent is how long the exponent of a quantity may be, in bytes with sign and closing quotation mark.
	maxExponent = len(`-9999"`)
)

var errQuantity = errors.New("quantities have at most 256 characters, and exponents of at most four digits")

// UnmarshalJSON implements json.Unmarshaler.
func (q *quantity) UnmarshalJSON(encoded []byte) error {
	exponent := bytes.LastIndexAny(encoded, "eE")
	if len(encoded) > maxQuantity || exponent >= 0 && len(encoded)-exponent-1 > maxExponent {
		return errQuantity
	}
	return q.Quantity.UnmarshalJSON(encoded) //nolint:wrapcheck // the decoder says where
}

// resourceList is a corev1.ResourceList.
type resourceList map[corev1.ResourceName]quantity

// resourceNeeds are corev1.ResourceRequirements.
type resourceNeeds struct {
	Limits   resourceList           `json:"limits,omitempty"`
	Requests resourceList           `json:"requests,omitempty"`
	Claims   []corev1.ResourceClaim `json:"claims,omitempty"`
}

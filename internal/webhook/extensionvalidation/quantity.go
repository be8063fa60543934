package extensionvalidation

import (
	"bytes"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// quantity is a resource.Quantity that takes no longer to decode than it is worth: of 1e-2000000000, Kubernetes computes
// every digit before it rounds, for minutes, and a user who may write an object could keep the server from all other work.
// Between n and E, the smallest and the largest unit, there is no need for exponents of more than two digits.
type quantity struct{ resource.Quantity }

const (
	// maxQuantity is how long a quantity may be, in bytes.
	maxQuantity = 256
	// maxExponent is how many digits the exponent of a quantity may have.
	maxExponent = 2
)

var errQuantity = errors.New("quantities have at most 256 characters, and exponents of at most two digits")

// UnmarshalJSON implements json.Unmarshaler.
func (q *quantity) UnmarshalJSON(encoded []byte) error {
	if len(encoded) > maxQuantity || exponentDigits(encoded) > maxExponent {
		return errQuantity
	}
	return q.Quantity.UnmarshalJSON(encoded)
}

// exponentDigits returns how many digits follow the last letter e, and a sign.
func exponentDigits(encoded []byte) int {
	letter := bytes.LastIndexAny(encoded, "eE")
	if letter < 0 {
		return 0
	}
	exponent := bytes.TrimSuffix(encoded[letter+1:], []byte(`"`))
	return len(bytes.TrimLeft(exponent, "+-"))
}

// resourceList is a corev1.ResourceList.
type resourceList map[corev1.ResourceName]quantity

// resourceNeeds are corev1.ResourceRequirements.
type resourceNeeds struct {
	Limits   resourceList           `json:"limits,omitempty"`
	Requests resourceList           `json:"requests,omitempty"`
	Claims   []corev1.ResourceClaim `json:"claims,omitempty"`
}

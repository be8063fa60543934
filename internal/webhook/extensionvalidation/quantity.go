package extensionvalidation

import (
	"bytes"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// quantity is a resource.Quantity that refuses extreme exponents. To decode 1e-2000000000, Kubernetes computes every digit before it
// rounds, which takes minutes: any user who may write an object could block the server. Two digits of an exponent are enough for all
// units, from n (the smallest) to E (the largest).
type quantity struct{ resource.Quantity }

const (
	// maxQuantity is the maximum length of a quantity, in bytes.
	maxQuantity = 256
	// maxExponent is the maximum number of digits in the exponent of a quantity.
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

// exponentDigits returns the number of digits after the last letter e and an optional sign.
func exponentDigits(encoded []byte) int {
	letter := bytes.LastIndexAny(encoded, "eE")
	if letter < 0 {
		return 0
	}
	exponent := bytes.TrimSuffix(encoded[letter+1:], []byte(`"`))
	return len(bytes.TrimLeft(exponent, "+-"))
}

// resourceList is a corev1.ResourceList whose quantities refuse extreme exponents.
type resourceList map[corev1.ResourceName]quantity

// resourceNeeds is a corev1.ResourceRequirements whose quantities refuse extreme exponents.
type resourceNeeds struct {
	Limits   resourceList           `json:"limits,omitempty"`
	Requests resourceList           `json:"requests,omitempty"`
	Claims   []corev1.ResourceClaim `json:"claims,omitempty"`
}

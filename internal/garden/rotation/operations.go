package rotation

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// Known are all operations that a Garden has.
var Known = sets.New(
	operatorv1alpha1.OperationReconcile,
	operatorv1alpha1.OperationRotateCAStart, operatorv1alpha1.OperationRotateCAComplete,
	operatorv1alpha1.OperationRotateServiceAccountKeyStart, operatorv1alpha1.OperationRotateServiceAccountKeyComplete,
	operatorv1alpha1.OperationRotateETCDEncryptionKey,
	operatorv1alpha1.OperationRotateETCDEncryptionKeyStart, operatorv1alpha1.OperationRotateETCDEncryptionKeyComplete,
	operatorv1alpha1.OperationRotateWorkloadIdentityKeyStart, operatorv1alpha1.OperationRotateWorkloadIdentityKeyComplete,
	operatorv1alpha1.OperationRotateObservabilityCredentials,
	operatorv1alpha1.OperationRotateCredentialsStart, operatorv1alpha1.OperationRotateCredentialsComplete,
)

// Operations is a set of operations that a user asks for.
type Operations = sets.Set[operatorv1alpha1.Operation]

// Parse reads the value of the annotation gardener.cloud/operation. Spaces around operations, their order and repetitions do not matter.
// Rest is what the annotation must become when the operations are handled: the values that are no operations of a Garden, in their order.
func Parse(annotation string) (operations Operations, rest string) {
	operations = Operations{}
	var unknown []string
	for value := range strings.SplitSeq(annotation, operatorv1alpha1.OperationSeparator) {
		value = strings.TrimSpace(value)
		switch operation := operatorv1alpha1.Operation(value); {
		case Known.Has(operation):
			operations.Insert(operation)
		case value != "" && !slices.Contains(unknown, value):
			unknown = append(unknown, value)
		}
	}
	return operations, strings.Join(unknown, operatorv1alpha1.OperationSeparator)
}

// Appeared reports whether a change of the annotation asks for a reconciliation: the new value has operations, and they are not the same
// as before.
func Appeared(before, after string) bool {
	was, _ := Parse(before)
	is, _ := Parse(after)
	return is.Len() > 0 && !is.Equal(was)
}

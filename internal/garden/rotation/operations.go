package rotation

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// Step is the start or the completion of a rotation.
type Step string

// Steps of a rotation.
const (
	Start    Step = "start"
	Complete Step = "complete"
)

// Change is the effect of an operation on credentials.
type Change struct {
	Step Step
	// Title names the rotation in messages.
	Title string
	// Credentials are the credentials whose phase the step depends on: none if the rotation has no phases.
	Credentials []Credential
}

// changes are the changes of all operations that rotate credentials.
var changes = changesOf(rows)

// Known are all operations that a user can request in the annotation of a Garden.
var Known = sets.KeySet(changes).Insert(operatorv1alpha1.OperationReconcile)

// ChangeOf returns the effect of an operation on credentials, and false if it rotates none.
func ChangeOf(operation operatorv1alpha1.Operation) (Change, bool) {
	change, rotates := changes[operation]
	return change, rotates
}

func changesOf(rows []row) map[operatorv1alpha1.Operation]Change {
	const title = "rotation of all credentials"
	var all []Credential
	found := map[operatorv1alpha1.Operation]Change{}
	for i := range rows {
		r := &rows[i]
		var phased []Credential
		if r.hasPhases() {
			phased = []Credential{r.credential}
			all = append(all, r.credential)
			found[r.complete] = Change{Complete, r.title, phased}
		}
		if r.whole != "" {
			found[r.whole] = Change{Start, r.title, phased}
		}
		found[r.start] = Change{Start, r.title, phased}
	}
	found[operatorv1alpha1.OperationRotateCredentialsStart] = Change{Start, title, all}
	found[operatorv1alpha1.OperationRotateCredentialsComplete] = Change{Complete, title, all}
	return found
}

// Operations is a set of operations that a user asks for.
type Operations = sets.Set[operatorv1alpha1.Operation]

// Parse reads the value of the annotation gardener.cloud/operation. Spaces around operations, their order and repetitions do not matter.
// Rest is the value that the annotation gets when the operations were handled. It contains the values that are no operations of a Garden,
// in their order.
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

// Appeared reports whether a change of the annotation asks for a reconciliation: the new value contains operations, and they differ from
// the operations before the change.
func Appeared(before, after string) bool {
	was, _ := Parse(before)
	is, _ := Parse(after)
	return is.Len() > 0 && !is.Equal(was)
}

package handlers

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Policy is a handler that changes objects, in CEL.
type Policy struct {
	// Parameters are the objects that the policy reads besides the one that it changes; nil for none.
	Parameters *Parameters
	// Variables can be used by Patch alone: the API server evaluates conditions before variables.
	Variables  []admissionregistrationv1.Variable
	Conditions []admissionregistrationv1.MatchCondition
	// Required must hold of an object that meets the conditions, or the API server refuses it; the zero value requires
	// nothing.
	Required Requirement
	// Patch is an expression that returns the operations of a JSON patch. An ApplyConfiguration cannot express them: it keeps
	// values that a handler replaces, and cannot change lists that count as one value.
	Patch string
}

// Requirement is an expression that must be true, and an expression of the message for the user if it is false.
type Requirement struct{ Expression, Message string }

// Parameters are objects that a policy reads.
type Parameters struct {
	Kind admissionregistrationv1.ParamKind
	Ref  admissionregistrationv1.ParamRef
}

func condition(name, expression string) admissionregistrationv1.MatchCondition {
	return admissionregistrationv1.MatchCondition{Name: name, Expression: expression}
}

// eachOf returns an expression for one operation per item of a list that may be missing. The list is named by its path with
// dots; for items that meet the condition there is an operation, an expression of the pointer to the item, which is a
// string that is still open.
func eachOf(list, item, condition string, operation func(pointer string) string) string {
	pointer := "'/" + strings.ReplaceAll(list, ".", "/") + "/' + string(i) + '"
	return fmt.Sprintf("(has(object.%[1]s) ? object.%[1]s.transformList(i, %[2]s, %[3]s,\n  %[4]s) : [])", list, item, condition,
		operation(pointer))
}

// appended returns an operation for eachOf that appends a value, a map, to a list of the item, which may be missing. It is
// no Object, since API servers (seen in 1.36.3) panic when they encode a list of those as the value of an operation.
func appended(item, list, value string) func(pointer string) string {
	return func(pointer string) string {
		return fmt.Sprintf(`has(%[1]s.%[2]s)
    ? JSONPatch{op: 'add', path: %[3]s/%[2]s/-', value: %[4]s}
    : JSONPatch{op: 'add', path: %[3]s/%[2]s', value: [%[4]s]}`, item, list, pointer, value)
	}
}

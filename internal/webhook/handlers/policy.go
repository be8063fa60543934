package handlers

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Policy does in CEL what a handler that changes objects does.
type Policy struct {
	// Parameters are further objects that the policy reads; nil for none.
	Parameters *Parameters
	// Variables can be used only in Patch: the API server evaluates conditions before variables.
	Variables  []admissionregistrationv1.Variable
	Conditions []admissionregistrationv1.MatchCondition
	// Required is an expression that must be true for objects that meet the conditions. If it is false, the API server refuses the object.
	// The zero value requires nothing.
	Required Requirement
	// Patch is an expression that returns the operations of a JSON patch. An ApplyConfiguration is not sufficient: it keeps values that a
	// handler replaces, and cannot change atomic lists.
	Patch string
}

// Requirement is an expression that must be true, and an expression that returns the message for the user if it is false.
type Requirement struct{ Expression, Message string }

// Parameters are objects that a policy reads.
type Parameters struct {
	Kind admissionregistrationv1.ParamKind
	Ref  admissionregistrationv1.ParamRef
}

func condition(name, expression string) admissionregistrationv1.MatchCondition {
	return admissionregistrationv1.MatchCondition{Name: name, Expression: expression}
}

// eachOf returns an expression with one operation for each item that meets the condition. The argument list is the path of the list, with
// dots; the list may be missing in the object. The function operation gets an expression for the JSON pointer to the item: a string whose
// closing quote is still missing.
func eachOf(list, item, condition string, operation func(pointer string) string) string {
	pointer := "'/" + strings.ReplaceAll(list, ".", "/") + "/' + string(i) + '"
	return fmt.Sprintf("(has(object.%[1]s) ? object.%[1]s.transformList(i, %[2]s, %[3]s,\n  %[4]s) : [])", list, item, condition,
		operation(pointer))
}

// appended returns an operation for eachOf that appends a map to a list of the item. The list may be missing. The value is a map and not
// an Object, because API servers (seen in 1.36.3) panic when they encode a list of Objects as the value of an operation.
func appended(item, list, value string) func(pointer string) string {
	return func(pointer string) string {
		return fmt.Sprintf(`has(%[1]s.%[2]s)
    ? JSONPatch{op: 'add', path: %[3]s/%[2]s/-', value: %[4]s}
    : JSONPatch{op: 'add', path: %[3]s/%[2]s', value: [%[4]s]}`, item, list, pointer, value)
	}
}

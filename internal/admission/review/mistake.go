package review

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// mistake is an error that names the field that could not be read. Its text is the same in every process; the texts of the decoder vary.
type mistake struct {
	field string
	cause *json.SemanticError
}

func (m *mistake) Error() string {
	if m.cause.Err != nil {
		return m.field + ": " + m.cause.Err.Error()
	}
	return m.field + ": must not be " + describeKind(m.cause.JSONKind)
}

// Unwrap returns the error of the decoder.
func (m *mistake) Unwrap() error { return m.cause }

// withFieldPath adds the path of the field to an error of the decoder. Other errors, such as syntax errors of JSON, stay the same.
func withFieldPath(err error) error {
	var cause *json.SemanticError
	if !errors.As(err, &cause) {
		return err
	}
	return &mistake{field: fieldPath(cause.JSONPointer), cause: cause}
}

// fieldPath returns a pointer in the notation of Kubernetes: spec.containers[0].name.
func fieldPath(pointer jsontext.Pointer) string {
	path := strings.Builder{}
	for token := range pointer.Tokens() {
		switch {
		case token != "" && strings.Trim(token, "0123456789") == "":
			path.WriteString("[" + token + "]")
		case path.Len() == 0:
			path.WriteString(token)
		default:
			path.WriteString("." + token)
		}
	}
	if path.Len() == 0 {
		return "object"
	}
	return path.String()
}

func describeKind(kind jsontext.Kind) string {
	switch kind { //nolint:exhaustive // nothing else begins a value that a field could refuse
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't', 'f':
		return "a boolean"
	case '{':
		return "an object"
	case '[':
		return "a list"
	}
	return "of that type"
}

package manifest

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v2"
	"sigs.k8s.io/json"
)

// faultError is an error with a text of this package, which quotes nothing of the input.
type faultError string

// Error implements error.
func (f faultError) Error() string { return string(f) }

// fault returns an error with a text of this package.
func fault(text string) error { return faultError(text) }

// DecodingError returns the part of a condition's message about one document that could not be read: `Could not decode resource at index
// <i> in '<data key>' in secret '<ns>/<name>': <err>.` Errors of this package appear unchanged. Other errors are reduced to the position
// and the kind of fault, because parsers quote their input, which is the content of a Secret.
func DecodingError(index int, dataKey, secretNamespace, secretName string, err error) string {
	return fmt.Sprintf("Could not decode resource at index %d in '%s' in secret '%s/%s': %s.", index, dataKey, secretNamespace, secretName,
		toFault(err).Error())
}

// toFault returns an error of this package as it is, and reduces the error of a parser to a fault.
func toFault(err error) error {
	if ours, isOurs := errors.AsType[faultError](err); isOurs {
		return ours
	}
	if isSyntax, _ := json.SyntaxErrorOffset(err); isSyntax {
		return jsonFault(err)
	}
	return yamlFault(err)
}

// jsonFault returns a fault with the offset of a JSON error.
func jsonFault(err error) error {
	if isSyntax, offset := json.SyntaxErrorOffset(err); isSyntax {
		return fault(fmt.Sprintf("invalid JSON at byte %d", offset))
	}
	return fault("invalid JSON")
}

// yamlMessage matches an error of the YAML library: a line, if it is known, and the kind of fault. The kind ends before the first character
// that could begin quoted input. Between angle brackets, or as one or two punctuation marks between single quotes, the library has only
// text of its own.
var yamlMessage = regexp.MustCompile(`^(?:error converting YAML to JSON: )?yaml: (?:line (\d+): )?` +
	`([a-zA-Z](?:[a-zA-Z0-9 <>-]|'[^a-zA-Z0-9\s']{1,2}')*)`)

// yamlKinds are the beginnings of all messages of the YAML library that quote no input.
var yamlKinds = []string{
	"attempted to go past the end of stream", "block", "cannot decode", "control characters", "could not find", "did not find",
	"document contains excessive aliasing", "exceeded max depth", "expected", "found", "incomplete", "input", "invalid", "map merge requires",
	"mapping", "unexpected", "unknown anchor", "unknown problem", "while",
}

// yamlFault returns a fault with line and kind of a YAML error.
func yamlFault(err error) error {
	if typeError, isTypeError := errors.AsType[*yaml.TypeError](err); isTypeError {
		return duplicateFault(typeError)
	}
	parts := yamlMessage.FindStringSubmatch(err.Error())
	if parts == nil {
		return fault("invalid YAML")
	}
	text := "invalid YAML"
	if parts[1] != "" {
		text += " at line " + parts[1]
	}
	kind := strings.ReplaceAll(strings.TrimSpace(parts[2]), "'", `"`) // the condition puts names between single quotes
	for _, known := range yamlKinds {
		if strings.HasPrefix(kind, known) {
			return fault(text + ": " + kind)
		}
	}
	return fault(text)
}

// duplicateLine matches an error about a key that occurs twice, with the line of the second one.
var duplicateLine = regexp.MustCompile(`^line (\d+): key .* already set in map$`)

// duplicateFault names the line of the first key that occurs twice. Strict decoding into untyped values has no other errors of this type.
func duplicateFault(err *yaml.TypeError) error {
	for _, text := range err.Errors {
		if parts := duplicateLine.FindStringSubmatch(text); parts != nil {
			return fault("invalid YAML at line " + parts[1] + ": a key occurs twice")
		}
	}
	return fault("invalid YAML")
}

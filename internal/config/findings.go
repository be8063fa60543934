package config

import "fmt"

// Warning is a problem in a file that does not prevent the start of a process.
type Warning struct {
	// Path is the field in the spelling of the file; empty if the warning is about the file as a whole.
	Path string
	// Line is the line of the field, counted from 1; 0 if not known.
	Line int
	// Message says how the value was handled.
	Message string
	// Mistake marks a problem that the strict mode refuses: unknown fields, fields set twice, further documents.
	Mistake bool
}

// String formats w as "line 3: controllers.foo: unknown field, ignored".
func (w Warning) String() string { return locate(w.Line, w.Path, w.Message) }

// FieldError is a value that cannot be decoded.
type FieldError struct {
	// Path is the field as the file spells it.
	Path string
	// Line is the line of the field, counted from 1; 0 if not known.
	Line int
	// Message says what is wrong and what is expected.
	Message string
}

// Error formats e as `line 7: controllers.health.syncPeriod: must be a duration such as "30s" or "1h", not "abc"`.
func (e *FieldError) Error() string { return locate(e.Line, e.Path, e.Message) }

func locate(line int, field, message string) string {
	if field != "" {
		message = field + ": " + message
	}
	if line > 0 {
		message = fmt.Sprintf("line %d: %s", line, message)
	}
	return message
}

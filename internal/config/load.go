package config

import (
	"fmt"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

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
func (w Warning) String() string {
	message := w.Message
	if w.Path != "" {
		message = w.Path + ": " + message
	}
	if w.Line > 0 {
		message = fmt.Sprintf("line %d: %s", w.Line, message)
	}
	return message
}

// ResourceManager decodes a configuration file of the resource-manager family and sets the defaults. It does not validate. Unknown fields,
// fields set twice and aliases are warnings; a value of a wrong type, a wrong kind or a wrong apiVersion are errors. The returned error
// contains all of them, with line and field.
func ResourceManager(data []byte) (*ResourceManagerConfiguration, []Warning, error) {
	doc, warnings, err := parse(data)
	if err != nil {
		return nil, nil, err
	}
	warnings = append(warnings, doc.resolveAliases(resourceManagerAliases())...)
	for _, connection := range []string{"sourceClientConnection", "targetClientConnection"} {
		warnings = append(warnings, doc.resolveNamespace(path{connection})...)
	}
	c := &ResourceManagerConfiguration{}
	unknown, err := doc.load(c, ResourceManagerAPIVersion, ResourceManagerKind)
	if err != nil {
		return nil, nil, err
	}
	return c, append(warnings, unknown...), nil
}

// load decodes the document into c, a pointer to a configuration, and sets the defaults. The returned error contains the given mistakes,
// all others, and those in the version and kind of the file.
func (d *document) load(c interface{ Default() }, apiVersion, kind string, mistakes ...error) ([]Warning, error) {
	unknown, wrong := decode(d, c)
	mistakes = append(mistakes, wrong...)
	for _, field := range []struct{ name, want string }{{"apiVersion", apiVersion}, {"kind", kind}} {
		if got, _ := d.section(nil, false)[field.name].(string); got != field.want {
			mistakes = append(mistakes, d.mistake(path{field.name}, fmt.Sprintf("must be %q, not %q", field.want, got)))
		}
	}
	if len(mistakes) > 0 {
		return nil, utilerrors.NewAggregate(mistakes)
	}
	c.Default()
	return unknown, nil
}

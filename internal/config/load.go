package config

import (
	"fmt"
	"slices"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// Warning is a problem in a file that does not prevent the start of a process, except for a mistake in strict mode.
type Warning struct {
	// Path is the field in the spelling of the file; empty if the warning is about the file as a whole.
	Path string
	// Message describes how the loader handled the value.
	Message string
	// Mistake marks a problem that the strict mode refuses: unknown fields, fields set twice, further documents.
	Mistake bool
}

// String formats w as "controllers.foo: unknown field, ignored".
func (w Warning) String() string {
	if w.Path == "" {
		return w.Message
	}
	return w.Path + ": " + w.Message
}

// ResourceManager decodes a configuration file of the resource-manager family and sets the defaults. It does not validate. Fields set
// twice, aliases and unknown fields cause warnings. An unknown field in a section with restrictions is an error. A value of a wrong type,
// a wrong kind and a wrong apiVersion are errors, too. The returned error contains all these errors, with their fields. A file that is not
// YAML is an error at once.
func ResourceManager(data []byte) (*ResourceManagerConfiguration, []Warning, error) {
	doc, warnings, err := parse(data)
	if err != nil {
		return nil, nil, err
	}
	warnings = slices.Concat(warnings,
		doc.move("controllers.managedResources", "controllers.managedResource"),
		doc.move("controllers.csrApprover", "controllers.kubeletCSRApprover"),
		doc.move("controllers.nodeCriticalComponents", "controllers.node"),
		doc.resolveNamespace("sourceClientConnection"),
		doc.resolveNamespace("targetClientConnection"),
	)
	return loadDocument[ResourceManagerConfiguration](doc, ResourceManagerAPIVersion, ResourceManagerKind, warnings, nil)
}

// loadDocument decodes a document into a configuration, and sets the defaults. The returned error joins the mistakes that the caller
// passes in, the mistakes that the decoder finds, and a wrong apiVersion or kind of the file. If there is no error, loadDocument returns
// the warnings that the caller passes in and the warnings of the decoder.
func loadDocument[C any, P interface {
	*C
	Default()
}](doc *document, apiVersion, kind string, warnings []Warning, mistakes []error) (P, []Warning, error) {
	c, unknown, wrong := decode[C](doc)
	mistakes = append(mistakes, wrong...)
	for _, field := range []struct{ name, want string }{{"apiVersion", apiVersion}, {"kind", kind}} {
		if got, _ := doc.section("", false)[field.name].(string); got != field.want {
			mistakes = append(mistakes, doc.mistake(field.name, fmt.Sprintf("must be %q, not %q", field.want, got)))
		}
	}
	if err := utilerrors.NewAggregate(mistakes); err != nil {
		return nil, nil, err
	}
	P(c).Default()
	return c, append(warnings, unknown...), nil
}

package config

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// ResourceManager decodes a configuration file of the resource-manager family and sets the defaults. It does not validate. Unknown fields,
// fields set twice and aliases are warnings; a value of a wrong type, a wrong kind or a wrong apiVersion are errors. The returned error
// contains all of them, with line and field.
func ResourceManager(data []byte) (*ResourceManagerConfiguration, []Warning, error) {
	doc, warnings, err := parse(data)
	if err != nil {
		return nil, nil, err
	}
	warnings = append(warnings, resolveAliases(doc, resourceManagerAliases())...)
	c := &ResourceManagerConfiguration{}
	unknown, errs := decode(doc, c)
	errs = append(errs, checkType(doc, c.TypeMeta, ResourceManagerAPIVersion, ResourceManagerKind)...)
	if len(errs) > 0 {
		return nil, nil, utilerrors.NewAggregate(errs)
	}
	c.Default()
	return c, append(warnings, unknown...), nil
}

// checkType returns an error if a file is not of the expected version and kind.
func checkType(doc *document, got metav1.TypeMeta, apiVersion, kind string) []error {
	var errs []error
	for _, field := range []struct{ name, got, want string }{
		{"apiVersion", got.APIVersion, apiVersion},
		{"kind", got.Kind, kind},
	} {
		if field.got != field.want {
			errs = append(errs, &FieldError{
				Path:    field.name,
				Line:    doc.line(path{field.name}),
				Message: fmt.Sprintf("must be %q, not %q", field.want, field.got),
			})
		}
	}
	return errs
}

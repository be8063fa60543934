package plan

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/defaulting"
)

// Decode reads the Garden in a file, and adds the same defaults as the API server and the webhook: the defaults of the schema and of
// package defaulting. It refuses fields that the schema does not have, and the error names these fields.
//
// This package sets the defaults of the schema itself: package defaulting of apiextensions-apiserver would link an interpreter of CEL.
func Decode(file []byte, definition *apiextensionsv1.CustomResourceDefinition) (*operatorv1alpha1.Garden, error) {
	content, err := onlyDocument(file)
	if err != nil {
		return nil, err
	}
	if content["kind"] != "Garden" || content["apiVersion"] != operatorv1alpha1.SchemeGroupVersion.String() {
		return nil, fmt.Errorf("the file has kind %v of %v; it must have one Garden of %s",
			content["kind"], content["apiVersion"], operatorv1alpha1.SchemeGroupVersion)
	}
	delete(content, "status")
	schema := schemaOf(definition)
	if schema == nil {
		return nil, fmt.Errorf("CustomResourceDefinition %s has no schema of version %s: apply deploy/garden-operator/crds",
			definition.Name, operatorv1alpha1.SchemeGroupVersion.Version)
	}
	unknown, err := complete(content, schema, "")
	if err != nil {
		return nil, err
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return nil, fmt.Errorf("the Garden has unknown fields: %s", strings.Join(unknown, ", "))
	}
	garden := &operatorv1alpha1.Garden{}
	if err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, garden); err != nil {
		return nil, fmt.Errorf("read Garden: %w", err)
	}
	if garden.Name == "" {
		return nil, errors.New("the Garden has no metadata.name")
	}
	defaulting.Garden(garden)
	// The API server sets the defaults of the schema again after a webhook has changed the object.
	if content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(garden); err != nil {
		return nil, fmt.Errorf("convert Garden: %w", err)
	}
	delete(content, "status")
	if _, err = complete(content, schema, ""); err != nil {
		return nil, err
	}
	garden = &operatorv1alpha1.Garden{}
	if err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, garden); err != nil {
		return nil, fmt.Errorf("read Garden: %w", err)
	}
	return garden, nil
}

// onlyDocument returns the only document of a file. Empty documents do not count.
func onlyDocument(file []byte) (map[string]any, error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(file)))
	var only map[string]any
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return only, nil
		}
		content := map[string]any{}
		if err == nil {
			err = yaml.UnmarshalStrict(document, &content)
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("read Garden: %w", err)
		case len(content) == 0:
		case only != nil:
			return nil, errors.New("the file has more than one document; it must have one Garden and nothing else")
		default:
			only = content
		}
	}
}

// outside are the fields of an object that its schema need not have.
var outside = []string{"apiVersion", "kind", "metadata"}

func schemaOf(definition *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.JSONSchemaProps {
	for i := range definition.Spec.Versions {
		version := &definition.Spec.Versions[i]
		if version.Name == operatorv1alpha1.SchemeGroupVersion.Version && version.Schema != nil {
			return version.Schema.OpenAPIV3Schema
		}
	}
	return nil
}

// complete sets the defaults of a schema in a value, and returns the paths of unknown fields.
func complete(value any, schema *apiextensionsv1.JSONSchemaProps, path string) (unknown []string, err error) {
	switch typed := value.(type) {
	case map[string]any:
		return completeMap(typed, schema, path)
	case []any:
		if schema.Items == nil || schema.Items.Schema == nil {
			return nil, nil
		}
		for i, item := range typed {
			of, err := complete(item, schema.Items.Schema, fmt.Sprintf("%s[%d]", path, i))
			if err != nil {
				return nil, err
			}
			unknown = append(unknown, of...)
		}
	}
	return unknown, nil
}

func completeMap(value map[string]any, schema *apiextensionsv1.JSONSchemaProps, path string) (unknown []string, err error) {
	for name := range schema.Properties {
		property := schema.Properties[name]
		if _, set := value[name]; set || property.Default == nil {
			continue
		}
		var byDefault any
		if err := json.Unmarshal(property.Default.Raw, &byDefault); err != nil {
			return nil, fmt.Errorf("read default of %s.%s: %w", path, name, err)
		}
		value[name] = byDefault
	}
	preserves := schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields
	for _, name := range slices.Sorted(maps.Keys(value)) {
		below := strings.TrimPrefix(path+"."+name, ".")
		property, known := schema.Properties[name]
		switch {
		case known:
		case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
			property = *schema.AdditionalProperties.Schema
		case path == "" && slices.Contains(outside, name) || strings.HasPrefix(path, "metadata") || preserves || len(schema.Properties) == 0:
			continue
		default:
			unknown = append(unknown, below)
			continue
		}
		of, err := complete(value[name], &property, below)
		if err != nil {
			return nil, err
		}
		unknown = append(unknown, of...)
	}
	return unknown, nil
}

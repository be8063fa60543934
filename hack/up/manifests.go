package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// fieldManager is the field manager of everything that `make up` applies as administrator.
const fieldManager = "espalier-up"

// readManifests reads every object of the files; a folder stands for the YAML files directly in it.
func readManifests(paths ...string) ([]*unstructured.Unstructured, error) {
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		inside, err := filepath.Glob(filepath.Join(path, "*.yaml"))
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		files = append(files, inside...)
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		read, err := parseManifests(data)
		if err != nil {
			return nil, fmt.Errorf("read manifests of %s: %w", file, err)
		}
		objects = append(objects, read...)
	}
	return objects, nil
}

func parseManifests(data []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) > 0 { // skip documents that contain only comments
			objects = append(objects, object)
		}
	}
}

// apply applies the objects in their order.
func apply(ctx context.Context, c client.Client, objects ...*unstructured.Unstructured) error {
	for _, o := range objects {
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner(fieldManager), client.ForceOwnership); err != nil {
			return fmt.Errorf("apply %s: %w", describe(o), err)
		}
	}
	return nil
}

func describe(o *unstructured.Unstructured) string {
	return o.GetKind() + " " + client.ObjectKeyFromObject(o).String()
}

// object returns a small manifest.
func object(apiVersion, kind, namespace, name string, content map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	maps.Copy(o.Object, content)
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// condition returns status, reason and message of a condition of the object; empty if there is none.
func condition(o *unstructured.Unstructured, kind string) (status, reason, message string) {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, entry := range conditions {
		fields, ok := entry.(map[string]any)
		if ok && fields["type"] == kind {
			status, _ = fields["status"].(string)
			reason, _ = fields["reason"].(string)
			message, _ = fields["message"].(string)
		}
	}
	return status, reason, message
}

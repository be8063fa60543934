package gardenaccess

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// injectUnstructured injects into the Go type of the object, and makes the same additions to the object itself. So fields stay that the Go
// type does not have, because the release of Kubernetes is newer. After an error the object is as it was.
func (a Access) injectUnstructured(obj *unstructured.Unstructured) error {
	gvk := obj.GroupVersionKind()
	if !a.covers(gvk, obj) {
		return nil
	}
	failure := func(err error) error {
		return fmt.Errorf("inject garden access into %s/%s: %w", obj.GetNamespace(), obj.GetName(), err)
	}
	typed, err := workloads.New(gvk)
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, typed)
	}
	if err != nil {
		return failure(err)
	}
	added, err := a.inject(typed, obj)
	if err != nil {
		return err
	}
	injected, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return failure(err)
	}
	raw, err := added.unstructured()
	if err != nil {
		return failure(err)
	}

	template := []string{"spec", "template"}
	annotated := [][]string{nil, template}
	if gvk.Kind == "CronJob" {
		template = []string{"spec", "jobTemplate", "spec", "template"}
		annotated = [][]string{nil, {"spec", "jobTemplate"}, template}
	}
	if raw.volume != nil {
		for _, path := range annotated {
			path = append(slices.Clone(path), "metadata")
			child(obj.Object, path)["annotations"] = child(injected, path)["annotations"]
		}
	}
	raw.addTo(child(obj.Object, append(slices.Clone(template), "spec")))
	return nil
}

// rawAdditions are additions as unstructured objects.
type rawAdditions struct {
	volume, mount map[string]any // nil: neither
	variables     []map[string]any
}

func (a additions) unstructured() (rawAdditions, error) {
	var raw rawAdditions
	var failures []error
	convert := func(value any) map[string]any {
		converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(value)
		failures = append(failures, err)
		return converted
	}
	if a.volume != nil {
		raw.volume, raw.mount = convert(a.volume), convert(&a.mount)
	}
	for i := range a.variables {
		raw.variables = append(raw.variables, convert(&a.variables[i]))
	}
	return raw, errors.Join(failures...)
}

func (a rawAdditions) addTo(pod map[string]any) {
	if a.volume != nil {
		putRaw(pod, "volumes", a.volume)
	}
	for _, field := range []string{"initContainers", "containers"} {
		list, _ := pod[field].([]any)
		for _, each := range list {
			container, isObject := each.(map[string]any)
			if !isObject {
				continue // null, which the API server refuses
			}
			if a.mount != nil {
				putRaw(container, "volumeMounts", a.mount)
			}
			for _, variable := range a.variables {
				putRaw(container, "env", variable)
			}
		}
	}
}

// putRaw puts a copy of item into a list of an object.
func putRaw(obj map[string]any, list string, item map[string]any) {
	items, _ := obj[list].([]any)
	obj[list] = put(items, any(runtime.DeepCopyJSON(item)), func(item any) string {
		named, _ := item.(map[string]any)
		name, _ := named["name"].(string)
		return name
	})
}

// child returns the object at a path. A path that does not exist, or ends at null, becomes an empty object.
func child(obj map[string]any, path []string) map[string]any {
	for _, field := range path {
		next, isObject := obj[field].(map[string]any)
		if !isObject {
			next = map[string]any{}
			obj[field] = next
		}
		obj = next
	}
	return obj
}

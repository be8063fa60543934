package managedresources

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"
)

// Registry collects objects and serializes them to files, which are the data of a Secret that a ManagedResource refers to.
// The same objects always give the same bytes. It must not be used by several goroutines at once.
type Registry struct {
	scheme         *runtime.Scheme
	files          map[string]file
	compress       bool
	groupInFileKey bool
}

type file struct {
	object     client.Object // nil for data of AddSerialized
	serialized []byte
}

// RegistryOption changes how a Registry serializes.
type RegistryOption func(*Registry)

// Compressed makes SerializedObjects return one Brotli-compressed file "data.yaml.br" instead of one file per object.
// Controllers from before Gardener 1.97 cannot read it. Default: one file per object, not compressed.
func Compressed() RegistryOption {
	return func(r *Registry) { r.compress = true }
}

// GroupQualifiedFileNames puts the group and version of an object into its file name, so that kinds of the same name in different groups
// do not collide: "<kind>__<group>_<version>__<namespace>__<name>.yaml", or "<kind>__<version>__<namespace>__<name>.yaml" for the core
// group. By default, file names contain neither group nor version.
func GroupQualifiedFileNames() RegistryOption {
	return func(r *Registry) { r.groupInFileKey = true }
}

// NewRegistry returns an empty registry. The scheme must know the kind of every typed object that is added.
func NewRegistry(scheme *runtime.Scheme, options ...RegistryOption) *Registry {
	r := &Registry{scheme: scheme, files: map[string]file{}}
	for _, option := range options {
		option(r)
	}
	return r
}

// Add serializes the objects to YAML and stores each under the file name "<kind>__<namespace>__<name>.yaml", with the kind in lower case,
// every ":" in the name replaced by "_", and nothing for the namespace of a cluster-scoped object. Nil objects are skipped. It fails at the
// first object whose kind the scheme does not know or whose file name exists already. The objects before that one stay added.
func (r *Registry) Add(objs ...client.Object) error {
	for _, obj := range objs {
		if isNil(obj) {
			continue
		}
		if err := r.add(obj); err != nil {
			return err
		}
	}
	return nil
}

func (r *Registry) add(obj client.Object) error {
	gvk, err := apiutil.GVKForObject(obj, r.scheme)
	if err != nil {
		return fmt.Errorf("find kind of %T %q: %w", obj, client.ObjectKeyFromObject(obj), err)
	}
	name := r.fileName(gvk, obj)
	if _, taken := r.files[name]; taken {
		return fmt.Errorf("duplicate filename in registry: %q", name)
	}
	withKind := obj.DeepCopyObject()
	withKind.GetObjectKind().SetGroupVersionKind(gvk)
	serialized, err := yaml.Marshal(withKind)
	if err != nil {
		return fmt.Errorf("serialize %s: %w", name, err)
	}
	r.files[name] = file{object: obj, serialized: serialized}
	return nil
}

// AddSerialized stores data unchanged under the given file name. It replaces an earlier file of that name.
func (r *Registry) AddSerialized(fileName string, data []byte) {
	r.files[fileName] = file{serialized: data}
}

// SerializedObjects returns the files, by name. It fails only if the registry compresses and a file is compressed already.
func (r *Registry) SerializedObjects() (map[string][]byte, error) {
	files := make(map[string][]byte, len(r.files))
	for name, f := range r.files {
		files[name] = bytes.Clone(f.serialized)
	}
	if !r.compress || len(files) == 0 {
		return files, nil
	}
	return compressFiles(files)
}

// AddAllAndSerialize calls Add and then SerializedObjects.
func (r *Registry) AddAllAndSerialize(objs ...client.Object) (map[string][]byte, error) {
	if err := r.Add(objs...); err != nil {
		return nil, err
	}
	return r.SerializedObjects()
}

// RegisteredObjects returns the objects that were added, by file name. It does not return data of AddSerialized.
func (r *Registry) RegisteredObjects() map[string]client.Object {
	objects := make(map[string]client.Object, len(r.files))
	for name, f := range r.files {
		if f.object != nil {
			objects[name] = f.object
		}
	}
	return objects
}

// String lists the file names with their sizes, one a line. It omits contents, because some of them may be Secrets.
func (r *Registry) String() string {
	lines := make([]string, 0, len(r.files))
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		lines = append(lines, fmt.Sprintf("%s (%d bytes)", name, len(r.files[name].serialized)))
	}
	return strings.Join(lines, "\n")
}

func (r *Registry) fileName(gvk schema.GroupVersionKind, obj client.Object) string {
	parts := []string{strings.ToLower(gvk.Kind)}
	if r.groupInFileKey {
		parts = append(parts, strings.TrimPrefix(gvk.Group+"_"+gvk.Version, "_"))
	}
	parts = append(parts, obj.GetNamespace(), strings.ReplaceAll(obj.GetName(), ":", "_"))
	return strings.Join(parts, "__") + ".yaml"
}

// isNil also finds typed nil pointers, which callers get from functions that return no object under some condition.
func isNil(obj client.Object) bool {
	if obj == nil {
		return true
	}
	value := reflect.ValueOf(obj)
	return value.Kind() == reflect.Pointer && value.IsNil()
}

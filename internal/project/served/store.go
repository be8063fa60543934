package served

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/espalier-dev/espalier/internal/reflector"
)

var _ reflector.Receiver[runtime.Object] = &watch{}

// Set implements reflector.Receiver.
func (w *watch) Set(key types.NamespacedName, object runtime.Object) {
	name := nameOf(key)
	old := w.objects.get(name)
	w.objects.set(name, object)
	w.announce(old, object, false)
}

// Delete implements reflector.Receiver.
func (w *watch) Delete(key types.NamespacedName, _ string) {
	name := nameOf(key)
	old := w.objects.get(name)
	w.objects.remove(name)
	w.announce(old, nil, false)
}

// Replace implements reflector.Receiver.
func (w *watch) Replace(objects map[types.NamespacedName]runtime.Object, version string) {
	before := map[string]any{}
	for _, name := range w.objects.keys() {
		before[name] = w.objects.get(name)
	}
	w.objects.replace(objects, version)
	for key, object := range objects {
		name := nameOf(key)
		w.announce(before[name], object, true)
		delete(before, name)
	}
	for _, gone := range before {
		w.announce(gone, nil, true)
	}
	w.note(func() { w.listed = true })
}

// nameOf returns the key of an object in the cache.
func nameOf(key types.NamespacedName) string {
	return toolscache.NewObjectName(key.Namespace, key.Name).String()
}

// announce reports a change of an object to the handlers; nil stands for no object. An object with the same name and another UID is
// reported as a deletion and a creation, even if the watch missed the time in between.
func (w *watch) announce(old, now any, listed bool) {
	before, had := old.(metav1.Object)
	after, has := now.(metav1.Object)
	for _, handler := range w.handlers {
		switch {
		case had && has && before.GetUID() == after.GetUID():
			if before.GetResourceVersion() != after.GetResourceVersion() {
				handler.OnUpdate(old, now)
			}
		default:
			if had {
				handler.OnDelete(old)
			}
			if has {
				handler.OnAdd(now, listed)
			}
		}
	}
}

package plan

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/difference"
	"github.com/espalier-dev/espalier/internal/apply/fields"
	"github.com/espalier-dev/espalier/internal/apply/merge"
)

// history is an object before and during a reconciliation.
type history struct {
	// cluster is runtime or virtual, and set is the ManagedResource that the object belongs to, if any.
	cluster, set string
	// states are the object before the reconciliation and after each write; nil: it does not exist.
	states []*unstructured.Unstructured
	// task is the task of the last write.
	task string
	// exact is true if the states are complete manifests. Otherwise live objects have fields that other clients have set.
	exact bool
}

func (h history) first() *unstructured.Unstructured { return h.states[0] }
func (h history) last() *unstructured.Unstructured  { return h.states[len(h.states)-1] }

// some returns a state of the object that is not nil.
func (h history) some() *unstructured.Unstructured {
	for _, each := range slices.Backward(h.states) {
		if each != nil {
			return each
		}
	}
	return nil
}

// objectsOf returns the objects that a reconciliation changes, and how.
func objectsOf(all []history) []Object {
	var objects []Object
	for _, h := range all {
		some := h.some()
		if some == nil {
			continue
		}
		o := Object{
			APIVersion: some.GetAPIVersion(), Kind: some.GetKind(), Namespace: some.GetNamespace(), Name: some.GetName(),
			Cluster: h.cluster, Set: h.set, Task: h.task,
		}
		before, after := h.first(), h.last()
		switch {
		case before == nil && after == nil:
			continue
		case before == nil:
			o.Action = Create
		case after == nil:
			o.Action = Delete
		default:
			o.Action = Change
			if o.Fields, o.MoreFields = difference.Of(before, after, h.exact); len(o.Fields) == 0 && !removesMetadata(before, after) {
				continue
			}
		}
		objects = append(objects, o)
	}
	return objects
}

// removesMetadata reports whether the labels or annotations before and after a write are different. It is called if a comparison of the
// objects found no difference. Then the write removes labels or annotations, because a comparison that is not exact does not find removed
// fields.
func removesMetadata(before, after *unstructured.Unstructured) bool {
	return !equality.Semantic.DeepEqual(before.GetLabels(), after.GetLabels()) ||
		!equality.Semantic.DeepEqual(before.GetAnnotations(), after.GetAnnotations())
}

// contents returns the data of a Secret or ConfigMap by its kind, namespace and name; nil if it is not known.
type contents func(kind, namespace, name string) map[string]any

// restartsOf returns the workloads of the runtime cluster whose Pods are replaced.
func restartsOf(all []history, read contents) []Restart {
	var restarts []Restart
	for _, h := range all {
		if h.cluster != runtimeCluster || h.first() == nil || h.last() == nil {
			continue
		}
		if restart := h.restart(read); restart.Times > 0 {
			restarts = append(restarts, restart)
		}
	}
	return restarts
}

// RestartsBetween returns the workloads whose Pods are replaced when complete manifests take the place of others.
func RestartsBetween(before, after []*unstructured.Unstructured) []Restart {
	at := func(all []*unstructured.Unstructured, kind, namespace, name string) *unstructured.Unstructured {
		for _, each := range all {
			if each.GetKind() == kind && each.GetNamespace() == namespace && each.GetName() == name {
				return each
			}
		}
		return nil
	}
	both := make([]history, 0, len(after))
	for _, each := range after {
		former := at(before, each.GetKind(), each.GetNamespace(), each.GetName())
		both = append(both, history{cluster: runtimeCluster, exact: true, states: []*unstructured.Unstructured{former, each}})
	}
	return restartsOf(both, func(kind, namespace, name string) map[string]any {
		o := cmp.Or(at(before, kind, namespace, name), at(after, kind, namespace, name))
		if o == nil {
			return nil
		}
		data, _, _ := unstructured.NestedMap(o.Object, "data")
		return data
	})
}

// restart counts the rollouts of a workload, and collects their reasons.
func (h history) restart(read contents) Restart {
	restart := Restart{Kind: h.last().GetKind(), Namespace: h.last().GetNamespace(), Name: h.last().GetName(), Task: h.task}
	found := reasons{}
	for i := 1; i < len(h.states); i++ {
		if h.states[i-1] == nil || h.states[i] == nil {
			continue
		}
		if because := restartReasons(h.states[i-1], h.states[i], h.exact, read); len(because) > 0 {
			restart.Times++
			found.add(because...)
		}
	}
	restart.Reasons = found.texts
	return restart
}

// imagesOf returns the images that workloads of the runtime cluster have after a reconciliation, and that none of them has before.
func imagesOf(all []history) []string {
	before, after := map[string]bool{}, map[string]bool{}
	for _, h := range all {
		if h.cluster == runtimeCluster {
			addImages(before, h.first())
			addImages(after, h.last())
		}
	}
	maps.DeleteFunc(after, func(image string, _ bool) bool { return before[image] })
	return slices.Sorted(maps.Keys(after))
}

// addImages adds the images of a workload.
func addImages(images map[string]bool, o *unstructured.Unstructured) {
	if o == nil || !slices.Contains(templated, o.GetKind()) && !slices.Contains(deployed, o.GetKind()) {
		return
	}
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	pod, isTemplate, _ := unstructured.NestedMap(spec, "template", "spec")
	if !isTemplate {
		pod = spec
	}
	found := []any{pod["image"]}
	for _, list := range []string{"initContainers", "containers"} {
		containers, _, _ := unstructured.NestedSlice(pod, list)
		for _, each := range containers {
			container, _ := each.(map[string]any)
			found = append(found, container["image"])
		}
	}
	for _, each := range found {
		if image, is := each.(string); is && image != "" {
			images[image] = true
		}
	}
}

// maxReasons is the maximum number of reasons for one restart.
const maxReasons = 10

var (
	// templated are the kinds of workloads with a Pod template, and deployed the kinds for which another program deploys Pods.
	templated = []string{"Deployment", "StatefulSet", "DaemonSet"}
	deployed  = []string{"Etcd", "Prometheus", "Alertmanager", "VLSingle", "FluentBit", "OpenTelemetryCollector"}
)

// restartReasons returns why the Pods of a workload are replaced; nil: they are not.
func restartReasons(before, after *unstructured.Unstructured, exact bool, read contents) []string {
	var reasons []string
	switch kind := after.GetKind(); {
	case slices.Contains(templated, kind):
		reasons = templateReasons(before, after, exact, read)
	case slices.Contains(deployed, kind):
		reasons = specReasons(before, after, exact, read)
	}
	if more := len(reasons) - maxReasons; more > 0 {
		reasons = append(reasons[:maxReasons], fmt.Sprintf("and %d more", more))
	}
	return reasons
}

func templateReasons(before, after *unstructured.Unstructured, exact bool, read contents) []string {
	found := reasons{}
	for _, path := range difference.Paths(before, after, exact) {
		text := merge.PathText(path)
		inTemplate, isTemplate := strings.CutPrefix(text, "spec.template.")
		if !isTemplate && text != "spec.template" {
			continue
		}
		container, field := containerOf(inTemplate)
		switch {
		case container != "" && (field == "args" || field == "command"):
			found.add(flagReasons(container, listAt(before, path, field), listAt(after, path, field))...)
		case container != "" && field == "image":
			found.add(fmt.Sprintf("image of container %s: %s → %s", container, valueAt(before, path), valueAt(after, path)))
		case strings.HasPrefix(inTemplate, "spec.volumes"):
			found.add(volumeReasons(before, after, read)...)
		case strings.HasPrefix(inTemplate, "metadata.annotations") && strings.Contains(inTemplate, resourcesv1alpha1.ReferencePrefix):
			found.add() // the volumes say more
		default:
			found.add("field " + text)
		}
	}
	if len(found.texts) == 0 && found.touched {
		return []string{"references of the Pod template"}
	}
	return found.texts
}

// specReasons returns why etcd-druid, or the operator of another kind, replaces the Pods of an object. Changes of spec.replicas, and of
// fields that begin with spec.storage, are no reason.
func specReasons(before, after *unstructured.Unstructured, exact bool, read contents) []string {
	found := reasons{}
	for _, path := range difference.Paths(before, after, exact) {
		text := merge.PathText(path)
		if !strings.HasPrefix(text, "spec.") || text == "spec.replicas" || strings.HasPrefix(text, "spec.storage") {
			continue
		}
		from, to := valueAt(before, path), valueAt(after, path)
		if strings.HasSuffix(text, "SecretRef.name") {
			found.add(replaced("Secret", after.GetNamespace(), from, to, read))
			continue
		}
		found.add(fmt.Sprintf("field %s: %s → %s", text, cmp.Or(from, "none"), cmp.Or(to, "none")))
	}
	return found.texts
}

// reasons is a list without duplicates.
type reasons struct {
	texts []string
	// touched is true if something differs, also if no text describes it.
	touched bool
}

func (r *reasons) add(texts ...string) {
	r.touched = true
	for _, each := range texts {
		if !slices.Contains(r.texts, each) {
			r.texts = append(r.texts, each)
		}
	}
}

// containerOf returns the name of the container to which a path below a Pod template belongs, and the name of the field of this container.
// Both are "" if the path belongs to no container.
func containerOf(path string) (container, field string) {
	for _, list := range []string{"spec.containers[name=", "spec.initContainers[name="} {
		rest, found := strings.CutPrefix(path, list)
		if !found {
			continue
		}
		name, rest, _ := strings.Cut(rest, "]")
		field, _, _ = strings.Cut(strings.TrimPrefix(rest, "."), ".")
		field, _, _ = strings.Cut(field, "[")
		return name, field
	}
	return "", ""
}

// listAt returns the items of the list in a field on a path, as texts; nil if the path does not contain the field.
func listAt(o *unstructured.Unstructured, path fieldpath.Path, field string) []string {
	for i, element := range path {
		if element.FieldName == nil || *element.FieldName != field {
			continue
		}
		items, _ := lookUp(o.Object, path[:i+1]).([]any)
		texts := make([]string, 0, len(items))
		for _, item := range items {
			texts = append(texts, fmt.Sprint(item))
		}
		return texts
	}
	return nil
}

func lookUp(value any, path fieldpath.Path) any {
	for _, element := range path {
		value, _ = fields.Child(value, element)
	}
	return value
}

// valueAt returns a short text for the value at a path; empty if there is none.
func valueAt(o *unstructured.Unstructured, path fieldpath.Path) string {
	switch value := lookUp(o.Object, path).(type) {
	case nil:
		return ""
	case string:
		return value
	case map[string]any, []any:
		return "…"
	default:
		return fmt.Sprint(value)
	}
}

// flagReasons describes the flags of a container that differ.
func flagReasons(container string, before, after []string) []string {
	was, is := flagsOf(before), flagsOf(after)
	var found []string
	for _, name := range slices.Sorted(maps.Keys(maps.Collect(union(was, is)))) {
		from, had := was[name]
		to, has := is[name]
		switch {
		case had && !has:
			found = append(found, fmt.Sprintf("flag %s of container %s: removed", name, container))
		case !had && has:
			found = append(found, fmt.Sprintf("flag %s of container %s: added%s", name, container, strings.TrimSuffix(" "+to, " ")))
		case from != to:
			found = append(found, fmt.Sprintf("flag %s of container %s: %s → %s", name, container, from, to))
		}
	}
	if len(found) == 0 {
		found = append(found, "order of the arguments of container "+container)
	}
	return found
}

func union(a, b map[string]string) func(yield func(string, string) bool) {
	return func(yield func(string, string) bool) {
		for _, each := range []map[string]string{a, b} {
			for key, value := range each {
				if !yield(key, value) {
					return
				}
			}
		}
	}
}

// flagsOf returns the values of flags by their names. A flag that occurs several times has all its values.
func flagsOf(args []string) map[string]string {
	found := map[string]string{}
	for _, each := range args {
		name, value, _ := strings.Cut(each, "=")
		if former, repeated := found[name]; repeated {
			value = former + "," + value
		}
		found[name] = value
	}
	return found
}

// volumeReasons describes the Secrets and ConfigMaps of volumes that are replaced, and the files that differ.
func volumeReasons(before, after *unstructured.Unstructured, read contents) []string {
	was, is := volumesOf(before), volumesOf(after)
	var found []string
	for _, volume := range slices.Sorted(maps.Keys(maps.Collect(union(was, is)))) {
		from, to := was[volume], is[volume]
		switch {
		case from == to:
		case from == "":
			found = append(found, "volume "+volume+": added")
		case to == "":
			found = append(found, "volume "+volume+": removed")
		default:
			found = append(found, volumeReason(after.GetNamespace(), from, to, read)...)
		}
	}
	if len(found) == 0 {
		found = append(found, "settings of volumes")
	}
	return found
}

func volumeReason(namespace, from, to string, read contents) []string {
	was, is := strings.Split(from, " + "), strings.Split(to, " + ")
	if len(was) != len(is) {
		return []string{fmt.Sprintf("volume of %s → %s", from, to)}
	}
	var found []string
	for i := range was {
		if was[i] == is[i] {
			continue
		}
		kind, former, _ := strings.Cut(was[i], " ")
		_, next, _ := strings.Cut(is[i], " ")
		found = append(found, replaced(kind, namespace, former, next, read))
	}
	return found
}

// volumesOf returns the objects of the volumes of a workload, by the names of the volumes, such as "Secret a + ConfigMap b".
func volumesOf(o *unstructured.Unstructured) map[string]string {
	volumes, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "volumes")
	found := map[string]string{}
	for _, each := range volumes {
		volume, _ := each.(map[string]any)
		name, _, _ := unstructured.NestedString(volume, "name")
		sources := []any{volume}
		if projected, isProjected, _ := unstructured.NestedSlice(volume, "projected", "sources"); isProjected {
			sources = projected
		}
		var parts []string
		for _, source := range sources {
			of, _ := source.(map[string]any)
			if secret, has, _ := unstructured.NestedMap(of, "secret"); has {
				parts = append(parts, fmt.Sprintf("Secret %v", cmp.Or(secret["secretName"], secret["name"])))
			}
			if configMap, has, _ := unstructured.NestedMap(of, "configMap"); has {
				parts = append(parts, fmt.Sprintf("ConfigMap %v", configMap["name"]))
			}
		}
		found[name] = cmp.Or(strings.Join(parts, " + "), "its settings")
	}
	return found
}

// replaced describes an object that another one replaces, and the files in which they differ.
func replaced(kind, namespace, from, to string, read contents) string {
	was, is := read(kind, namespace, from), read(kind, namespace, to)
	var files []string
	if was != nil && is != nil {
		for key, value := range is {
			if !equality.Semantic.DeepEqual(was[key], value) {
				files = append(files, key)
			}
		}
		for key := range was {
			if _, stays := is[key]; !stays {
				files = append(files, key)
			}
		}
	}
	text := fmt.Sprintf("%s %s → %s", kind, cmp.Or(from, "none"), cmp.Or(to, "none"))
	if len(files) == 0 {
		return text
	}
	slices.Sort(files)
	return text + ", file " + strings.Join(files, ", ")
}

// decoded returns the value of a key of a Secret.
func decoded(data map[string]any, key string) ([]byte, error) {
	text, _ := data[key].(string)
	value, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("decode key %s: %w", key, err)
	}
	return value, nil
}

package harness

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Snapshot is the state of everything in a scenario, without values that differ between runs: the text of each object by "Kind/name", or
// "Kind/namespace/name" if the namespace is not the world's.
type Snapshot map[string]string

// state is a snapshot and the values that cannot be compared between runs.
type state struct {
	Snapshot
	uids    map[string]types.UID
	orphans []string
}

const originAnnotation = "resources.gardener.cloud/origin"

// setsSnapshot reads only the sets.
func (w *World) setsSnapshot() Snapshot {
	found := Snapshot{}
	for _, mr := range w.managedResources() {
		w.normalizeSet(&mr)
		found["ManagedResource/"+mr.Name] = w.text(mr)
	}
	return found
}

// observe reads all objects.
func (w *World) observe() state {
	found := state{Snapshot: w.setsSnapshot(), uids: map[string]types.UID{}}
	listed := map[string]bool{}
	for _, mr := range w.managedResources() {
		for _, ref := range mr.Status.Resources {
			listed[mr.Name+" "+w.key(ref.Kind, ref.Namespace, ref.Name)] = true
		}
	}
	add := func(live *unstructured.Unstructured) {
		key := w.key(live.GetKind(), live.GetNamespace(), live.GetName())
		found.Snapshot[key] = w.normalized(live)
		found.uids[key] = live.GetUID()
		origin, ours := strings.CutPrefix(live.GetAnnotations()[originAnnotation], w.NS+"/")
		if ours && !listed[origin+" "+key] {
			found.orphans = append(found.orphans, key)
		}
	}
	for _, kind := range w.orderedKinds() {
		for _, namespace := range w.namespaces() {
			for _, live := range w.list(kind, namespace) {
				add(&live)
			}
		}
	}
	for each := range w.scoped {
		if live := w.Live(each.kind.GroupVersion().String()+"/"+each.kind.Kind, each.name); live != nil {
			add(live)
		}
	}
	slices.Sort(found.orphans)
	return found
}

// namespaces returns the world's own one and those that its sets contain.
func (w *World) namespaces() []string {
	all := []string{w.NS}
	for each := range w.scoped {
		if each.kind.Kind == "Namespace" {
			all = append(all, each.name)
		}
	}
	return all
}

func (w *World) list(kind schema.GroupVersionKind, namespace string) []unstructured.Unstructured {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	w.do("list "+kind.Kind, func() error {
		return ignoreAbsent(w.Target.List(w.ctx, list, client.InNamespace(namespace)))
	})
	return slices.DeleteFunc(list.Items, func(each unstructured.Unstructured) bool {
		_, read := w.documents[each.GetName()]
		return each.GetName() == "kube-root-ca.crt" || kind.Kind == "ServiceAccount" && each.GetName() == "default" ||
			kind.Kind == "Secret" && read
	})
}

func (w *World) key(kind, namespace, name string) string {
	parts := []string{kind, name}
	if namespace != "" && namespace != w.NS {
		parts = []string{kind, namespace, name}
	}
	return strings.ReplaceAll(strings.Join(parts, "/"), w.NS, "$NS")
}

// normalized returns the text of an object without values that differ between runs.
func (w *World) normalized(live *unstructured.Unstructured) string {
	content := live.DeepCopy()
	normalizeMeta(content)
	normalizeManagedFields(content)
	unstructured.RemoveNestedField(content.Object, "status")
	unstructured.RemoveNestedField(content.Object, "metadata", "annotations", "deployment.kubernetes.io/revision")
	if ip, _, _ := unstructured.NestedString(content.Object, "spec", "clusterIP"); ip != "None" {
		unstructured.RemoveNestedField(content.Object, "spec", "clusterIP")
		unstructured.RemoveNestedField(content.Object, "spec", "clusterIPs")
	}
	return w.text(content.Object)
}

func (w *World) text(content any) string {
	text, err := json.MarshalIndent(content, "", " ")
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(text), w.NS, "$NS")
}

func normalizeMeta(o metav1.Object) {
	o.SetUID("")
	o.SetResourceVersion("")
	o.SetCreationTimestamp(metav1.Time{})
	if o.GetDeletionTimestamp() != nil {
		o.SetDeletionTimestamp(&metav1.Time{})
	}
	o.SetDeletionGracePeriodSeconds(nil)
}

// normalizeSet sorts the conditions, because the order in which they were added differs between runs. It replaces the checksum by whether
// it is that of the set's Secrets, because these contain the name of the namespace.
func (w *World) normalizeSet(mr *resourcesv1alpha1.ManagedResource) {
	normalizeMeta(mr)
	mr.ManagedFields = nil
	conditions := mr.Status.Conditions
	slices.SortFunc(conditions, func(a, b corev1beta1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	for i := range conditions {
		conditions[i].LastTransitionTime, conditions[i].LastUpdateTime = metav1.Time{}, metav1.Time{}
	}
	if sum := mr.Status.SecretsDataChecksum; sum != nil {
		text := "another one"
		if _, known := w.references[mr.Name]; known && *sum == w.checksum(mr.Name) {
			text = "that of its Secrets"
		}
		mr.Status.SecretsDataChecksum = &text
	}
}

// normalizeManagedFields keeps the owners of fields, without the controllers of the control plane and the writers of status.
func normalizeManagedFields(live *unstructured.Unstructured) {
	entries := slices.DeleteFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == "kube-controller-manager" || entry.Subresource == "status"
	})
	for i := range entries {
		entries[i].Time = nil
	}
	slices.SortFunc(entries, func(a, b metav1.ManagedFieldsEntry) int { // they are ordered by time
		return strings.Compare(a.Manager+" "+string(a.Operation), b.Manager+" "+string(b.Operation))
	})
	live.SetManagedFields(entries)
}

// difference describes the differences between two snapshots; "" if there are none.
func difference(want, have Snapshot) string {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(want)) {
		switch live, found := have[key]; {
		case !found:
			_, _ = fmt.Fprintf(&text, "%s is missing\n", key)
		case live != want[key]:
			_, _ = fmt.Fprintf(&text, "%s differs:\n%s", key, lineDifference(want[key], live))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(have)) {
		if _, found := want[key]; !found {
			_, _ = fmt.Fprintf(&text, "%s is left over:\n%s\n", key, have[key])
		}
	}
	return text.String()
}

// lineDifference returns the lines that are only in one of two texts.
func lineDifference(want, have string) string {
	var text strings.Builder
	count := func(of string) map[string]int {
		counts := map[string]int{}
		for line := range strings.SplitSeq(of, "\n") {
			counts[line]++
		}
		return counts
	}
	only := func(mark, of string, other map[string]int) {
		for line := range strings.SplitSeq(of, "\n") {
			other[line]--
			if other[line] < 0 {
				_, _ = fmt.Fprintf(&text, "  %s%s\n", mark, line)
			}
		}
	}
	only("wanted: ", want, count(have))
	only("   got: ", have, count(want))
	return text.String()
}

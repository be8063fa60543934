package harness

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Snapshot is the state of all objects of a scenario, without values that differ between runs. It contains the text of each object by
// "Kind/name", or "Kind/namespace/name" if the namespace is not the world's.
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
	for each := range w.objects {
		if each.name != "" {
			if live := w.Live(each.apiVersion+"/"+each.kind, each.name); live != nil {
				add(live)
			}
			continue
		}
		for _, namespace := range w.namespaces() {
			for _, live := range w.list(each, namespace) {
				add(&live)
			}
		}
	}
	slices.Sort(found.orphans)
	return found
}

// namespaces returns the world's own namespace and the namespaces in its sets.
func (w *World) namespaces() []string {
	all := []string{w.NS}
	for each := range w.objects {
		if each.kind == "Namespace" {
			all = append(all, each.name)
		}
	}
	return all
}

// list reads the objects of a kind that are part of the scenario.
func (w *World) list(kind object, namespace string) []unstructured.Unstructured {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(kind.apiVersion)
	list.SetKind(kind.kind)
	w.do("list "+kind.kind, func() error {
		return ignoreAbsent(w.Target.List(w.ctx, list, client.InNamespace(namespace)))
	})
	return slices.DeleteFunc(list.Items, func(each unstructured.Unstructured) bool {
		_, read := w.documents[each.GetName()]
		return each.GetName() == "kube-root-ca.crt" || kind.kind == "ServiceAccount" && each.GetName() == "default" ||
			kind.kind == "Secret" && read
	})
}

func (w *World) key(kind, namespace, name string) string {
	if namespace == w.NS {
		namespace = ""
	}
	return strings.ReplaceAll(path.Join(kind, namespace, name), w.NS, "$NS")
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

// normalizeSet sorts the conditions, because the order in which they were added differs between runs. It replaces the checksum by a text
// that says whether the checksum belongs to the Secrets of the set, because the Secrets contain the name of the namespace, which differs.
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
		if _, known := w.references[mr.Name]; known && *sum == w.Checksum(mr.Name) {
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

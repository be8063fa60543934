package fields_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/espalier-dev/espalier/internal/apply/fields"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// entry returns a managedFields entry written by an update at noon; modifiers change it.
func entry(manager, owned string, modifiers ...func(*metav1.ManagedFieldsEntry)) metav1.ManagedFieldsEntry {
	at := metav1.NewTime(noon)
	e := metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(owned),
	}
	for _, modify := range modifiers {
		modify(&e)
	}
	return e
}

func status(e *metav1.ManagedFieldsEntry)  { e.Subresource = "status" }
func scale(e *metav1.ManagedFieldsEntry)   { e.Subresource = "scale" }
func applied(e *metav1.ManagedFieldsEntry) { e.Operation = metav1.ManagedFieldsOperationApply }
func at(offset time.Duration) func(*metav1.ManagedFieldsEntry) {
	return func(e *metav1.ManagedFieldsEntry) { moved := metav1.NewTime(noon.Add(offset)); e.Time = &moved }
}

func path(parts ...any) fieldpath.Path { return fieldpath.MakePathOrDie(parts...) }

func paths(each ...fieldpath.Path) []fieldpath.Path { return each }

// named selects an item of a list by its name.
func named(name string) fieldpath.PathElement { return fieldpath.KeyElementByFields("name", name) }

func TestFingerprintChangesIfAndOnlyIfMoreThanStatusWasWritten(t *testing.T) {
	base := func() *metav1.ObjectMeta {
		return &metav1.ObjectMeta{
			Generation: 1, ResourceVersion: "10", Labels: map[string]string{"a": "1"}, Annotations: map[string]string{"b": "2"},
			ManagedFields: []metav1.ManagedFieldsEntry{entry("espalier", `{"f:data":{"f:x":{}}}`), entry("kubelet", `{"f:status":{}}`, status)},
		}
	}
	for name, tc := range map[string]struct {
		change func(*metav1.ObjectMeta)
		same   bool
	}{
		"nothing changed": {change: func(*metav1.ObjectMeta) {}, same: true},
		"a status write":  {change: func(o *metav1.ObjectMeta) { o.ResourceVersion = "11"; o.ManagedFields[1].Time = nil }, same: true},
		"a new status writer": {
			change: func(o *metav1.ObjectMeta) { o.ManagedFields = append(o.ManagedFields, entry("x", `{}`, status)) }, same: true,
		},
		"an annotation of a status writer": {change: func(o *metav1.ObjectMeta) {
			o.Annotations["revision"] = "1"
			o.ManagedFields[1] = entry("kube-controller-manager", `{"f:metadata":{"f:annotations":{".":{},"f:revision":{}}},"f:status":{}}`, status)
		}, same: true},
		"an annotation of ours that a status writer took over": {change: func(o *metav1.ObjectMeta) {
			o.Annotations["b"] = "3"
			o.ManagedFields[1] = entry("kube-controller-manager", `{"f:metadata":{"f:annotations":{"f:b":{}}}}`, status)
		}},
		"generation":                     {change: func(o *metav1.ObjectMeta) { o.Generation = 2 }},
		"a label":                        {change: func(o *metav1.ObjectMeta) { o.Labels["a"] = "2" }},
		"a label moved to an annotation": {change: func(o *metav1.ObjectMeta) { o.Labels, o.Annotations = o.Annotations, o.Labels }},
		"an annotation removed":          {change: func(o *metav1.ObjectMeta) { o.Annotations = nil }},
		"the time of an entry": {change: func(o *metav1.ObjectMeta) {
			o.ManagedFields[0] = entry("espalier", `{"f:data":{"f:x":{}}}`, at(time.Second))
		}},
		"the fields of an entry":    {change: func(o *metav1.ObjectMeta) { o.ManagedFields[0] = entry("espalier", `{"f:data":{}}`) }},
		"the manager of an entry":   {change: func(o *metav1.ObjectMeta) { o.ManagedFields[0].Manager = "kubectl" }},
		"the operation of an entry": {change: func(o *metav1.ObjectMeta) { o.ManagedFields[0].Operation = metav1.ManagedFieldsOperationApply }},
		"a writer of another subresource": {change: func(o *metav1.ObjectMeta) {
			o.ManagedFields = append(o.ManagedFields, entry("hpa", `{"f:spec":{"f:replicas":{}}}`, scale))
		}},
		"a reset list": {change: func(o *metav1.ObjectMeta) { o.ManagedFields = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			changed := base()
			tc.change(changed)
			same := Equal(fields.Fingerprint(base()))
			if !tc.same {
				same = Not(same)
			}
			NewWithT(t).Expect(fields.Fingerprint(changed)).To(same)
		})
	}
}

func TestFingerprintOfObjectsWithoutManagedFieldsChangesWithTheResourceVersion(t *testing.T) {
	g := NewWithT(t)
	g.Expect(fields.Fingerprint(&metav1.ObjectMeta{ResourceVersion: "1"})).
		NotTo(Equal(fields.Fingerprint(&metav1.ObjectMeta{ResourceVersion: "2"})))
}

func TestCovers(t *testing.T) {
	desired := map[string]any{
		"apiVersion": "v1", "kind": "Service", "status": map[string]any{"x": "ignored"},
		"metadata": map[string]any{"name": "s", "labels": map[string]any{"app": "a"}, "annotations": map[string]any{}},
		"spec": map[string]any{
			"selector": map[string]any{"app": "a"}, "empty": map[string]any{}, "nothing": nil,
			"ports":      []any{map[string]any{"port": int64(80), "name": "http"}},
			"finalizers": []any{"a"},
		},
	}
	full := `{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:selector":{},"f:ports":{".":{},"k:{\"port\":80,` +
		`\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{},"f:protocol":{}}},"f:finalizers":{".":{},"v:\"a\"":{}}}}`
	for name, tc := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    bool
	}{
		"every leaf is ours":              {entries: []metav1.ManagedFieldsEntry{entry("espalier", full)}, want: true},
		"another manager owns everything": {entries: []metav1.ManagedFieldsEntry{entry("kubectl", full)}},
		"our name by another operation":   {entries: []metav1.ManagedFieldsEntry{entry("espalier", full, applied)}},
		"our name on a subresource":       {entries: []metav1.ManagedFieldsEntry{entry("espalier", full, scale)}},
		"no entries":                      {},
		"the only label was taken over": {
			entries: []metav1.ManagedFieldsEntry{entry("espalier", strings.Replace(full, `{".":{},"f:app":{}}`, `{}`, 1))},
		},
		"a label was taken over": {
			entries: []metav1.ManagedFieldsEntry{entry("espalier", `{"f:metadata":{"f:labels":{".":{}}},"f:spec":{}}`)},
		},
		"no manager owns metadata": {entries: []metav1.ManagedFieldsEntry{entry("espalier", `{"f:spec":{}}`)}},
		"a field of a list item was taken over": {
			entries: []metav1.ManagedFieldsEntry{
				entry("espalier", `{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:selector":{},"f:ports":{"k:{\"port\":80,`+
					`\"protocol\":\"TCP\"}":{"f:port":{}}},"f:finalizers":{}}}`),
			},
		},
		"a list item with another key": {
			entries: []metav1.ManagedFieldsEntry{
				entry("espalier", `{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:selector":{},"f:ports":{"k:{\"port\":81}":{}},`+
					`"f:finalizers":{}}}`),
			},
		},
		"a member of a set was taken over": {
			entries: []metav1.ManagedFieldsEntry{
				entry("espalier", `{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:selector":{},"f:ports":{},"f:finalizers":{"v:\"b\"":{}}}}`),
			},
		},
		"an atomic list counts as a whole": {
			entries: []metav1.ManagedFieldsEntry{
				entry("espalier", `{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:selector":{},"f:ports":{},"f:finalizers":{}}}`),
			},
			want: true,
		},
		"a top-level field was taken over": {
			entries: []metav1.ManagedFieldsEntry{entry("espalier", `{"f:metadata":{"f:labels":{"f:app":{}}}}`)},
		},
		"unreadable fields own nothing":         {entries: []metav1.ManagedFieldsEntry{entry("espalier", `{"f:spec":`)}},
		"fields of the wrong shape own nothing": {entries: []metav1.ManagedFieldsEntry{entry("espalier", `{"f:spec":[1]}`)}},
		"an item key that is not JSON matches nothing": {
			entries: []metav1.ManagedFieldsEntry{
				entry("espalier", `{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:selector":{},"f:ports":{"k:{":{}},"f:finalizers":{}}}`),
			},
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(fields.Covers(tc.entries, desired)).To(Equal(tc.want)) })
	}
}

func TestOnlyTolerated(t *testing.T) {
	desired := map[string]any{
		"metadata": map[string]any{
			"labels": map[string]any{"app": "a"}, "annotations": map[string]any{"reference.resources.gardener.cloud/secret-1": "x"},
		},
	}
	for name, tc := range map[string]struct {
		entry     metav1.ManagedFieldsEntry
		tolerance fields.Tolerance
		want      bool
	}{
		"our own spec": {entry: entry("espalier", `{"f:spec":{}}`), want: true},
		"a foreign status": {
			entry: entry("x", `{"f:status":{},"f:metadata":{"f:annotations":{"f:a":{}}}}`, status), want: true,
		},
		"foreign finalizers and owners": {
			entry: entry("x", `{"f:metadata":{"f:finalizers":{"v:\"a\"":{}},"f:ownerReferences":{}}}`), want: true,
		},
		"a foreign label": {entry: entry("x", `{"f:metadata":{"f:labels":{".":{},"f:mine":{}}}}`), want: true},
		"a foreign label under force": {
			entry: entry("x", `{"f:metadata":{"f:labels":{".":{},"f:mine":{}}}}`), tolerance: fields.Tolerance{ForceLabels: true},
		},
		"a shared label under force": {
			entry: entry("x", `{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}`), tolerance: fields.Tolerance{ForceLabels: true}, want: true,
		},
		"a foreign annotation": {entry: entry("x", `{"f:metadata":{"f:annotations":{"f:mine":{}}}}`), want: true},
		"a foreign annotation under force": {
			entry: entry("x", `{"f:metadata":{"f:annotations":{"f:mine":{}}}}`), tolerance: fields.Tolerance{ForceAnnotations: true},
		},
		"a stale reference annotation": {
			entry: entry("x", `{"f:metadata":{"f:annotations":{"f:reference.resources.gardener.cloud/secret-2":{}}}}`),
		},
		"a desired reference annotation": {
			entry: entry("x", `{"f:metadata":{"f:annotations":{"f:reference.resources.gardener.cloud/secret-1":{}}}}`), want: true,
		},
		"a foreign part of spec":              {entry: entry("x", `{"f:spec":{"f:replicas":{}}}`)},
		"replicas through the scale resource": {entry: entry("x", `{"f:spec":{"f:replicas":{}}}`, scale)},
		"other metadata":                      {entry: entry("x", `{"f:metadata":{"f:generateName":{}}}`)},
		"fields that cannot be read":          {entry: entry("x", `{"f:metadata":`)},
		"the peer's fields are not tolerated": {entry: entry("gardener-resource-manager", `{"f:data":{}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			tc.tolerance.Desired = desired
			NewWithT(t).Expect(fields.OnlyTolerated([]metav1.ManagedFieldsEntry{tc.entry}, tc.tolerance)).To(Equal(tc.want))
		})
	}
}

func TestAdditions(t *testing.T) {
	live := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"x": "y"}}, "status": map[string]any{"a": "b"},
		"data": map[string]any{"mine": "1", "added": "2", "nginx.conf": "3"},
		"spec": map[string]any{
			"default": "d", "containers": []any{map[string]any{"name": "c", "image": "i", "tty": true}}, "empty": map[string]any{},
			"atomic": map[string]any{"a": "1", "b": map[string]any{}}, "same": []any{map[string]any{"a": "1"}},
			"env": []any{map[string]any{"name": "e", "value": "1"}, map[string]any{"name": "e", "value": "2", "valueFrom": "x"}},
		},
	}
	merged := map[string]any{
		"data": map[string]any{"mine": "1"},
		"spec": map[string]any{
			"containers": []any{map[string]any{"name": "c", "image": "i"}},
			"atomic":     map[string]any{"a": "1"}, "same": []any{map[string]any{"a": "1"}},
			"env": []any{map[string]any{"name": "e", "value": "1"}, map[string]any{"name": "e", "value": "2"}},
		},
	}
	for name, tc := range map[string]struct {
		entry metav1.ManagedFieldsEntry
		want  []fieldpath.Path
	}{
		"a foreign key": {
			entry: entry("kubectl", `{"f:data":{"f:added":{},"f:mine":{}}}`), want: paths(path("data", "added")),
		},
		"a foreign key with dots": {
			entry: entry("kubectl", `{"f:data":{"f:nginx.conf":{},"f:mine":{}}}`), want: paths(path("data", "nginx.conf")),
		},
		"a foreign field of a list item": {
			entry: entry("kubectl", `{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:tty":{}}}}}`),
			want:  paths(path("spec", "containers", named("c"), "tty")),
		},
		"a field that is no longer there": {entry: entry("kubectl", `{"f:data":{"f:former":{}},"f:spec":{"f:gone":{}}}`)},
		"an empty value":                  {entry: entry("kubectl", `{"f:spec":{"f:empty":{}}}`), want: paths(path("spec", "empty"))},
		"a key in an atomic value, with an empty value": {
			entry: entry("kubectl", `{"f:spec":{"f:atomic":{}}}`), want: paths(path("spec", "atomic")),
		},
		"an atomic value of another manager without differences": {entry: entry("kubectl", `{"f:spec":{"f:same":{}}}`)},
		"an atomic value of our own":                             {entry: entry("espalier", `{"f:spec":{"f:atomic":{}}}`)},
		"the second one of two items with the same key": {
			entry: entry("kubectl", `{"f:spec":{"f:env":{"k:{\"name\":\"e\"}":{}}}}`), want: paths(path("spec", "env", named("e"))),
		},
		"defaults written with our own":      {entry: entry("espalier", `{"f:spec":{"f:default":{}}}`)},
		"defaults written with the peer's":   {entry: entry("gardener-resource-manager", `{"f:spec":{"f:default":{}}}`)},
		"a foreign write of the whole field": {entry: entry("kubectl", `{"f:spec":{"f:default":{}}}`), want: paths(path("spec", "default"))},
		"metadata and status":                {entry: entry("kubectl", `{"f:metadata":{"f:labels":{"f:x":{}}},"f:status":{"f:a":{}}}`)},
		"the status subresource":             {entry: entry("kubelet", `{"f:data":{"f:added":{}}}`, status)},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(fields.Additions([]metav1.ManagedFieldsEntry{tc.entry}, live, merged)).To(Equal(tc.want))
		})
	}
}

func TestAttribute(t *testing.T) {
	ours := entry("espalier", `{"f:data":{"f:a":{}}}`, at(time.Minute))
	container := path("spec", "containers", named("app"), "image")
	port := path("spec", "ports", named("http"), "targetPort")
	live := map[string]any{"spec": map[string]any{
		"containers": []any{map[string]any{"name": "app", "image": "i"}, map[string]any{"name": "side", "image": "i"}},
		"ports": []any{
			map[string]any{"name": "http", "port": int64(80), "protocol": "TCP"},
			map[string]any{"name": "https", "port": int64(443), "protocol": "TCP"},
		},
		"set": []any{"a", "b"},
	}}
	side := entry("late", `{"f:spec":{"f:containers":{"k:{\"name\":\"side\"}":{"f:image":{}}},"f:ports":{"k:{\"port\":443,`+
		`\"protocol\":\"TCP\"}":{"f:targetPort":{}}},"f:set":{"v:\"b\"":{}}}}`, at(time.Hour))
	for name, tc := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		// changed are the changed paths; data.x if the test case has none.
		changed []fieldpath.Path
		want    string
	}{
		"a field of a list item": {
			entries: []metav1.ManagedFieldsEntry{
				entry("kubectl-patch", `{"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{"f:image":{}}}}}`), side,
			},
			changed: paths(container), want: "kubectl-patch",
		},
		"a field of a list item that has another key in managedFields": {
			entries: []metav1.ManagedFieldsEntry{
				entry("kubectl-patch", `{"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{"f:targetPort":{}}}}}`), side,
			},
			changed: paths(port), want: "kubectl-patch",
		},
		"an item of a set, by its position": {
			entries: []metav1.ManagedFieldsEntry{entry("kubectl-patch", `{"f:spec":{"f:set":{"v:\"a\"":{}}}}`), side},
			changed: paths(path("spec", "set", 0)), want: "kubectl-patch",
		},
		"a field with dots in its name": {
			entries: []metav1.ManagedFieldsEntry{
				entry("kubectl-patch", `{"f:data":{"f:nginx.conf":{}}}`), entry("late", `{"f:data":{"f:nginx":{}}}`, at(time.Hour)),
			},
			changed: paths(path("data", "nginx.conf")), want: "kubectl-patch",
		},
		"the owner of the changed field": {
			entries: []metav1.ManagedFieldsEntry{
				ours, entry("kubectl-edit", `{"f:data":{"f:x":{}}}`), entry("other", `{"f:data":{"f:y":{}}}`, at(time.Hour)),
			},
			want: "kubectl-edit",
		},
		"the latest of two owners": {
			entries: []metav1.ManagedFieldsEntry{entry("early", `{"f:data":{"f:x":{}}}`), entry("late", `{"f:data":{"f:x":{}}}`, at(time.Hour))},
			want:    "late",
		},
		"a removed field: the last writer after us": {
			entries: []metav1.ManagedFieldsEntry{ours, entry("old", `{"f:spec":{}}`), entry("new", `{"f:spec":{}}`, at(time.Hour))},
			want:    "new",
		},
		"a removed field and no writer after us": {entries: []metav1.ManagedFieldsEntry{ours, entry("old", `{"f:spec":{}}`)}},
		"status writers are left out": {
			entries: []metav1.ManagedFieldsEntry{ours, entry("kubelet", `{"f:data":{"f:x":{}}}`, status, at(time.Hour))},
		},
		"our name by another operation is another writer": {
			entries: []metav1.ManagedFieldsEntry{entry("espalier", `{"f:data":{"f:x":{}}}`, applied)}, want: "espalier",
		},
		"a list item is found by its name": {
			entries: []metav1.ManagedFieldsEntry{entry("kubectl-patch", `{"f:data":{"k:{\"name\":\"x\"}":{"f:image":{}}}}`)},
			changed: paths(path("data", named("x"))), want: "kubectl-patch",
		},
		"no other writer": {entries: []metav1.ManagedFieldsEntry{ours}},
		"an owner of the whole parent": {
			entries: []metav1.ManagedFieldsEntry{entry("kubectl-replace", `{"f:data":{}}`)}, want: "kubectl-replace",
		},
		"an owner from before our last write": {
			entries: []metav1.ManagedFieldsEntry{ours, entry("kubectl-edit", `{"f:data":{"f:x":{}}}`)}, want: "kubectl-edit",
		},
	} {
		t.Run(name, func(t *testing.T) {
			changed := tc.changed
			if changed == nil {
				changed = paths(path("data", "x"))
			}
			NewWithT(t).Expect(fields.Attribute(tc.entries, live, changed)).To(Equal(tc.want))
		})
	}
}

func TestOwnWritesChangeWithAWriteUnderOurNameOrThePeers(t *testing.T) {
	const one, two = `{"f:data":{"f:a":{}}}`, `{"f:data":{"f:a":{},"f:b":{}}}`
	before := []metav1.ManagedFieldsEntry{entry("espalier", one), entry("kubectl", one)}
	for name, tc := range map[string]struct {
		after []metav1.ManagedFieldsEntry
		want  bool
	}{
		"no write":              {after: before},
		"another manager wrote": {after: []metav1.ManagedFieldsEntry{entry("espalier", one), entry("kubectl", two, at(time.Hour))}},
		"another manager took a field": {
			after: []metav1.ManagedFieldsEntry{entry("espalier", `{"f:data":{}}`), entry("kubectl", two, at(time.Hour))},
		},
		"a write of status": {after: append(before[:2:2], entry("espalier", `{"f:status":{}}`, status))},
		"a later write": {
			after: []metav1.ManagedFieldsEntry{entry("espalier", one, at(time.Second)), entry("kubectl", one)}, want: true,
		},
		"a field within the same second": {after: []metav1.ManagedFieldsEntry{entry("espalier", two), entry("kubectl", one)}, want: true},
		"an apply":                       {after: append(before[:2:2], entry("espalier", one, applied)), want: true},
		"the peer wrote":                 {after: append(before[:2:2], entry("gardener-resource-manager", one)), want: true},
		"the list was reset":             {want: true},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(fields.OwnWritesOf(tc.after).ChangedSince(fields.OwnWritesOf(before))).To(Equal(tc.want))
		})
	}
}

func TestLastOwnWrite(t *testing.T) {
	g := NewWithT(t)
	g.Expect(fields.LastOwnWrite([]metav1.ManagedFieldsEntry{
		entry("espalier", `{}`), entry("gardener-resource-manager", `{}`, at(time.Minute)), entry("kubectl", `{}`, at(time.Hour)),
		entry("espalier", `{}`, status, at(time.Hour)),
	})).To(BeTemporally("==", noon.Add(time.Minute)))
	g.Expect(fields.LastOwnWrite(nil)).To(BeZero())
}

func TestFingerprintChangesWithASecondWriteWithinASecond(t *testing.T) {
	g := NewWithT(t)
	object := func(version string, generation int64, entries ...metav1.ManagedFieldsEntry) uint64 {
		return fields.Fingerprint(&metav1.ObjectMeta{
			ResourceVersion: version, Generation: generation, ManagedFields: append(entries, entry("espalier", `{}`)),
		})
	}
	g.Expect(object("1", 0)).NotTo(Equal(object("2", 0)), "a ConfigMap")
	g.Expect(object("1", 1)).To(Equal(object("2", 1)), "its generation tells")
	g.Expect(object("1", 0, entry("a", `{}`, status))).
		To(Equal(object("2", 0, entry("a", `{}`, status))), "it may be the status that was written")
}

func TestWrittenByUs(t *testing.T) {
	g := NewWithT(t)
	g.Expect(fields.WrittenByUs([]metav1.ManagedFieldsEntry{entry("espalier", `{}`)})).To(BeTrue())
	g.Expect(fields.WrittenByUs([]metav1.ManagedFieldsEntry{entry("gardener-resource-manager", `{}`)})).To(BeTrue())
	g.Expect(fields.WrittenByUs([]metav1.ManagedFieldsEntry{entry("kubectl", `{}`)})).To(BeFalse())
}

func TestKeysOwnedOnlyByUsExcludesSharedKeys(t *testing.T) {
	entries := []metav1.ManagedFieldsEntry{
		entry("espalier", `{"f:metadata":{"f:labels":{".":{},"f:mine":{},"f:shared":{}},"f:annotations":{"f:note":{}}}}`),
		entry("kubectl", `{"f:metadata":{"f:labels":{"f:shared":{},"f:theirs":{}}}}`),
	}
	g := NewWithT(t)
	g.Expect(fields.KeysOwnedOnlyByUs(entries, "labels")).To(Equal([]string{"mine"}))
	g.Expect(fields.KeysOwnedOnlyByUs(entries, "annotations")).To(Equal([]string{"note"}))
}

func TestDiffering(t *testing.T) {
	state := func(data map[string]any, v string) map[string]any {
		return map[string]any{"data": data, "items": []any{map[string]any{"name": "n", "v": v}}}
	}
	before := state(map[string]any{"same": "a", "changed": "a", "removed": "a"}, "a")
	after := state(map[string]any{"same": "a", "changed": "b", "added": "a"}, "b")
	equal := paths(path("data", "same"), path("items", named("n"), "name"))
	differing := paths(path("data", "changed"), path("data", "removed"), path("data", "added"), path("items", named("n"), "v"))
	NewWithT(t).Expect(fields.Differing(append(equal, differing...), before, after)).To(Equal(differing))
}

package kill_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

const managedBy = "resources.gardener.cloud/managed-by"

// expected returns the object with the given number (place) of a set as it must be in the cluster.
func (s set) expected(place int) map[string]any {
	object := runtime.DeepCopyJSON(s.manifest(place))
	mark := func(fields ...string) {
		labels, _, _ := unstructured.NestedMap(object, fields...)
		labels[managedBy] = "gardener"
		_ = unstructured.SetNestedMap(object, labels, fields...)
	}
	mark("metadata", "labels")
	if s.key(place).kind == "Deployment" {
		mark("spec", "template", "metadata", "labels")
	}
	origin := []string{"metadata", "annotations", "resources.gardener.cloud/origin"}
	_ = unstructured.SetNestedField(object, s.namespace+"/"+s.name, origin...)
	return object
}

// wrongObjects compares the required objects with the existing ones. An object whose UID is in stays must not have been deleted, not even
// to create it again.
func wrongObjects(want map[key]expectation, have map[key]*unstructured.Unstructured, stays map[key]types.UID) []string {
	var findings []string
	for identity, each := range want {
		live := have[identity]
		if live == nil {
			findings = append(findings, fmt.Sprintf("%s %s is missing", identity.kind, identity.name))
			continue
		}
		if uid, found := stays[identity]; found && uid != live.GetUID() {
			findings = append(findings, fmt.Sprintf("%s %s was deleted and created anew", identity.kind, identity.name))
		}
		if live.GetDeletionTimestamp() != nil {
			findings = append(findings, fmt.Sprintf("%s %s is being deleted", identity.kind, identity.name))
		}
		for _, difference := range differences(each, live.Object) {
			findings = append(findings, fmt.Sprintf("%s %s: %s", identity.kind, identity.name, difference))
		}
	}
	for identity, live := range have {
		if _, wanted := want[identity]; !wanted {
			findings = append(findings, fmt.Sprintf("%s %s is left over, deleted: %t, revision %s", identity.kind, identity.name,
				live.GetDeletionTimestamp() != nil, live.GetLabels()[prefix+"revision"]))
		}
	}
	slices.Sort(findings)
	return findings
}

// expectation defines how an object must be.
type expectation struct {
	object map[string]any
	// adopted objects may have annotations of an earlier set.
	adopted bool
}

// differences lists the expected values that have lacks, and unexpected values in the parts that must contain nothing else.
func differences(want expectation, have map[string]any) []string {
	findings := missing("", want.object, have)
	exact := [][]string{{"metadata", "labels"}, {"data"}, {"spec", "selector"}, {"spec", "template", "metadata", "labels"}}
	if !want.adopted {
		exact = append(exact, []string{"metadata", "annotations"})
	}
	for _, fields := range exact {
		wanted, _, _ := unstructured.NestedMap(want.object, fields...)
		found, _, _ := unstructured.NestedMap(have, fields...)
		for _, name := range slices.Sorted(maps.Keys(found)) {
			ours := fields[len(fields)-1] != "annotations" || strings.HasPrefix(name, prefix)
			if _, expected := wanted[name]; !expected && ours {
				findings = append(findings, fmt.Sprintf("%s has %q: %v too much", strings.Join(fields, "."), name, found[name]))
			}
		}
	}
	return findings
}

// missing lists the wanted values that are missing or different. Lists must have equal length.
func missing(path string, want, have any) []string {
	switch want := want.(type) {
	case map[string]any:
		fields, isMap := have.(map[string]any)
		if !isMap {
			return []string{fmt.Sprintf("%s is %v", path, have)}
		}
		var findings []string
		for _, name := range slices.Sorted(maps.Keys(want)) {
			findings = append(findings, missing(path+"."+name, want[name], fields[name])...)
		}
		return findings
	case []any:
		elements, isList := have.([]any)
		if !isList || len(elements) != len(want) {
			return []string{fmt.Sprintf("%s is %v, not %v", path, have, want)}
		}
		var findings []string
		for i := range want {
			findings = append(findings, missing(fmt.Sprintf("%s[%d]", path, i), want[i], elements[i])...)
		}
		return findings
	}
	if !reflect.DeepEqual(want, have) {
		return []string{fmt.Sprintf("%s is %v, not %v", path, have, want)}
	}
	return nil
}

package compare

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Difference is a field that differs between an object of Gardener's program and the same object of Espalier's.
type Difference struct {
	// Field is the path of the field; "" if one of the programs does not create the objects at all.
	Field string `json:"field"`
	// Gardener and Espalier are the values; "" for none.
	Gardener string `json:"gardener,omitempty"`
	Espalier string `json:"espalier,omitempty"`
	// Objects are the objects with this difference.
	Objects []string `json:"objects"`
	// Reason says why the values differ. Only files have it.
	Reason string `json:"reason,omitempty"`
}

// exists is the value of the field "" of an object that exists.
const exists = "exists"

// Differences returns the differences between the objects of both programs, ordered by field and values.
func Differences(gardener, espalier Objects) []Difference {
	type key struct{ field, gardener, espalier string }
	found := map[key][]string{}
	for _, object := range union(gardener, espalier) {
		before, isBefore := gardener[object]
		after, isAfter := espalier[object]
		if !isBefore || !isAfter {
			k := key{gardener: exists}
			if isAfter {
				k = key{espalier: exists}
			}
			found[k] = append(found[k], object)
			continue
		}
		for _, field := range union(before, after) {
			if before[field] != after[field] {
				k := key{field, before[field], after[field]}
				found[k] = append(found[k], object)
			}
		}
	}
	differences := make([]Difference, 0, len(found))
	for k, objects := range found {
		differences = append(differences, Difference{Field: k.field, Gardener: k.gardener, Espalier: k.espalier, Objects: objects})
	}
	slices.SortFunc(differences, func(a, b Difference) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Gardener, b.Gardener), strings.Compare(a.Espalier, b.Espalier))
	})
	return differences
}

// union returns the sorted keys of both maps.
func union[V any](a, b map[string]V) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// Check compares the differences with the ones in a file. It returns an error that names each that is new, each that does not exist any
// more, and each without a reason. Before that it writes the differences, with the reasons of the file, to another file.
func Check(found []Difference, file, written string) error {
	var known []Difference
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err = yaml.UnmarshalStrict(content, &known); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	reasons := map[string]string{}
	for _, each := range known {
		reasons[each.text()] = each.Reason
	}
	var faults []string
	for i := range found {
		text := found[i].text()
		reason, isKnown := reasons[text]
		found[i].Reason = reason
		switch {
		case !isKnown:
			faults = append(faults, "new: "+text)
		case reason == "":
			faults = append(faults, "without a reason: "+text)
		}
		delete(reasons, text)
	}
	for _, text := range slices.Sorted(maps.Keys(reasons)) {
		faults = append(faults, "gone: "+text)
	}
	content, err = yaml.Marshal(found)
	if err != nil {
		return err
	}
	if err = os.WriteFile(written, content, 0o600); err != nil || len(faults) == 0 {
		return err
	}
	return fmt.Errorf("the differences are not those of %s, but those of %s:\n%s", file, written, strings.Join(faults, "\n"))
}

// text returns everything but the reason, as one line.
func (d Difference) text() string {
	return fmt.Sprintf("%s: %q became %q in %s", cmp.Or(d.Field, "the object"), d.Gardener, d.Espalier, strings.Join(d.Objects, ", "))
}

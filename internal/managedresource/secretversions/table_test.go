package secretversions

import (
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

// story is a table and the changes that were reported to its users.
type story struct {
	table    *table
	reported []string
}

type event func(*story)

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: name}
}

func used(name string) event     { return func(s *story) { s.table.add(named(name)) } }
func released(name string) event { return func(s *story) { s.table.remove(named(name)) } }
func listing() event             { return func(s *story) { s.table.begin() } }

func seen(name, uid, version string) event {
	return func(s *story) {
		if s.table.observe(named(name), Version{UID: types.UID(uid), ResourceVersion: version}, false) {
			s.reported = append(s.reported, name)
		}
	}
}

func carrying(name, uid, version string) event {
	return func(s *story) {
		if s.table.observe(named(name), Version{UID: types.UID(uid), ResourceVersion: version}, true) {
			s.reported = append(s.reported, name)
		}
	}
}

func deleted(name, version string) event {
	return func(s *story) {
		if s.table.gone(named(name), version) {
			s.reported = append(s.reported, name)
		}
	}
}

func listed(version string) event {
	return func(s *story) {
		var names []string
		for _, each := range s.table.complete(version) {
			names = append(names, each.Name)
		}
		s.reported = append(s.reported, slices.Sorted(slices.Values(names))...)
	}
}

// state returns the state of all entries.
func (s *story) state() map[string]string {
	state := map[string]string{}
	for key := range s.table.entries {
		version, knowledge := s.table.lookup(key)
		text := fmt.Sprintf("%s %s/%s", map[Knowledge]string{Unknown: "unknown", Absent: "absent", Present: "present"}[knowledge], version.UID,
			version.ResourceVersion)
		if slices.Contains(s.table.carriers(), key) {
			text += " carries"
		}
		state[key.Name] = text
	}
	return state
}

func TestTable(t *testing.T) {
	for name, tc := range map[string]struct {
		events   []event
		reported []string
		// restores is how often the source was restored.
		restores int
		want     map[string]string
	}{
		"nothing is kept of Secrets without users": {
			events: []event{listing(), seen("a", "1", "5"), seen("b", "2", "6"), listed("9"), seen("b", "2", "10"), deleted("a", "11")},
			want:   map[string]string{},
		},
		"a used Secret without an event is unknown": {
			events: []event{listing(), seen("a", "1", "5"), listed("9"), used("a")},
			want:   map[string]string{"a": "unknown /"},
		},
		"creation, change, deletion and second creation are reported": {
			events:   []event{used("a"), seen("a", "1", "5"), seen("a", "1", "6"), deleted("a", "7"), seen("a", "2", "8")},
			reported: []string{"a", "a", "a", "a"},
			want:     map[string]string{"a": "present 2/8"},
		},
		"a repeated event is not reported": {
			events:   []event{used("a"), seen("a", "1", "5"), seen("a", "1", "5"), deleted("a", "6"), deleted("a", "6")},
			reported: []string{"a", "a"},
			want:     map[string]string{"a": "absent /6"},
		},
		"the deletion of an unknown Secret is reported": {
			events:   []event{used("a"), deleted("a", "6")},
			reported: []string{"a"},
			want:     map[string]string{"a": "absent /6"},
		},
		"a listing without changes reports nothing": {
			events:   []event{used("a"), seen("a", "1", "5"), listing(), seen("a", "1", "5"), listed("9")},
			reported: []string{"a"},
			want:     map[string]string{"a": "present 1/5"},
		},
		"a listing reports changed Secrets": {
			events:   []event{used("a"), seen("a", "1", "5"), listing(), seen("a", "1", "7"), listed("9")},
			reported: []string{"a", "a"},
			want:     map[string]string{"a": "present 1/7"},
		},
		"a listing of a restored source reports every Secret that has users": {
			events: []event{
				used("a"), used("b"), used("c"), listing(), seen("a", "1", "5"), seen("b", "2", "6"), listed("9"),
				seen("a", "1", "12"), seen("x", "3", "20"), listing(), seen("a", "1", "5"), seen("b", "2", "6"), listed("11"),
			},
			reported: []string{"a", "b", "c", "a", "a", "a", "b"},
			restores: 1,
			want:     map[string]string{"a": "present 1/5", "b": "present 2/6", "c": "absent /11"},
		},
		"a listing that is as new as the last event is no restore": {
			events: []event{
				used("a"), listing(), seen("a", "1", "5"), listed("9"), deleted("x", "12"), listing(), seen("a", "1", "5"), listed("12"),
			},
			reported: []string{"a"},
			want:     map[string]string{"a": "present 1/5"},
		},
		"a listing reports deleted Secrets": {
			events:   []event{used("a"), seen("a", "1", "5"), listing(), listed("9")},
			reported: []string{"a", "a"},
			want:     map[string]string{"a": "absent /9"},
		},
		"a listing reports that an unknown Secret does not exist": {
			events:   []event{used("a"), listing(), listed("9")},
			reported: []string{"a"},
			want:     map[string]string{"a": "absent /9"},
		},
		"a listing does not repeat that a Secret is gone": {
			events:   []event{used("a"), deleted("a", "6"), listing(), listed("9")},
			reported: []string{"a"},
			want:     map[string]string{"a": "absent /9"},
		},
		"a listing says nothing of a Secret that was not used when it began": {
			events: []event{listing(), seen("a", "1", "5"), used("a"), listed("9")},
			want:   map[string]string{"a": "unknown /"},
		},
		"unless it comes to that Secret later": {
			events:   []event{listing(), used("a"), seen("a", "1", "5"), listed("9")},
			reported: []string{"a"},
			want:     map[string]string{"a": "present 1/5"},
		},
		"or the Secret is deleted meanwhile": {
			events:   []event{listing(), seen("a", "1", "5"), used("a"), deleted("a", "8"), listed("9")},
			reported: []string{"a"},
			want:     map[string]string{"a": "absent /8"},
		},
		"the next listing is in time for it": {
			events:   []event{listing(), used("a"), listed("9"), listing(), listed("12")},
			reported: []string{"a"},
			want:     map[string]string{"a": "absent /12"},
		},
		"a listing that was given up does not count": {
			events:   []event{used("a"), seen("a", "1", "5"), listing(), seen("a", "1", "5"), listing(), listed("9")},
			reported: []string{"a", "a"},
			want:     map[string]string{"a": "absent /9"},
		},
		"an event after the listing, but before its end was noticed, counts": {
			events:   []event{used("a"), listing(), seen("a", "1", "10"), listed("9")},
			reported: []string{"a"},
			want:     map[string]string{"a": "present 1/10"},
		},
		"a second user does not change that it was used when the listing began": {
			events:   []event{used("a"), listing(), used("a"), listed("9")},
			reported: []string{"a"},
			want:     map[string]string{"a": "absent /9"},
		},
		"a deletion after the listing, but before its end was noticed, counts": {
			events:   []event{used("a"), listing(), deleted("a", "10"), listed("9")},
			reported: []string{"a"},
			want:     map[string]string{"a": "absent /10"},
		},
		"a Secret is kept for its last user": {
			events:   []event{used("a"), used("a"), seen("a", "1", "5"), released("a"), seen("a", "1", "6")},
			reported: []string{"a", "a"},
			want:     map[string]string{"a": "present 1/6"},
		},
		"and no longer": {
			events:   []event{used("a"), used("a"), seen("a", "1", "5"), released("a"), released("a"), seen("a", "1", "6"), released("a")},
			reported: []string{"a"},
			want:     map[string]string{},
		},
		"a Secret with the finalizer is kept without a user, and not reported as changed": {
			events: []event{listing(), carrying("a", "1", "5"), listed("9")},
			want:   map[string]string{"a": "present 1/5 carries"},
		},
		"until it carries it no longer": {
			events: []event{carrying("a", "1", "5"), seen("a", "1", "6")},
			want:   map[string]string{},
		},
		"or is deleted": {
			events: []event{carrying("a", "1", "5"), deleted("a", "6")},
			want:   map[string]string{},
		},
		"or is missing in a listing": {
			events: []event{carrying("a", "1", "5"), listing(), listed("9")},
			want:   map[string]string{},
		},
		"a carrier that is used from the middle of a listing without it is gone": {
			events:   []event{carrying("a", "1", "5"), listing(), used("a"), listed("9")},
			reported: []string{"a"},
			want:     map[string]string{"a": "absent /9"},
		},
		"a used Secret survives the loss of the finalizer, a carrier the loss of its user": {
			events:   []event{used("a"), carrying("a", "1", "5"), seen("a", "1", "6"), used("b"), carrying("b", "2", "7"), released("b")},
			reported: []string{"a", "a", "b"},
			want:     map[string]string{"a": "present 1/6", "b": "present 2/7 carries"},
		},
		"who comes back to a Secret that was given up knows nothing of it": {
			events:   []event{used("a"), seen("a", "1", "5"), released("a"), used("a")},
			reported: []string{"a"},
			want:     map[string]string{"a": "unknown /"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &story{table: newTable()}
			for _, each := range tc.events {
				each(s)
			}
			g := NewWithT(t)
			g.Expect(s.reported).To(Equal(tc.reported))
			g.Expect(s.state()).To(Equal(tc.want))
			g.Expect(s.table.restored()).To(Equal(tc.restores))
		})
	}
}

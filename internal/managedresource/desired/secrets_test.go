package desired

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/managedresource/secretversions"
)

func TestSecretVersionIsCurrent(t *testing.T) {
	for name, tc := range map[string]struct {
		watched   secretversions.Version
		knowledge secretversions.Knowledge
		restores  int
		want      bool
	}{
		"no event since": {knowledge: secretversions.Unknown, want: true},
		"an event with the same version": {
			knowledge: secretversions.Present, watched: secretversions.Version{UID: "1", ResourceVersion: "50"},
			want: true,
		},
		"an event with an older version, because the watch is behind": {
			knowledge: secretversions.Present,
			watched:   secretversions.Version{UID: "1", ResourceVersion: "9"}, want: true,
		},
		"an event with a newer version": {
			knowledge: secretversions.Present,
			watched:   secretversions.Version{UID: "1", ResourceVersion: "100"},
		},
		"an event about another Secret of the name": {
			knowledge: secretversions.Present,
			watched:   secretversions.Version{UID: "2", ResourceVersion: "100"},
		},
		"an event about an earlier Secret of the name": {
			knowledge: secretversions.Present,
			watched:   secretversions.Version{UID: "0", ResourceVersion: "9"},
		},
		"versions that cannot be compared": {
			knowledge: secretversions.Present,
			watched:   secretversions.Version{UID: "1", ResourceVersion: "x"},
		},
		"it was deleted since": {
			knowledge: secretversions.Absent,
			watched:   secretversions.Version{ResourceVersion: "100"},
		},
		"an event with an older version after a restore": {
			knowledge: secretversions.Present, watched: secretversions.Version{UID: "1", ResourceVersion: "9"}, restores: 1,
		},
		"an event with the same version after a restore": {
			knowledge: secretversions.Present, watched: secretversions.Version{UID: "1", ResourceVersion: "50"}, restores: 1,
		},
		"no event after a restore": {knowledge: secretversions.Unknown, restores: 1},
		"the deletion of an earlier Secret": {
			knowledge: secretversions.Absent, watched: secretversions.Version{ResourceVersion: "9"},
			want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			read := Version{name: "s", uid: "1", resourceVersion: "50"}
			NewWithT(t).Expect(read.current(tc.watched, tc.knowledge, tc.restores)).To(Equal(tc.want))
		})
	}
}

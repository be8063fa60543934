package applier

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/managedresource/secretversions"
)

func TestWhatWasReadOfASecretIsCurrent(t *testing.T) {
	for name, tc := range map[string]struct {
		told      secretversions.Version
		knowledge secretversions.Knowledge
		restores  int
		want      bool
	}{
		"nothing was told since":                         {knowledge: secretversions.Unknown, want: true},
		"the same version was told":                      {knowledge: secretversions.Present, told: secretversions.Version{UID: "1", ResourceVersion: "50"}, want: true},
		"an older version was told, the watch is behind": {knowledge: secretversions.Present, told: secretversions.Version{UID: "1", ResourceVersion: "9"}, want: true},
		"a newer version was told":                       {knowledge: secretversions.Present, told: secretversions.Version{UID: "1", ResourceVersion: "100"}},
		"another Secret of the name was told":            {knowledge: secretversions.Present, told: secretversions.Version{UID: "2", ResourceVersion: "100"}},
		"an earlier Secret of the name was told":         {knowledge: secretversions.Present, told: secretversions.Version{UID: "0", ResourceVersion: "9"}},
		"versions that cannot be compared":               {knowledge: secretversions.Present, told: secretversions.Version{UID: "1", ResourceVersion: "x"}},
		"it was deleted since":                           {knowledge: secretversions.Absent, told: secretversions.Version{ResourceVersion: "100"}},
		"an older version was told after a restore": {
			knowledge: secretversions.Present, told: secretversions.Version{UID: "1", ResourceVersion: "9"}, restores: 1,
		},
		"the same version was told after a restore": {
			knowledge: secretversions.Present, told: secretversions.Version{UID: "1", ResourceVersion: "50"}, restores: 1,
		},
		"nothing was told after a restore":           {knowledge: secretversions.Unknown, restores: 1},
		"the deletion of an earlier Secret was told": {knowledge: secretversions.Absent, told: secretversions.Version{ResourceVersion: "9"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			read := secretVersion{name: "s", uid: "1", resourceVersion: "50"}
			NewWithT(t).Expect(read.current(tc.told, tc.knowledge, tc.restores)).To(Equal(tc.want))
		})
	}
}

package patch

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestPatchesAreJSONPatches(t *testing.T) {
	for name, tc := range map[string]struct {
		build func(p *Patch)
		want  string
	}{
		"values that are nothing are written": {
			func(p *Patch) { p.Add("/a", ""); p.Add("/b", 0); p.Add("/c", false); p.Add("/d", []string{}) },
			`[{"op":"add","path":"/a","value":""},{"op":"add","path":"/b","value":0},{"op":"add","path":"/c","value":false},{"op":"add",` +
				`"path":"/d","value":[]}]`,
		},
		"a removal has no value": {func(p *Patch) { p.Remove("/a") }, `[{"op":"remove","path":"/a"}]`},
		"a list with items gets more": {
			func(p *Patch) { Append(p, "/a", 2, "x", "y") }, `[{"op":"add","path":"/a/-","value":"x"},{"op":"add","path":"/a/-","value":"y"}]`,
		},
		"a list without items is made": {func(p *Patch) { Append(p, "/a", 0, "x", "y") }, `[{"op":"add","path":"/a","value":["x","y"]}]`},
		"names are escaped":            {func(p *Patch) { p.Remove(Pointer("a/b", 3, "~")) }, `[{"op":"remove","path":"/a~1b/3/~0"}]`},
		"nothing to append":            {func(p *Patch) { Append[string](p, "/a", 0) }, ``},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := Patch{}
			tc.build(&p)
			document, err := p.Encode()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(document)).To(Equal(tc.want))
		})
	}
}

func TestTooManyChangesAreRefused(t *testing.T) {
	g := NewWithT(t)
	many := Patch{}
	for range 10_000 {
		many.Add("/a/-", 1)
	}
	_, err := many.Encode()
	g.Expect(err).NotTo(HaveOccurred())
	many.Add("/a/-", 1)
	_, err = many.Encode()
	g.Expect(err).To(MatchError("the object needs too many changes: 10001, at most 10000 are made"))
	g.Expect(err).To(MatchError(ErrTooLarge))
	long := Patch{}
	for range 10 {
		long.Add("/a", strings.Repeat("a", 1<<20))
	}
	_, err = long.Encode()
	g.Expect(err).To(MatchError("the object needs too many changes: more than 8388608 bytes"))
}

func TestAValueThatCannotBeEncodedIsAnError(t *testing.T) {
	p := Patch{}
	p.Add("/a", func() {})
	_, err := p.Encode()
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("encode patch: ")))
}

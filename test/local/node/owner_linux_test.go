package node

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestAMachineHasOneNode(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "run", "owner")
	first, second := layout(t.TempDir()), layout(t.TempDir())
	g.Expect(claim(file, first)).To(Succeed())
	g.Expect(claim(file, first)).To(Succeed(), "again")
	g.Expect(claim(file, second)).To(MatchError(ContainSubstring("that of " + string(first))))

	g.Expect(os.RemoveAll(string(first))).To(Succeed())
	g.Expect(claim(file, second)).To(Succeed(), "a node whose folder is gone can be claimed again")
	g.Expect(os.ReadFile(file)).To(BeEquivalentTo(second))
}

func TestDownRemovesOnlyWhatIsOurs(t *testing.T) {
	for name, tc := range map[string]struct {
		owner        string // "us", "another", "gone", or "" if it is not known
		state, trace bool
		want         bool
	}{
		"nothing was ever started": {},
		"our node":                 {owner: "us", state: true, trace: true, want: true},
		"our node, of a start that went no further":           {state: true, want: true},
		"our node, whose state folder a user has deleted":     {owner: "us", trace: true, want: os.Geteuid() == 0},
		"a node of a work tree that a user has deleted":       {owner: "gone", trace: true, want: os.Geteuid() == 0},
		"traces of an unknown owner":                          {trace: true, want: os.Geteuid() == 0},
		"the node of another work tree":                       {owner: "another", trace: true},
		"the node of another work tree, and a folder of ours": {owner: "another", state: true, trace: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			dir := t.TempDir()
			us, another, trace, file := filepath.Join(dir, "us"), filepath.Join(dir, "another"), filepath.Join(dir, "trace"),
				filepath.Join(dir, "owner")
			g.Expect(os.Mkdir(another, 0o700)).To(Succeed())
			for path, wanted := range map[string]bool{us: tc.state, trace: tc.trace} {
				if wanted {
					g.Expect(os.Mkdir(path, 0o700)).To(Succeed())
				}
			}
			if tc.owner != "" {
				g.Expect(os.WriteFile(file, []byte(filepath.Join(dir, tc.owner)), 0o600)).To(Succeed())
			}
			g.Expect(layout(us).mayRemove(file, trace)).To(Equal(tc.want))
		})
	}
}

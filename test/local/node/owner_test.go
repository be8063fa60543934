package node

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/local/child"
)

func TestAMachineHasOneNode(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "run", "owner")
	first, second := layout(t.TempDir()), layout(t.TempDir())
	var removed []layout
	remove := func(former layout) error {
		removed = append(removed, former)
		return nil
	}
	g.Expect(claim(file, first, remove)).To(Succeed())
	g.Expect(claim(file, first, remove)).To(Succeed(), "again")
	running := run(t, first)
	g.Expect(claim(file, second, remove)).To(MatchError(ContainSubstring("that of " + string(first))))
	g.Expect(removed).To(BeEmpty())

	g.Expect(running.Stop(0)).To(Succeed())
	g.Expect(claim(file, second, remove)).To(Succeed(), "the node of a folder of which no process runs can be claimed")
	g.Expect(os.ReadFile(file)).To(BeEquivalentTo(second))
	g.Expect(removed).To(Equal([]layout{first}))

	g.Expect(os.RemoveAll(string(second))).To(Succeed())
	g.Expect(claim(file, first, remove)).To(Succeed(), "so can that of a folder that a user has deleted")
	g.Expect(removed).To(Equal([]layout{first, second}))
}

// run starts a process of a node.
func run(t *testing.T, l layout) *child.Process {
	t.Helper()
	started, err := child.Start(child.Spec{
		Name: kubelet, Path: "/bin/sleep", Args: []string{"600"}, LogFile: l.log(kubelet), RecordFile: l.record(kubelet),
	})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = started.Stop(0) })
	return started
}

func TestDownRemovesOnlyWhatIsOurs(t *testing.T) {
	for name, tc := range map[string]struct {
		owner        string // "us", "another", "gone", or "" if there is no owner
		state, trace bool
		stopped      bool // no process of the other work tree runs
		want         bool
	}{
		"nothing was ever started": {},
		"our node":                 {owner: "us", state: true, trace: true, want: true},
		"our node, of a start that went no further":           {state: true, want: true},
		"our node, whose state folder a user has deleted":     {owner: "us", trace: true, want: os.Geteuid() == 0},
		"a node of a work tree that a user has deleted":       {owner: "gone", trace: true, want: os.Geteuid() == 0},
		"traces of an unknown owner":                          {trace: true, want: os.Geteuid() == 0},
		"the node of another work tree, which was killed":     {owner: "another", stopped: true, trace: true, want: os.Geteuid() == 0},
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
			if !tc.stopped {
				run(t, layout(another))
			}
			if tc.owner != "" {
				g.Expect(os.WriteFile(file, []byte(filepath.Join(dir, tc.owner)), 0o600)).To(Succeed())
			}
			g.Expect(layout(us).mayRemove(file, trace)).To(Equal(tc.want))
		})
	}
}

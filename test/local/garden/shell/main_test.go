package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestFolderGetsAnOwner(t *testing.T) {
	g := NewWithT(t)
	folder := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(folder, "file"), nil, 0o600)).To(Succeed())
	g.Expect(run([]string{"-c", "--", fmt.Sprintf("chown -R %d:%d %s", os.Getuid(), os.Getgid(), folder)})).To(Succeed())
	g.Expect(run([]string{"-c", "ls"})).To(MatchError(ContainSubstring(`cannot run "-c ls"`)))
	g.Expect(run([]string{"-c", "chown -R 1:1 " + filepath.Join(folder, "absent")})).To(MatchError(os.ErrNotExist))
}

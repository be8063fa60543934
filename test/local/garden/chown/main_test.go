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
	owner := fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
	g.Expect(run([]string{"-R", owner, folder})).To(Succeed())
	g.Expect(run([]string{"-R", owner, filepath.Join(folder, "absent")})).To(MatchError(os.ErrNotExist))
	g.Expect(run([]string{"-R", "root", folder})).To(MatchError(ContainSubstring(`parse user and group "root"`)))
	g.Expect(run([]string{owner, folder})).To(MatchError(ContainSubstring("usage")))
}

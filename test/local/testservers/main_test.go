package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"nothing": nil, "no command": {"run", "--"}, "no separator": {"run", "true"}, "something else": {"walk"}, "too much": {"serve", "me"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(run(t.Context(), args, io.Discard)).To(MatchError(HavePrefix("usage: testservers run -- COMMAND")))
		})
	}
}

func TestExitCode(t *testing.T) {
	failed := exec.CommandContext(t.Context(), "/bin/sh", "-c", "exit 5").Run()
	for name, tc := range map[string]struct {
		err      error
		code     int
		reported string
	}{
		"success":                              {nil, 0, ""},
		"the command's own failure":            {failed, 5, ""},
		"the same, with more to tell after it": {errors.Join(failed, errors.New("x")), 5, ""},
		"anything else":                        {errors.New("no etcd"), 1, "error: no etcd\n"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var log bytes.Buffer
			g.Expect(exitCode(tc.err, &log)).To(Equal(tc.code))
			g.Expect(log.String()).To(Equal(tc.reported))
		})
	}
}

func TestACommandFindsTheServersAndNothingOutlivesIt(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two control planes, and looks for them in /proc")
	}
	g := NewWithT(t)
	t.Setenv("KUBECONFIG", "/somewhere")
	t.Setenv("TMPDIR", t.TempDir())
	seen := filepath.Join(t.TempDir(), "seen")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	script := `echo "[$KUBECONFIG]" "$ESPALIER_TEST_SERVERS"/*/kubeconfigs/admin >` + seen + `.new; mv ` + seen + `.new ` + seen +
		`; sleep 300`
	go func() { done <- run(ctx, []string{"run", "--", "/bin/sh", "-c", script}, os.Stderr) }()

	g.Eventually(seen, "5m").Should(BeAnExistingFile())
	data, err := os.ReadFile(seen)
	g.Expect(err).NotTo(HaveOccurred())
	words := strings.Fields(string(data))
	g.Expect(words).To(HaveLen(3))
	g.Expect(words[0]).To(Equal("[]"))
	g.Expect(words[1]).To(HaveSuffix("/source/kubeconfigs/admin"))
	g.Expect(words[2]).To(HaveSuffix("/target/kubeconfigs/admin"))
	servers := filepath.Dir(filepath.Dir(filepath.Dir(words[1])))
	g.Expect(processesNaming(g, servers)).NotTo(BeEmpty())

	cancel()
	g.Eventually(done, "2m").Should(Receive(HaveOccurred()))
	g.Eventually(func() []string { return processesNaming(g, servers) }, time.Minute).Should(BeEmpty())
	g.Expect(servers).NotTo(BeADirectory())
}

// processesNaming returns the command lines that contain the text.
func processesNaming(g *WithT, text string) []string {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	g.Expect(err).NotTo(HaveOccurred())
	var found []string
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && strings.Contains(string(data), text) {
			found = append(found, string(data))
		}
	}
	return found
}

func TestADeadServerEndsTheRunAndIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two control planes")
	}
	t.Setenv("TMPDIR", t.TempDir())
	record := `"$ESPALIER_TEST_SERVERS"/target/pids/etcd.json`
	kill := `kill -9 "$(sed 's/.*"pid":\([0-9]*\).*/\1/' ` + record + `)"; sleep 300`
	NewWithT(t).Expect(run(t.Context(), []string{"run", "--", "/bin/sh", "-c", kill}, os.Stderr)).
		To(MatchError(MatchRegexp(`^etcd \(pid \d+\) has stopped: signal: killed`)))
}

package child

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// patience is how long to wait for an event that takes a moment on an idle machine; children that must not end sleep longer.
const patience = 30 * time.Second

func start(t *testing.T, script string, env ...string) (*Process, Spec) {
	t.Helper()
	dir := t.TempDir()
	spec := Spec{
		Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, Env: env,
		LogFile: filepath.Join(dir, "logs", "script.log"), RecordFile: filepath.Join(dir, "pids", "script.json"),
	}
	p, err := Start(spec)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = p.Stop(0) })
	return p, spec
}

func TestFind(t *testing.T) {
	t.Run("finds a process by its record, and nothing after it was stopped", func(t *testing.T) {
		g := NewWithT(t)
		p, spec := start(t, "sleep 60; true")
		g.Expect(Find(spec.RecordFile)).To(HaveField("Record", p.Record))
		g.Expect(p.Failure()).NotTo(HaveOccurred())

		g.Expect(p.Stop(5 * time.Second)).To(Succeed())
		g.Expect(syscall.Kill(p.ID, 0)).To(MatchError(syscall.ESRCH))
		g.Expect(Find(spec.RecordFile)).To(BeNil())
		g.Expect(spec.RecordFile).NotTo(BeAnExistingFile())
	})
	t.Run("stops a process that another run started", func(t *testing.T) {
		g := NewWithT(t)
		p, spec := start(t, "while :; do sleep 60; done")
		found, err := Find(spec.RecordFile)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found.Stop(5 * time.Second)).To(Succeed())
		g.Eventually(p.Done(), patience).Should(BeClosed())
	})
	t.Run("leaves a process alone whose id was given to another program", func(t *testing.T) {
		g := NewWithT(t)
		p, spec := start(t, "sleep 60; true")
		foreign := p.Record
		foreign.Identity = p.Identity + "1" // the identity of a process that started later
		g.Expect(foreign.write()).To(Succeed())
		g.Expect(Find(spec.RecordFile)).To(BeNil())

		p.Identity = foreign.Identity
		p.Signal(syscall.SIGKILL)
		g.Consistently(p.Done(), "200ms").ShouldNot(BeClosed())
		p.Identity = ""
	})
	t.Run("refuses a record that names no process", func(t *testing.T) {
		g := NewWithT(t)
		file := filepath.Join(t.TempDir(), "record.json")
		for _, record := range []string{`{"pid":0,"identity":"x"}`, `{"pid":1,"identity":"x"}`, `{"pid":4711}`} {
			g.Expect(os.WriteFile(file, []byte(record), 0o600)).To(Succeed())
			_, err := Find(file)
			g.Expect(err).To(MatchError(ContainSubstring("it names no process")), record)
		}
	})
}

func TestFailureTellsHowItEndedAndWhatItSaidLast(t *testing.T) {
	g := NewWithT(t)
	p, spec := start(t, "echo port is taken >&2; exit 3")
	g.Eventually(p.Done(), patience).Should(BeClosed())
	g.Expect(p.Failure()).To(MatchError(And(
		ContainSubstring("script (pid "), ContainSubstring("exit status 3"), ContainSubstring(spec.LogFile),
		ContainSubstring("    port is taken"))))
}

func TestStartNamesWhatItCannotStart(t *testing.T) {
	dir := t.TempDir()
	_, err := Start(Spec{
		Name: "etcd", Path: filepath.Join(dir, "etcd"), LogFile: filepath.Join(dir, "log"), RecordFile: filepath.Join(dir, "pid"),
	})
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("start etcd: fork/exec " + filepath.Join(dir, "etcd"))))
}

func TestStopEndsAProcessThatHasCalledExec(t *testing.T) {
	g := NewWithT(t)
	p, spec := start(t, "exec sleep 60")
	g.Eventually(func() ([]byte, error) {
		return os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.ID))
	}, patience).Should(BeEquivalentTo("sleep\n"))
	g.Expect(Find(spec.RecordFile)).To(HaveField("Record", p.Record))
	g.Expect(p.Stop(patience)).To(Succeed())
	g.Expect(p.Failure()).To(MatchError(ContainSubstring("signal: terminated")))
}

func TestStopKillsTheWholeGroup(t *testing.T) {
	g := NewWithT(t)
	p, spec := start(t, `trap "" TERM; sleep 60 & echo $!; wait; wait`)
	g.Eventually(func() string { return Tail(spec.LogFile) }, patience).ShouldNot(ContainSubstring("empty"))
	g.Expect(p.Stop(100 * time.Millisecond)).To(Succeed())
	g.Eventually(func() error { return syscall.Kill(-p.ID, 0) }, patience).Should(MatchError(syscall.ESRCH))
}

func TestKubeconfigsOfTheShellAreHiddenFromChildren(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("KUBECONFIG", "/somewhere")
	t.Setenv("TARGET_KUBECONFIG", "/elsewhere")
	p, spec := start(t, `echo "[$KUBECONFIG$TARGET_KUBECONFIG] $EXTRA"`, "EXTRA=more")
	g.Eventually(p.Done(), patience).Should(BeClosed())
	g.Expect(Tail(spec.LogFile)).To(Equal("    [] more"))
}

func TestLastLines(t *testing.T) {
	many := make([]string, 35)
	for i := range many {
		many[i] = strings.Repeat("x", i+1)
	}
	for name, tc := range map[string]struct{ log, want string }{
		"an empty log says so":     {"\n", "    (the log is empty)"},
		"short logs are whole":     {"a\nb\n", "    a\n    b"},
		"long lines are shortened": {strings.Repeat("y", 500), "    " + strings.Repeat("y", 400) + " … (500 bytes)"},
		"only the last thirty are": {strings.Join(many, "\n"), "    " + strings.Join(many[5:], "\n    ")},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(lastLines([]byte(tc.log))).To(Equal(tc.want)) })
	}
}

func TestEveryChildIsRecordedFromItsFirstMoment(t *testing.T) {
	g := NewWithT(t)
	for range 100 {
		p, spec := start(t, "sleep 60; true")
		g.Expect(Find(spec.RecordFile)).To(HaveField("ID", p.ID))
		g.Expect(p.Stop(0)).To(Succeed())
	}
}

package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	. "github.com/onsi/gomega"
)

func TestParseMachineAddsIdleAndWaiting(t *testing.T) {
	g := NewWithT(t)
	g.Expect(parseMachine("cpu  10 20 30 400 50 6 7 0 0 0\ncpu0 1 1 1 1 1\n")).To(Equal(machine{idle: 4500 * time.Millisecond}))
	for name, stat := range map[string]string{"empty": "", "other line": "intr 1 2 3 4 5 6", "no number": "cpu 1 2 3 x 5 6"} {
		_, err := parseMachine(stat)
		g.Expect(err).To(HaveOccurred(), name)
	}
}

// line returns a line in the format of /proc/<pid>/stat.
func line(name, parent, user, system, born string) string {
	return "7 (" + name + ") S " + parent + " 0 0 0 0 0 0 0 0 0 " + user + " " + system + " 900 900 20 0 5 0 " + born + " 4096 10"
}

func TestReadProcesses(t *testing.T) {
	proc := fstest.MapFS{
		"7/stat":    {Data: []byte(line("a) (b", "3", "12", "30", "500"))},
		"7/cmdline": {Data: []byte("/bin/etcd\x00--data-dir=x\x00")},
		"8/stat":    {Data: []byte("8 (unexpected) Z")},
		"9/stat":    {Data: []byte(strings.Replace(line("ended", "3", "1", "1", "600"), " S ", " Z ", 1))},
		"9/cmdline": {},
		"self/stat": {Data: []byte(line("self", "1", "1", "1", "1"))},
	}
	NewWithT(t).Expect(readProcesses(proc)).To(Equal([]process{{
		pid: 7, parent: 3, born: 500, used: 420 * time.Millisecond, command: []string{"/bin/etcd", "--data-dir=x"},
	}, {pid: 9, parent: 3, born: 600, used: 20 * time.Millisecond, ended: true}}))
}

func TestKindOf(t *testing.T) {
	for command, want := range map[string]string{
		"/usr/local/go/pkg/tool/linux_amd64/compile": compiles, "/usr/local/go/pkg/tool/linux_amd64/link": links,
		"/usr/local/go/bin/go": goCommands, "/usr/lib/gcc/x86_64-linux-gnu/12/cc1": cTools, "/cache/kube-apiserver": apiServers,
		"/cache/etcd": etcds, "/cache/kube-controller-manager": managers, "/tmp/go-build1/b2/engine.test": testCode,
		"/tmp/x/csr-approver": binaries, "/bin/bash": others,
	} {
		t.Run(command, func(t *testing.T) {
			NewWithT(t).Expect(kindOf([]string{command}, []string{"csr-approver"})).To(Equal(want))
		})
	}
	NewWithT(t).Expect(kindOf(nil, nil)).To(Equal(others))
}

func TestPackageOf(t *testing.T) {
	for name, tc := range map[string]struct {
		kind    string
		process process
		want    string
	}{
		"a test":           {testCode, process{command: []string{"/tmp/b1/a.test"}, folder: "/src/internal/a"}, "internal/a"},
		"a foreign test":   {testCode, process{command: []string{"/tmp/b1/a.test"}, folder: "/other"}, "a"},
		"the linker":       {links, process{command: []string{"link", "-o", "/tmp/b1/a.test"}}, "a.test"},
		"another compiler": {compiles, process{command: []string{"compile", "-p", "b"}}, ""},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(packageOf(tc.kind, tc.process, "/src")).To(Equal(tc.want)) })
	}
}

func TestReport(t *testing.T) {
	g := NewWithT(t)
	h := &history{records: map[identity]*record{}, present: map[string]int{}, module: "/src"}
	second := func(pid, parent int, used time.Duration, folder string, command ...string) process {
		return process{pid: pid, parent: parent, born: 1, used: used, command: command, folder: folder}
	}
	before := []process{
		second(1, 0, 0, "/", "init"), second(2, 1, 9*time.Second, "/", "foreign"), second(10, 1, 0, "/src", "cost"),
		second(11, 10, time.Second, "/src", "go"), second(12, 11, 2*time.Second, "/src/internal/a", "/tmp/a.test"),
		second(13, 12, 3*time.Second, "/tmp", "kube-apiserver"), second(14, 11, 4*time.Second, "/tmp", "link", "-o", "b.test"),
	}
	h.add(before, 10)
	// The test has ended, and its server has become a child of the root process. The linker has just ended.
	h.add([]process{
		second(10, 1, 0, "/src", "cost"), second(13, 10, 5*time.Second, "/tmp", "kube-apiserver"), second(14, 11, 4*time.Second, "/tmp"),
	}, 10)

	var out bytes.Buffer
	h.report(&out, 20*time.Second, 10*time.Second, 7*time.Second)
	g.Expect(out.String()).To(Equal(`
  processor s  while present s  kind of process
            5                0  API servers
            4                0  link
            2                0  test code
            1                0  go command
            8                   after the last reading of a process
           20               10  sum
            7                   idle cores

  processor s  test code  own servers  others  wall s  package
          7.0        2.0          5.0     0.0     0.2  internal/a
`))
}

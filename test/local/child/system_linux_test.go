package child

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
)

func TestStartTime(t *testing.T) {
	for name, tc := range map[string]struct{ stat, want string }{
		"a plain name":                        {"7 (etcd) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 4711 12 13", "4711"},
		"a name with spaces and parentheses":  {"7 (a) S (b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 4711 12 13", "4711"},
		"a line that is cut off is no answer": {"7 (etcd) S 1 7", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := startTime(tc.stat)
			g := NewWithT(t)
			g.Expect(got).To(Equal(tc.want))
			g.Expect(err != nil).To(Equal(tc.want == ""))
		})
	}
}

// The test runs itself again as a parent, which starts a child and is then killed without a chance to clean up.
func TestChildrenDieWithAParentThatIsKilled(t *testing.T) {
	g := NewWithT(t)
	if dir := os.Getenv("CHILD_TEST_PARENT"); dir != "" {
		_, err := Start(Spec{
			Name: "orphan", Path: "/bin/sleep", Args: []string{"60"}, LogFile: filepath.Join(dir, "log"), RecordFile: filepath.Join(dir, "pid"),
		})
		g.Expect(err).NotTo(HaveOccurred())
		select {}
	}
	dir := t.TempDir()
	parent := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	parent.Env = append(os.Environ(), "CHILD_TEST_PARENT="+dir)
	g.Expect(parent.Start()).To(Succeed())
	var record *Record
	g.Eventually(func() (_ *Record, err error) {
		record, err = readRecord(filepath.Join(dir, "pid"))
		return record, err
	}, patience).ShouldNot(BeNil())

	g.Expect(parent.Process.Signal(syscall.SIGKILL)).To(Succeed())
	_ = parent.Wait()
	g.Eventually(func() string {
		stat, _ := os.ReadFile("/proc/" + strconv.Itoa(record.ID) + "/stat")
		_, state, _ := strings.Cut(string(stat), ") ")
		return state
	}, patience).Should(Or(BeEmpty(), HavePrefix("Z")))
}

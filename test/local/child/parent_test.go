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

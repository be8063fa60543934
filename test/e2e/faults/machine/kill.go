package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Kill kills the processes of a Pod of the local node, without time to end in order. It finds them by the names of their cgroups.
func Kill(pod corev1.Pod) error {
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return err
	}
	killed := 0
	for _, container := range pod.Status.ContainerStatuses {
		_, id, _ := strings.Cut(container.ContainerID, "://")
		for _, file := range files {
			membership, err := os.ReadFile(file)
			if err != nil || id == "" || !strings.Contains(string(membership), id) {
				continue // it has ended, or belongs to another user
			}
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				return err
			}
			process, err := os.FindProcess(pid)
			if err == nil {
				err = process.Kill()
			}
			if err != nil {
				return fmt.Errorf("kill process %d of Pod %s: %w", pid, pod.Name, err)
			}
			killed++
		}
	}
	if killed == 0 {
		return fmt.Errorf("kill processes of Pod %s: none was found", pod.Name)
	}
	return nil
}

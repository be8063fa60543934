package machine

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// keepDescriptors prevents programs that are started later from inheriting open files of this process, such as a lock of the calling shell:
// parts of the node outlive this process, and would keep the lock forever.
func keepDescriptors() error {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keep descriptors: %w", err)
	}
	return nil
}

package machine

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// keepDescriptors lets no program that is started from here on inherit what this process has inherited, such as a lock that a
// shell has taken for it: parts of the node outlive this process, and would hold it for ever.
func keepDescriptors() error {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keep descriptors: %w", err)
	}
	return nil
}

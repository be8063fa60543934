package lifecycle

import (
	"sync"
	"time"

	"github.com/espalier-dev/espalier/internal/repair"
)

// repairBackoff delays the repair of a role or binding that another client keeps changing. It has its own lock; its state is lost on
// restart.
type repairBackoff struct {
	mu sync.Mutex
	// objects are by the name of the Project, then by the object that is changed.
	objects map[string]map[string]*repair.Backoff
}

// unneededExtensionRoles stands for all extension roles that no member has, if another client keeps creating them.
const unneededExtensionRoles = "extension roles that no member has"

func newRepairBackoff() *repairBackoff {
	return &repairBackoff{objects: map[string]map[string]*repair.Backoff{}}
}

// recordRepair records a repair. It returns the pause that follows it; zero for none.
func (b *repairBackoff) recordRepair(project, about string, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.objects[project] == nil {
		b.objects[project] = map[string]*repair.Backoff{}
	}
	next, pause := b.objects[project][about].Repaired("", now)
	b.objects[project][about] = next
	return pause
}

// remainingPause returns how long the next repair must wait.
func (b *repairBackoff) remainingPause(project, about string, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.objects[project][about].Remaining(now)
}

func (b *repairBackoff) forget(project string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.objects, project)
}

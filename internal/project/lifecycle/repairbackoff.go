package lifecycle

import (
	"sync"
	"time"
)

const (
	// repairsWithoutPause is how many repairs of one role or binding within repairWindow are made without a pause.
	repairsWithoutPause = 3
	repairWindow        = time.Minute
	// While the other client continues, the pause before the next repair doubles from firstRepairPause up to longestRepairPause.
	firstRepairPause   = 10 * time.Second
	longestRepairPause = 5 * time.Minute
)

// repairBackoff delays the repair of a role or binding that another client keeps changing. Otherwise that client could make the controller
// send requests without end. It has its own lock; its state is lost on restart.
type repairBackoff struct {
	mu sync.Mutex
	// histories are by the name of the Project, then by the object that is changed.
	histories map[string]map[string]*repairHistory
}

// unneededExtensionRoles stands for all extension roles that no member has, if another client keeps creating them.
const unneededExtensionRoles = "extension roles that no member has"

type repairHistory struct {
	// repairs are the times of the last repairs, oldest first.
	repairs []time.Time
	// pause is the last pause, zero if there was none; it ends at until.
	pause time.Duration
	until time.Time
}

func newRepairBackoff() *repairBackoff {
	return &repairBackoff{histories: map[string]map[string]*repairHistory{}}
}

// recordRepair records a repair. It returns the pause that follows it; zero for none.
func (d *repairBackoff) recordRepair(project, about string, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	history := d.histories[project][about]
	if history == nil || now.Sub(history.until) > longestRepairPause && history.pause > 0 {
		history = &repairHistory{}
		if d.histories[project] == nil {
			d.histories[project] = map[string]*repairHistory{}
		}
		d.histories[project][about] = history
	}
	history.repairs = append(history.repairs, now)
	if excess := len(history.repairs) - repairsWithoutPause; excess > 0 {
		history.repairs = history.repairs[excess:]
	}
	if history.pause == 0 && (len(history.repairs) < repairsWithoutPause || now.Sub(history.repairs[0]) > repairWindow) {
		return 0
	}
	history.pause = min(max(2*history.pause, firstRepairPause), longestRepairPause)
	history.until = now.Add(history.pause)
	return history.pause
}

// remainingPause returns how long the next repair must wait.
func (d *repairBackoff) remainingPause(project, about string, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if history := d.histories[project][about]; history != nil {
		return max(history.until.Sub(now), 0)
	}
	return 0
}

func (d *repairBackoff) forget(project string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.histories, project)
}

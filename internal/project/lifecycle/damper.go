package lifecycle

import (
	"sync"
	"time"
)

const (
	// patientFor is how many repairs of one role or binding within repairWindow are made without a pause.
	patientFor   = 3
	repairWindow = time.Minute
	// While the other client continues, the pause before the next repair doubles from firstRepairPause up to longestRepairPause.
	firstRepairPause   = 10 * time.Second
	longestRepairPause = 5 * time.Minute
)

// damper delays the repair of a role or binding that another client keeps changing. Otherwise that client could make the controller send
// requests without end. It has its own lock; its state is lost on restart.
type damper struct {
	mu sync.Mutex
	// quarrels are by the name of the Project, then by the object that is changed.
	quarrels map[string]map[string]*quarrel
}

// strays stands for all extension roles that no member has, if another client keeps creating them.
const strays = "extension roles that no member has"

type quarrel struct {
	// repairs are the times of the last repairs, oldest first.
	repairs []time.Time
	// pause is the last pause, zero if there was none; it ends at until.
	pause time.Duration
	until time.Time
}

func newDamper() *damper { return &damper{quarrels: map[string]map[string]*quarrel{}} }

// repaired records a repair. It returns the pause that follows it; zero for none.
func (d *damper) repaired(project, about string, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.quarrels[project][about]
	if q == nil || now.Sub(q.until) > longestRepairPause && q.pause > 0 {
		q = &quarrel{}
		if d.quarrels[project] == nil {
			d.quarrels[project] = map[string]*quarrel{}
		}
		d.quarrels[project][about] = q
	}
	q.repairs = append(q.repairs, now)
	if excess := len(q.repairs) - patientFor; excess > 0 {
		q.repairs = q.repairs[excess:]
	}
	if q.pause == 0 && (len(q.repairs) < patientFor || now.Sub(q.repairs[0]) > repairWindow) {
		return 0
	}
	q.pause = min(max(2*q.pause, firstRepairPause), longestRepairPause)
	q.until = now.Add(q.pause)
	return q.pause
}

// rest returns how long the next repair must wait.
func (d *damper) rest(project, about string, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := d.quarrels[project][about]; q != nil {
		return max(q.until.Sub(now), 0)
	}
	return 0
}

func (d *damper) forget(project string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.quarrels, project)
}

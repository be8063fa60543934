package lifecycle

import (
	"sync"
	"time"
)

const (
	// patientFor is how many repairs of one role or binding within repairWindow are made at once.
	patientFor   = 3
	repairWindow = time.Minute
	// The pause before the next repair doubles from the one to the other as long as the quarrel goes on.
	firstRepairPause   = 10 * time.Second
	longestRepairPause = 5 * time.Minute
)

// damper slows down the repair of a role or binding that somebody keeps changing, who could otherwise have the controller
// send requests without end. Its own lock guards it; a restart forgets all quarrels.
type damper struct {
	mu sync.Mutex
	// quarrels are by the name of the Project and what they are about.
	quarrels map[string]map[string]*quarrel
}

// strays is what a quarrel is about if somebody keeps creating extension roles that nobody has.
const strays = "extension roles that no member has"

type quarrel struct {
	// repairs are the last ones, oldest first.
	repairs []time.Time
	// pause is the last one, zero if there was none; it ends at until.
	pause time.Duration
	until time.Time
}

func newDamper() *damper { return &damper{quarrels: map[string]map[string]*quarrel{}} }

// repaired notes a repair. It returns the pause that begins with it; zero if there is none.
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

// rest returns how long the next repair has to wait.
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

package applier

import "time"

const (
	// planPause is the shortest time between two plans of a set, so that one whose objects change all the time does not
	// keep API servers busy with dry runs.
	planPause = time.Second
	// planShare is how many times as long as a plan took the pause after it is.
	planShare = 4
	// longestPlanPause is the longest that this and failures can make the pause.
	longestPlanPause = time.Minute
)

// pauseAfterPlan returns how long to wait after a plan that took so long, when so many in a row could not be published.
func pauseAfterPlan(took time.Duration, failures int) time.Duration {
	pause := max(planPause, planShare*took)
	for ; failures > 1 && pause < longestPlanPause; failures-- {
		pause *= 2
	}
	return min(pause, longestPlanPause)
}

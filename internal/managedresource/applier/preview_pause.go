package applier

import "time"

const (
	// planPause is the shortest time between two plans of a set, so that a set whose objects change often does not cause too many dry runs.
	planPause = time.Second
	// planShare is the ratio of the pause after a plan to the time that the plan took.
	planShare = 4
	// longestPlanPause limits the pause after slow plans and after failures.
	longestPlanPause = time.Minute
)

// pauseAfterPlan returns the pause after a plan. Failures is the number of consecutive plans that could not be published.
func pauseAfterPlan(took time.Duration, failures int) time.Duration {
	pause := max(planPause, planShare*took)
	for ; failures > 1 && pause < longestPlanPause; failures-- {
		pause *= 2
	}
	return min(pause, longestPlanPause)
}

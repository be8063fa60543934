package managedresource

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/test/bench/harness"
)

// verdicts are the two conditions of a set about the health of its objects; "" is a missing condition.
type verdicts struct{ healthy, progressing corev1beta1.ConditionStatus }

// settled and broken are the required conditions of a set with one Deployment when its rollout is complete, and when it is not.
func settled() verdicts { return verdicts{healthy: "True", progressing: "False"} }
func broken() verdicts  { return verdicts{healthy: "False", progressing: "True"} }

func (v verdicts) String() string {
	return fmt.Sprintf("ResourcesHealthy %s, ResourcesProgressing %s", cmp.Or(v.healthy, "absent"), cmp.Or(v.progressing, "absent"))
}

// verdictsOf reads the verdicts from the status of a set.
func verdictsOf(set *resourcesv1alpha1.ManagedResource) (v verdicts) {
	for _, c := range set.Status.Conditions {
		if c.Type == resourcesv1alpha1.ResourcesHealthy {
			v.healthy = c.Status
		}
		if c.Type == resourcesv1alpha1.ResourcesProgressing {
			v.progressing = c.Status
		}
	}
	return v
}

// conditionTracker watches sets until they have the wanted conditions. A set and its Deployment have the same name.
type conditionTracker struct {
	last map[string]verdicts
	// written is when the watch of Deployments received each resourceVersion.
	written map[string]time.Time

	want    verdicts
	missing map[string]bool
	reached map[string]time.Time
}

func newConditionTracker() *conditionTracker {
	return &conditionTracker{last: map[string]verdicts{}, written: map[string]time.Time{}}
}

// expect makes the tracker wait until the named sets have the wanted conditions.
func (t *conditionTracker) expect(want verdicts, names ...string) {
	t.want, t.written = want, map[string]time.Time{}
	t.missing, t.reached = map[string]bool{}, map[string]time.Time{}
	for _, name := range names {
		if t.last[name] != want {
			t.missing[name] = true
		}
	}
}

// done reports whether all expected sets have the wanted conditions.
func (t *conditionTracker) done() bool { return len(t.missing) == 0 }

// see processes an event. It returns true when all expected sets have the wanted conditions. It may be called before expect.
func (t *conditionTracker) see(e harness.Event) bool {
	name := e.Object.GetName()
	set, ok := e.Object.(*resourcesv1alpha1.ManagedResource)
	if !ok { // a Deployment
		t.written[e.Object.GetResourceVersion()] = e.At
		return t.done()
	}
	t.last[name] = verdictsOf(set)
	if t.missing[name] && t.last[name] == t.want {
		t.reached[name] = e.At
		delete(t.missing, name)
	}
	return t.done()
}

// begin returns the start of the measured time of a set: when the response to the write of its Deployment arrived or, if that was earlier,
// when the watch received the change.
func (t *conditionTracker) begin(resourceVersion string, answered time.Time) time.Time {
	if seen, ok := t.written[resourceVersion]; ok && seen.Before(answered) {
		return seen
	}
	return answered
}

// explain describes the conditions of the expected sets that do not have the wanted ones, grouped.
func (t *conditionTracker) explain() string {
	sets := map[string]int{}
	for name := range t.missing {
		sets[t.last[name].String()]++
	}
	parts := make([]string, 0, len(sets))
	for _, what := range slices.Sorted(maps.Keys(sets)) {
		parts = append(parts, fmt.Sprintf("%d say %s", sets[what], what))
	}
	return strings.Join(parts, "; ")
}

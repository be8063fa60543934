package applier

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/apply/observe"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// untouched returns the facts about an object in its desired state.
func untouched(modify ...func(*facts)) facts {
	f := facts{
		item:      &item{hash: 7, known: knowledge{hash: 7, fingerprint: 9, confirmed: true, checkedAt: noon}},
		seen:      observe.Object{Fingerprint: 9},
		knowledge: observe.Present, unchanged: true, recheckBefore: noon.Add(-time.Minute),
	}
	for _, each := range modify {
		each(&f)
	}
	return f
}

func afterRestart(f *facts)  { f.item.known = knowledge{}; f.seen.FirstMetadata = &metav1.ObjectMeta{} }
func setChanged(f *facts)    { f.unchanged = false }
func desiredChange(f *facts) { f.item.hash = 8 }
func touched(f *facts)       { f.seen.Fingerprint = 10 }
func absent(f *facts)        { f.knowledge = observe.Absent }
func unwatched(f *facts)     { f.knowledge = observe.Unwatched }
func recheckDue(f *facts)    { f.recheckBefore = noon.Add(time.Second) }
func audited(f *facts)       { f.item.known.due = compare }
func forced(f *facts)        { f.item.known.due = write }
func rawLost(f *facts)       { f.seen.FirstMetadata = nil }
func writtenLater(f *facts)  { f.writtenLater = true }
func createdOnce(f *facts)   { f.item.unlabelled = true }

func TestDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		facts facts
		want  action
	}{
		"in its desired state":                                {facts: untouched(), want: leave},
		"another client wrote to it":                          {facts: untouched(touched), want: compare},
		"its manifest changed":                                {facts: untouched(desiredChange), want: write},
		"its manifest changed and another client wrote to it": {facts: untouched(desiredChange, touched), want: write},
		"it is gone":                                          {facts: untouched(absent), want: create},
		"another object of the set changed":                   {facts: untouched(setChanged), want: leave},
		"an audit, or its autoscaler changed":                 {facts: untouched(audited), want: compare},
		"everything is to be written":                         {facts: untouched(forced), want: write},
		"no watch covers it, and it was checked recently":     {facts: untouched(unwatched), want: leave},
		"no watch covers it for a whole period":               {facts: untouched(unwatched, recheckDue), want: compare},
		"no watch covers it and its manifest changed":         {facts: untouched(unwatched, desiredChange), want: write},
		"after a restart, the last apply was completed":       {facts: untouched(afterRestart), want: verify},
		"after a restart, the last apply was cut off":         {facts: untouched(afterRestart, setChanged), want: write},
		"after a restart, we wrote it after the status":       {facts: untouched(afterRestart, writtenLater), want: write},
		"after a restart, its first metadata is lost":         {facts: untouched(afterRestart, rawLost), want: compare},
		"after a restart, no watch covers it":                 {facts: untouched(afterRestart, unwatched), want: compare},
		"after a restart, an audit":                           {facts: untouched(afterRestart, audited), want: compare},
		"after a restart, it is gone":                         {facts: untouched(afterRestart, absent), want: create},
		"created once: it is there":                           {facts: untouched(createdOnce, touched), want: leave},
		"created once: everything is to be written":           {facts: untouched(createdOnce, forced), want: compare},
		"created once: it is gone":                            {facts: untouched(createdOnce, absent), want: create},
		"created once: after a restart":                       {facts: untouched(createdOnce, afterRestart), want: compare},
		"created once: an audit":                              {facts: untouched(createdOnce, audited), want: compare},
		"created once: its manifest has just become that":     {facts: untouched(createdOnce, desiredChange), want: compare},
		"created once: no watch covers it for a whole period": {facts: untouched(createdOnce, unwatched, recheckDue), want: compare},
		"created once: no watch covers it, checked recently":  {facts: untouched(createdOnce, unwatched), want: leave},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(decide(tc.facts)).To(Equal(tc.want)) })
	}
}

// repairs simulates repairs at the given seconds and returns the length of the pause after the last one, 0 for none.
func repairs(manager string, seconds ...int) time.Duration {
	var f *repairBackoff
	pause := false
	for _, at := range seconds {
		f, pause = f.repaired(manager, noon.Add(time.Duration(at)*time.Second))
	}
	if !pause {
		return 0
	}
	return f.pause
}

func TestTooManyRepairsCauseAPause(t *testing.T) {
	for name, tc := range map[string]struct {
		seconds []int
		want    time.Duration
	}{
		"two repairs cause no pause":                                  {seconds: []int{0, 1}},
		"the third repair within a minute does":                       {seconds: []int{0, 1, 59}, want: 10 * time.Second},
		"three repairs in more than a minute do not":                  {seconds: []int{0, 30, 61}},
		"the next pause is longer":                                    {seconds: []int{0, 1, 2, 20, 21, 22}, want: 20 * time.Second},
		"no pause is longer than five minutes":                        {seconds: []int{0, 1, 2, 13, 14, 15, 36, 37, 38, 79, 80, 81, 162, 163, 164, 325, 326, 327, 628, 629, 630}, want: 5 * time.Minute},
		"after a long time without repairs, the pause is short again": {seconds: []int{0, 1, 2, 20, 21, 22, 5000, 5001, 5002}, want: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(repairs("kubectl-edit", tc.seconds...)).To(Equal(tc.want)) })
	}
}

func TestRepairsAreCountedPerManager(t *testing.T) {
	g := NewWithT(t)
	var f *repairBackoff
	for _, manager := range []string{"a", "b", "a", "b", "a", "b"} {
		next, pause := f.repaired(manager, noon)
		g.Expect(pause).To(BeFalse())
		f = next
	}
}

func TestAPauseOfRepairsEnds(t *testing.T) {
	g := NewWithT(t)
	f := &repairBackoff{until: noon}
	g.Expect(f.isPaused(noon.Add(-time.Second))).To(BeTrue())
	g.Expect(f.isPaused(noon)).To(BeFalse())
}

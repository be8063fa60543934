package applier

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/apply/observe"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// untouched is an object as we left it: the facts of a set at rest.
func untouched(modify ...func(*facts)) facts {
	f := facts{
		item:      &item{hash: 7, known: knowledge{hash: 7, fingerprint: 9, confirmed: true, looked: noon}},
		seen:      observe.Object{Fingerprint: 9},
		knowledge: observe.Present, unchanged: true, lookAgain: noon.Add(-time.Minute),
	}
	for _, each := range modify {
		each(&f)
	}
	return f
}

func afterRestart(f *facts)  { f.item.known = knowledge{}; f.seen.Raw = &metav1.ObjectMeta{} }
func setChanged(f *facts)    { f.unchanged = false }
func desiredChange(f *facts) { f.item.hash = 8 }
func touched(f *facts)       { f.seen.Fingerprint = 10 }
func absent(f *facts)        { f.knowledge = observe.Absent }
func unwatched(f *facts)     { f.knowledge = observe.Unwatched }
func lookDue(f *facts)       { f.lookAgain = noon.Add(time.Second) }
func audited(f *facts)       { f.item.known.due = look }
func forced(f *facts)        { f.item.known.due = write }
func rawLost(f *facts)       { f.seen.Raw = nil }
func writtenLater(f *facts)  { f.later = true }
func createdOnce(f *facts)   { f.item.unlabelled = true }

func TestDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		facts facts
		want  action
	}{
		"as we left it":                                   {facts: untouched(), want: leave},
		"somebody wrote to it":                            {facts: untouched(touched), want: look},
		"its manifest changed":                            {facts: untouched(desiredChange), want: write},
		"its manifest changed and somebody wrote to it":   {facts: untouched(desiredChange, touched), want: write},
		"it is gone":                                      {facts: untouched(absent), want: create},
		"another object of the set changed":               {facts: untouched(setChanged), want: leave},
		"an audit, or its autoscaler changed":             {facts: untouched(audited), want: look},
		"everything is to be written":                     {facts: untouched(forced), want: write},
		"nobody watches it, and it was seen lately":       {facts: untouched(unwatched), want: leave},
		"nobody watches it for a whole period":            {facts: untouched(unwatched, lookDue), want: look},
		"nobody watches it and its manifest changed":      {facts: untouched(unwatched, desiredChange), want: write},
		"after a restart, the last apply was completed":   {facts: untouched(afterRestart), want: recall},
		"after a restart, the last apply was cut off":     {facts: untouched(afterRestart, setChanged), want: write},
		"after a restart, we wrote it after the status":   {facts: untouched(afterRestart, writtenLater), want: write},
		"after a restart, its first metadata is lost":     {facts: untouched(afterRestart, rawLost), want: look},
		"after a restart, nobody watches it":              {facts: untouched(afterRestart, unwatched), want: look},
		"after a restart, an audit":                       {facts: untouched(afterRestart, audited), want: look},
		"after a restart, it is gone":                     {facts: untouched(afterRestart, absent), want: create},
		"created once: it is there":                       {facts: untouched(createdOnce, touched), want: leave},
		"created once: everything is to be written":       {facts: untouched(createdOnce, forced), want: look},
		"created once: it is gone":                        {facts: untouched(createdOnce, absent), want: create},
		"created once: after a restart":                   {facts: untouched(createdOnce, afterRestart), want: look},
		"created once: an audit":                          {facts: untouched(createdOnce, audited), want: look},
		"created once: its manifest has just become that": {facts: untouched(createdOnce, desiredChange), want: look},
		"created once: nobody watches it, a period over":  {facts: untouched(createdOnce, unwatched, lookDue), want: look},
		"created once: nobody watches it, seen lately":    {facts: untouched(createdOnce, unwatched), want: leave},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(decide(tc.facts)).To(Equal(tc.want)) })
	}
}

// repairs plays repairs at the given seconds and returns the length of the pause that the last one brought, 0 for none.
func repairs(manager string, seconds ...int) time.Duration {
	var f *fight
	pause := false
	for _, at := range seconds {
		f, pause = f.repaired(manager, noon.Add(time.Duration(at)*time.Second))
	}
	if !pause {
		return 0
	}
	return f.pause
}

func TestFight(t *testing.T) {
	for name, tc := range map[string]struct {
		seconds []int
		want    time.Duration
	}{
		"two repairs are no fight":                  {seconds: []int{0, 1}},
		"the third within a minute is":              {seconds: []int{0, 1, 59}, want: 10 * time.Second},
		"three in more than a minute are none":      {seconds: []int{0, 30, 61}},
		"the next fight pauses longer":              {seconds: []int{0, 1, 2, 20, 21, 22}, want: 20 * time.Second},
		"but never longer than five minutes":        {seconds: []int{0, 1, 2, 13, 14, 15, 36, 37, 38, 79, 80, 81, 162, 163, 164, 325, 326, 327, 628, 629, 630}, want: 5 * time.Minute},
		"after a long peace it begins from scratch": {seconds: []int{0, 1, 2, 20, 21, 22, 5000, 5001, 5002}, want: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(repairs("kubectl-edit", tc.seconds...)).To(Equal(tc.want)) })
	}
}

func TestFightsAgainstDifferentManagersAreCountedApart(t *testing.T) {
	g := NewWithT(t)
	var f *fight
	for _, manager := range []string{"a", "b", "a", "b", "a", "b"} {
		next, pause := f.repaired(manager, noon)
		g.Expect(pause).To(BeFalse())
		f = next
	}
}

func TestAPauseEnds(t *testing.T) {
	g := NewWithT(t)
	f := &fight{until: noon}
	g.Expect(f.pausing(noon.Add(-time.Second))).To(BeTrue())
	g.Expect(f.pausing(noon)).To(BeFalse())
}

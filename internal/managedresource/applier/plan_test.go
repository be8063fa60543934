package applier

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// untouched returns the facts about an object in its desired state.
func untouched(modify ...func(*facts)) facts {
	f := facts{
		item:      &item{Item: &desired.Item{Hash: 7}, known: knowledge{hash: 7, fingerprint: 9, confirmed: true, checkedAt: noon}},
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
func desiredChange(f *facts) { f.item.Hash = 8 }
func touched(f *facts)       { f.seen.Fingerprint = 10 }
func absent(f *facts)        { f.knowledge = observe.Absent }
func unwatched(f *facts)     { f.knowledge = observe.Unwatched }
func recheckDue(f *facts)    { f.recheckBefore = noon.Add(time.Second) }
func audited(f *facts)       { f.item.known.due = compare }
func forced(f *facts)        { f.item.known.due = write }
func rawLost(f *facts)       { f.seen.FirstMetadata = nil }
func writtenLater(f *facts)  { f.writtenLater = true }
func createdOnce(f *facts)   { f.item.Unlabelled = true }

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

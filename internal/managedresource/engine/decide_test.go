package engine

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
func untouched(modify ...func(*Facts)) Facts {
	f := Facts{
		Item:     &desired.Item{Hash: 7},
		Known:    Knowledge{Hash: 7, Fingerprint: 9, Confirmed: true, CheckedAt: noon},
		Seen:     observe.Object{Fingerprint: 9},
		Presence: observe.Present, Unchanged: true, RecheckBefore: noon.Add(-time.Minute),
	}
	for _, each := range modify {
		each(&f)
	}
	return f
}

func afterRestart(f *Facts)  { f.Known = Knowledge{}; f.Seen.FirstMetadata = &metav1.ObjectMeta{} }
func setChanged(f *Facts)    { f.Unchanged = false }
func desiredChange(f *Facts) { f.Item.Hash = 8 }
func touched(f *Facts)       { f.Seen.Fingerprint = 10 }
func absent(f *Facts)        { f.Presence = observe.Absent }
func unwatched(f *Facts)     { f.Presence = observe.Unwatched }
func recheckDue(f *Facts)    { f.RecheckBefore = noon.Add(time.Second) }
func audited(f *Facts)       { f.Known.Due = Compare }
func forced(f *Facts)        { f.Known.Due = Write }
func rawLost(f *Facts)       { f.Seen.FirstMetadata = nil }
func writtenLater(f *Facts)  { f.WrittenLater = true }
func createdOnce(f *Facts)   { f.Item.Unlabelled = true }
func expiring(f *Facts)      { f.Item.Expires = true }
func finished(f *Facts)      { f.Finished = true }
func requested(f *Facts)     { f.Known.Rerun = true }

func TestDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		facts Facts
		want  Action
	}{
		"in its desired state":                                {facts: untouched(), want: Leave},
		"another client wrote to it":                          {facts: untouched(touched), want: Compare},
		"its manifest changed":                                {facts: untouched(desiredChange), want: Write},
		"its manifest changed and another client wrote to it": {facts: untouched(desiredChange, touched), want: Write},
		"it is gone":                                          {facts: untouched(absent), want: Create},
		"it is gone after it has finished":                    {facts: untouched(absent, expiring, finished), want: Leave},
		"the same, and everything is to be written":           {facts: untouched(absent, expiring, finished, forced), want: Leave},
		"the same, and its manifest changed":                  {facts: untouched(absent, expiring, finished, desiredChange), want: Create},
		"the same, and the user requests it again":            {facts: untouched(absent, expiring, finished, requested), want: Create},
		"it is gone before it has finished":                   {facts: untouched(absent, expiring), want: Create},
		"it is gone after a restart, and expires":             {facts: untouched(absent, expiring, afterRestart), want: Leave},
		"the same after an apply that was cut off":            {facts: untouched(absent, expiring, afterRestart, setChanged), want: Create},
		"another object of the set changed":                   {facts: untouched(setChanged), want: Leave},
		"an audit, or its autoscaler changed":                 {facts: untouched(audited), want: Compare},
		"everything is to be written":                         {facts: untouched(forced), want: Write},
		"no watch covers it, and it was checked recently":     {facts: untouched(unwatched), want: Leave},
		"no watch covers it for a whole period":               {facts: untouched(unwatched, recheckDue), want: Compare},
		"no watch covers it and its manifest changed":         {facts: untouched(unwatched, desiredChange), want: Write},
		"after a restart, the last apply was completed":       {facts: untouched(afterRestart), want: Verify},
		"after a restart, the last apply was cut off":         {facts: untouched(afterRestart, setChanged), want: Write},
		"after a restart, we wrote it after the status":       {facts: untouched(afterRestart, writtenLater), want: Write},
		"after a restart, its first metadata is lost":         {facts: untouched(afterRestart, rawLost), want: Compare},
		"after a restart, no watch covers it":                 {facts: untouched(afterRestart, unwatched), want: Compare},
		"after a restart, an audit":                           {facts: untouched(afterRestart, audited), want: Compare},
		"after a restart, it is gone":                         {facts: untouched(afterRestart, absent), want: Create},
		"created once: it is there":                           {facts: untouched(createdOnce, touched), want: Leave},
		"created once: everything is to be written":           {facts: untouched(createdOnce, forced), want: Compare},
		"created once: it is gone":                            {facts: untouched(createdOnce, absent), want: Create},
		"created once: after a restart":                       {facts: untouched(createdOnce, afterRestart), want: Compare},
		"created once: an audit":                              {facts: untouched(createdOnce, audited), want: Compare},
		"created once: its manifest has just become that":     {facts: untouched(createdOnce, desiredChange), want: Compare},
		"created once: no watch covers it for a whole period": {facts: untouched(createdOnce, unwatched, recheckDue), want: Compare},
		"created once: no watch covers it, checked recently":  {facts: untouched(createdOnce, unwatched), want: Leave},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(Decide(tc.facts)).To(Equal(tc.want)) })
	}
}

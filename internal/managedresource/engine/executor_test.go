package engine

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/repair"
)

func TestRepairsAreCountedBeyondTheEndOfAnObject(t *testing.T) {
	g := NewWithT(t)
	var none *repair.Backoff
	backoff, _ := none.Repaired("kubectl-edit", noon)
	known := Knowledge{Backoff: backoff}
	(&Executor{Now: noon, Watcher: observe.New(t.Context(), observe.Options{}).As("")}).RecordEnd(untouched(), &known)
	g.Expect(known).To(Equal(Knowledge{Hash: 7, Confirmed: true, CheckedAt: noon, Backoff: backoff}))
}

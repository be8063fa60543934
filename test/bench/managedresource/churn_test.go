package managedresource

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestLivesBeginOneAfterTheOther(t *testing.T) {
	g := NewWithT(t)
	lives := map[int][]life{}
	there := map[int]bool{}
	fewest, most := 100, 0
	for n := range 8 * 12 * 4 {
		set, next := lifeOf(n, 12)
		lives[set] = append(lives[set], next)
		if next == created {
			g.Expect(there[set]).To(BeFalse(), "set %d is created when it is not there", set)
			there[set] = true
		}
		if next == changed || next == changedBack || next == deleted {
			g.Expect(there[set]).To(BeTrue(), "set %d is there", set)
			there[set] = next != deleted
		}
		if n >= 4*12 {
			number := 0
			for _, is := range there {
				if is {
					number++
				}
			}
			fewest, most = min(fewest, number), max(most, number)
		}
	}
	g.Expect(lives[0][:5]).To(Equal([]life{created, changed, changedBack, deleted, created}))
	g.Expect(lives[7][:5]).To(Equal([]life{-3, -2, -1, created, changed})) // negative: it does not exist yet
	g.Expect([]int{fewest, most}).To(Equal([]int{8, 10}))
}

func TestPassingKinds(t *testing.T) {
	g := NewWithT(t)
	all := passingKind(3)
	g.Expect(all).To(HaveLen(4))
	g.Expect(all[0].GetName()).To(Equal("things3.soak.example.com"))
	for _, each := range all[1:] {
		g.Expect(each.GetAPIVersion() + " " + each.GetKind()).To(Equal("soak.example.com/v1 Thing3"))
		g.Expect(each.GetNamespace()).To(Equal("bench-ours-000"))
	}
}

package memory_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/project/memory"
)

type value struct {
	count int
	words []string
}

func TestByNameStoresOnlyWhatIsNotZero(t *testing.T) {
	g := NewWithT(t)
	m := &memory.ByName[value]{}
	all := func(value) bool { return true }
	m.Change("a", func(v *value) { g.Expect(*v).To(Equal(value{})) })
	g.Expect(m.Names(all)).To(BeEmpty())
	m.Change("a", func(v *value) { v.count++ })
	m.Change("b", func(v *value) { v.words = []string{"x"} })
	g.Expect(m.Names(all)).To(ConsistOf("a", "b"))
	g.Expect(m.Names(func(v value) bool { return v.count > 0 })).To(ConsistOf("a"))
	m.Change("a", func(v *value) {
		g.Expect(v.count).To(Equal(1))
		v.count--
	})
	m.Forget("b")
	g.Expect(m.Names(all)).To(BeEmpty())
}

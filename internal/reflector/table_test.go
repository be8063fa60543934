package reflector

import (
	"maps"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

// The race detector fails this test if a lock is missing.
func TestTableMayBeReadWhileEventsArrive(t *testing.T) {
	g := NewWithT(t)
	key := types.NamespacedName{Name: "a"}
	table := &Table[int]{
		Changed: func(types.NamespacedName, *int, *int) {}, Listed: func(map[types.NamespacedName]int) {},
	}
	var group sync.WaitGroup
	for _, work := range []func(){
		func() { table.Set(key, 1) },
		func() { table.Delete(key, "2") },
		func() { table.Replace(map[types.NamespacedName]int{key: 3}, "3") },
		func() { table.Get(key) },
		func() { _ = maps.Collect(table.All()) },
	} {
		group.Go(func() {
			for range 100 {
				work()
			}
		})
	}
	group.Wait()
	table.Replace(map[types.NamespacedName]int{key: 3}, "3")
	value, found := table.Get(key)
	g.Expect(found).To(BeTrue())
	g.Expect(value).To(Equal(3))
}

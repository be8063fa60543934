package roles

import (
	"fmt"
	"runtime"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// A cache of all RBAC objects of 5,000 Projects, which are 55,000 objects, needs less than 32 MiB.
func TestTheCacheIsSmall(t *testing.T) {
	g := NewWithT(t)
	before := heap()
	kept := map[string]client.Object{}
	for i := range 5000 {
		p := &corev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i), UID: types.UID(fmt.Sprintf("%036d", i))}}
		p.Spec.Owner = ptr.To(user("owner@example.com"))
		objects, _ := Desired(p, []corev1beta1.ProjectMember{member(user("member@example.com"), "viewer")}, "garden-"+p.Name)
		for j, each := range objects {
			each.SetCreationTimestamp(metav1.Unix(1, 0))
			each.SetUID(types.UID(fmt.Sprintf("%033d-%02d", i, j)))
			each.SetResourceVersion(fmt.Sprintf("%07d", i))
			each.SetAnnotations(map[string]string{"some": "thing"})
			each.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "x"}})
			kept[fmt.Sprintf("%T %s/%s", each, each.GetNamespace(), each.GetName())] = cached(t, each)
		}
	}
	used := heap() - before
	g.Expect(kept).To(HaveLen(55_000))
	t.Logf("%d KiB", used/1024)
	g.Expect(used).To(BeNumerically("<", 32<<20))
	runtime.KeepAlive(kept)
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

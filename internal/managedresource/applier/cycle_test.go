package applier

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// ring is a cache with sets that depend on each other: each on the next one, and the last one on the first.
type ring struct {
	client.Client

	length, reads int
}

func (r *ring) set(number int) *resourcesv1alpha1.ManagedResource {
	return &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: fmt.Sprintf("set-%d", number),
		Annotations: map[string]string{resourcesv1alpha1.DependsOn: fmt.Sprintf("set-%d", (number+1)%r.length)},
	}}
}

// Get implements client.Reader.
func (r *ring) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	r.reads++
	number := 0
	mr, isSet := object.(*resourcesv1alpha1.ManagedResource)
	if _, err := fmt.Sscanf(key.Name, "set-%d", &number); err != nil || !isSet {
		return fmt.Errorf("read %s: %w", key, err)
	}
	r.set(number).DeepCopyInto(mr)
	return nil
}

func TestTheSearchForACycleIsBounded(t *testing.T) {
	for length, found := range map[int]bool{1: true, 2: true, maxSearched: true, maxSearched + 2: false, 5 * maxSearched: false} {
		t.Run(fmt.Sprintf("%d sets", length), func(t *testing.T) {
			g, cache := NewWithT(t), &ring{length: length}
			cycle := (&Planner{Source: cache}).dependencyCycle(t.Context(), cache.set(0))
			g.Expect(cache.reads).To(BeNumerically("<=", maxSearched))
			if !found {
				g.Expect(cycle).To(BeNil())
				return
			}
			g.Expect(cycle).To(HaveLen(length + 1))
			g.Expect([]string{cycle[0], cycle[length]}).To(Equal([]string{"shop/set-0", "shop/set-0"}))
		})
	}
}

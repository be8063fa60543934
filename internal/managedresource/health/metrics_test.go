package health

import (
	"context"
	"maps"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Every combination has a series from the start, so that alerts and dashboards see zeros instead of missing values.
func TestTally(t *testing.T) {
	zeros := func(changes map[tallied]int) map[tallied]int {
		all := map[tallied]int{}
		for _, condition := range []string{"applied", "healthy", "progressing"} {
			for _, status := range []string{"true", "false", "unknown", "progressing"} {
				all[tallied{condition, status}] = 0
			}
		}
		maps.Copy(all, changes)
		return all
	}
	rolling := *condition("ResourcesProgressing", "True", "")
	foreign := *condition("ResourcesHealthy", "True", "")
	foreign.Name = "foreign"
	with := func(mr resourcesv1alpha1.ManagedResource, annotation, value string) resourcesv1alpha1.ManagedResource {
		mr.Annotations = map[string]string{annotation: value}
		return mr
	}
	for name, tc := range map[string]struct {
		sets []resourcesv1alpha1.ManagedResource
		want map[tallied]int
	}{
		"no sets": {want: zeros(nil)},
		"a set without conditions is unknown in every respect": {
			sets: []resourcesv1alpha1.ManagedResource{{}},
			want: zeros(map[tallied]int{{"applied", "unknown"}: 1, {"healthy", "unknown"}: 1, {"progressing", "unknown"}: 1}),
		},
		"sets that are held from their first moment do not count": {
			sets: []resourcesv1alpha1.ManagedResource{
				with(resourcesv1alpha1.ManagedResource{}, "espalier.dev/plan", "true"),
				with(resourcesv1alpha1.ManagedResource{}, "gardener.cloud/operation", "wait-for-state"),
			},
			want: zeros(nil),
		},
		"a set that is held later counts as it was judged": {
			sets: []resourcesv1alpha1.ManagedResource{with(*condition("ResourcesHealthy", "False", ""), "espalier.dev/plan", "true")},
			want: zeros(map[tallied]int{{"healthy", "false"}: 1}),
		},
		"a set that is not to be planned counts": {
			sets: []resourcesv1alpha1.ManagedResource{with(resourcesv1alpha1.ManagedResource{}, "espalier.dev/plan", "false")},
			want: zeros(map[tallied]int{{"applied", "unknown"}: 1, {"healthy", "unknown"}: 1, {"progressing", "unknown"}: 1}),
		},
		"sets with one condition each": {
			sets: []resourcesv1alpha1.ManagedResource{
				*condition("ResourcesApplied", "Progressing", ""), *condition("ResourcesHealthy", "False", ""),
				rolling, rolling,
			},
			want: zeros(map[tallied]int{
				{"applied", "progressing"}: 1, {"applied", "unknown"}: 3, {"healthy", "false"}: 1, {"healthy", "unknown"}: 3,
				{"progressing", "true"}: 2, {"progressing", "unknown"}: 2,
			}),
		},
		"a status that conditions cannot have is unknown": {
			sets: []resourcesv1alpha1.ManagedResource{*condition("ResourcesHealthy", "Maybe", "")},
			want: zeros(map[tallied]int{{"applied", "unknown"}: 1, {"healthy", "unknown"}: 1, {"progressing", "unknown"}: 1}),
		},
		"a set of another class does not count": {sets: []resourcesv1alpha1.ManagedResource{foreign}, want: zeros(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			got := tally(tc.sets, func(mr *resourcesv1alpha1.ManagedResource) bool { return mr.Name != "foreign" })
			NewWithT(t).Expect(got).To(Equal(tc.want))
		})
	}
}

// unsynced is a cache that has not synced: its lists block.
type unsynced struct{ client.Reader }

func (unsynced) List(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestACacheThatHasNotSyncedDoesNotHoldUpMetrics(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	NewMetrics(registry, unsynced{}, nil)
	gathered := make(chan error)
	go func() {
		_, err := registry.Gather()
		gathered <- err
	}()
	g.Eventually(gathered).WithTimeout(30 * time.Second).Should(Receive(BeNil()))
}

package observe

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/espalier-dev/espalier/internal/health"
)

// shelf is a store without an API server: a test plays the reflector.
type shelf struct {
	*WithT
	store *store
	told  []string
}

// newShelf makes a store of metadata, or one of pods that are sick unless they run.
func newShelf(t *testing.T, whole bool) *shelf {
	t.Helper()
	s := &shelf{WithT: NewWithT(t)}
	s.store = newStore(
		func(_, name string) { s.told = append(s.told, "changed "+name) },
		func(_, name string) { s.told = append(s.told, "judged "+name) },
	)
	if whole {
		s.store.judge = func(object runtime.Object) *health.Verdict {
			if sick, ok := object.(*corev1.Pod); ok && sick.Status.Phase != corev1.PodRunning {
				return &health.Verdict{Checked: true, Unhealthy: string(sick.Status.Phase)}
			}
			return nil
		}
	}
	return s
}

// heard returns what was told since the last call, in any order.
func (s *shelf) heard() []string {
	told := s.told
	s.told = nil
	slices.Sort(told)
	return told
}

func (s *shelf) list(version string, objects ...any) {
	s.Expect(s.store.Replace(objects, version)).To(Succeed())
}
func (s *shelf) see(object any)  { s.Expect(s.store.Update(object)).To(Succeed()) }
func (s *shelf) lose(object any) { s.Expect(s.store.Delete(object)).To(Succeed()) }

// look returns whether an object is there, whether its verdict is known, and what it is.
func (s *shelf) look(name string) [3]any {
	object, found := s.store.lookup(types.NamespacedName{Namespace: "shop", Name: name})
	if object.Verdict == nil {
		return [3]any{found, !object.Unjudged, ""}
	}
	return [3]any{found, !object.Unjudged, object.Verdict.Unhealthy}
}

func whole(name, version string, phase corev1.PodPhase, generation ...int64) *corev1.Pod {
	object := &corev1.Pod{ObjectMeta: metaOf(name, version, generation...)}
	object.Status.Phase = phase
	return object
}

func metaOf(name, version string, generation ...int64) metav1.ObjectMeta {
	object := metav1.ObjectMeta{
		Namespace: "shop", Name: name, ResourceVersion: version, UID: types.UID(name),
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "somebody", Operation: "Update"}, {Manager: "kubelet", Operation: "Update", Subresource: "status"}},
	}
	for _, each := range generation {
		object.Generation = each
	}
	return object
}

func slim(name, version string, generation ...int64) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metaOf(name, version, generation...)}
}

// wrote plays our own write.
func (s *shelf) wrote(object metav1.Object) {
	s.store.note(types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}, s.store.answered(object))
}

func TestVerdictsOfWholeObjects(t *testing.T) {
	s := newShelf(t, true)
	s.list("10", whole("p", "5", "Pending"))
	s.Expect(s.heard()).To(BeEmpty(), "the first listing is waited for")
	s.Expect(s.look("p")).To(Equal([3]any{true, true, "Pending"}))
	s.see(whole("p", "11", "Pending"))
	s.Expect(s.heard()).To(BeEmpty(), "it says the same")
	s.see(whole("p", "12", "Failed"))
	s.Expect(s.heard()).To(Equal([]string{"judged p"}), "it is sick in another way")
	s.see(whole("p", "13", "Running"))
	s.Expect(s.heard()).To(Equal([]string{"judged p"}))
	s.Expect(s.look("p")).To(Equal([3]any{true, true, ""}))
	s.see(whole("p", "14", "Running", 2))
	s.Expect(s.heard()).To(Equal([]string{"changed p"}), "somebody wrote to it")
	s.see(whole("q", "15", "Running"))
	s.Expect(s.heard()).To(Equal([]string{"changed q", "judged q"}), "a new one")
	s.lose(whole("q", "16", "Running"))
	s.Expect(s.heard()).To(Equal([]string{"changed q", "judged q"}))
	s.Expect(s.look("q")).To(Equal([3]any{false, true, ""}))
	s.lose(cache.DeletedFinalStateUnknown{Key: "shop/p", Obj: whole("p", "17", "Running")})
	s.Expect(s.heard()).To(Equal([]string{"changed p", "judged p"}))
}

// Between our write and its echo nothing is known of the object's health, whatever arrives from before.
func TestAVerdictFromBeforeOurWriteDoesNotCount(t *testing.T) {
	s := newShelf(t, true)
	s.list("10", whole("p", "5", "Running"))
	s.wrote(slim("p", "20", 2))
	s.Expect(s.look("p")).To(Equal([3]any{true, false, ""}))
	s.see(whole("p", "15", "Failed"))
	s.Expect(s.heard()).To(BeEmpty())
	s.Expect(s.look("p")).To(Equal([3]any{true, false, ""}))
	s.wrote(slim("p", "21", 2))
	s.see(whole("p", "20", "Failed", 2))
	s.Expect(s.look("p")).To(Equal([3]any{true, false, ""}), "the echo of the write before")
	s.see(whole("p", "21", "Running", 2))
	s.Expect(s.heard()).To(Equal([]string{"judged p"}), "the echo is no change, but it is a verdict")
	s.Expect(s.look("p")).To(Equal([3]any{true, true, ""}))
	s.wrote(slim("p", "19", 2))
	s.Expect(s.look("p")).To(Equal([3]any{true, true, ""}), "a write that the watch is past is no news")
}

// The answer to a write may be the whole object. Then its health is known before the echo.
func TestAWholeAnswerToOurOwnWriteBringsAVerdict(t *testing.T) {
	s := newShelf(t, true)
	s.list("10")
	s.wrote(whole("p", "20", "Failed"))
	s.Expect(s.look("p")).To(Equal([3]any{true, true, "Failed"}))
	s.see(whole("p", "20", "Failed"))
	s.Expect(s.heard()).To(BeEmpty(), "the echo brings nothing new")
	s.see(whole("p", "21", "Running"))
	s.Expect(s.heard()).To(Equal([]string{"judged p"}))
}

func TestANewListingTellsOfVerdicts(t *testing.T) {
	s := newShelf(t, true)
	s.list("10", whole("same", "1", "Pending"), whole("gone", "1", "Running"), whole("better", "1", "Pending"), whole("written", "1", "Running"))
	s.wrote(slim("late", "30"))
	s.wrote(slim("written", "11"))
	s.list("20", whole("same", "15", "Pending"), whole("better", "15", "Running"), whole("new", "15", "Running"), whole("written", "11", "Running"))
	s.Expect(s.heard()).To(Equal([]string{"changed gone", "changed new", "judged better", "judged gone", "judged new", "judged written"}))
	s.Expect(s.look("late")).To(Equal([3]any{true, false, ""}), "written after the listing was made")
	s.Expect(s.look("written")).To(Equal([3]any{true, true, ""}))
}

// A cluster that was restored from a backup lists older versions than the watch has told.
func TestAListingOfARestoredClusterCountsAsAWhole(t *testing.T) {
	s := newShelf(t, false)
	s.list("10", slim("same", "1"), slim("edited", "5", 1), slim("gone", "9"))
	s.see(slim("edited", "20", 2))
	s.see(slim("gone", "21"))
	s.wrote(slim("written", "30"))
	s.heard()
	s.list("15", slim("same", "1"), slim("edited", "5", 1))
	s.Expect(s.heard()).To(Equal([]string{"changed edited", "changed gone", "changed written", "judged gone", "judged written"}))
	s.see(slim("edited", "16", 3))
	s.Expect(s.heard()).To(Equal([]string{"changed edited"}), "its versions are lower than before")
	s.wrote(slim("written", "17"))
	s.Expect(s.look("written")).To(Equal([3]any{true, false, ""}))
}

func TestMetadataSaysNothingOfHealth(t *testing.T) {
	s := newShelf(t, false)
	s.list("10", slim("c", "5"))
	s.Expect(s.look("c")).To(Equal([3]any{true, false, ""}))
	s.see(slim("c", "11"))
	s.wrote(slim("c", "12"))
	s.see(slim("c", "12"))
	s.list("20", slim("c", "12"))
	s.Expect(s.heard()).To(BeEmpty())
	s.see(slim("c", "21", 2))
	s.Expect(s.heard()).To(Equal([]string{"changed c"}))
	s.lose(slim("c", "22"))
	s.Expect(s.heard()).To(Equal([]string{"changed c", "judged c"}))
	s.Expect(s.store.Update(whole("p", "23", "Running"))).To(MatchError(ContainSubstring("unexpected type *v1.Pod")))
}

// A watch that takes the place of another misses nothing, and brings the verdicts that the other could not.
func TestAnHeirTellsOfAllThatChangedMeanwhile(t *testing.T) {
	before := newShelf(t, false)
	before.list("10", slim("sick", "1"), slim("well", "1"), slim("gone", "1"), slim("edited", "1"))
	s := newShelf(t, true)
	s.store.inherit(before.store)
	s.list("20", whole("sick", "1", "Pending"), whole("well", "1", "Running"), whole("edited", "15", "Running", 2), whole("new", "15", "Running"))
	s.Expect(s.heard()).To(Equal([]string{
		"changed edited", "changed gone", "changed new",
		"judged edited", "judged gone", "judged new", "judged sick", "judged well",
	}))
	s.Expect(s.look("sick")).To(Equal([3]any{true, true, "Pending"}))
	s.Expect(before.look("gone")).To(Equal([3]any{true, false, ""}), "the other store is left alone")
}

// Whoever went on without the first listing knows nothing of what it brings.
func TestAFirstListingThatNobodyWaitedForIsNews(t *testing.T) {
	s := newShelf(t, true)
	s.store.giveUp()
	s.list("10", whole("p", "5", "Pending"))
	s.Expect(s.heard()).To(Equal([]string{"changed p", "judged p"}))
	s.Expect(s.store.synced).To(BeClosed())
	s.list("11", whole("p", "5", "Pending"))
	s.Expect(s.heard()).To(BeEmpty())
}

// What is kept of a whole object is what is kept of its metadata, and the verdict.
func TestAWholeObjectIsReducedOnArrival(t *testing.T) {
	s := newShelf(t, true)
	object := whole("p", "5", "Pending", 3)
	object.Spec.NodeName = "large"
	object.OwnerReferences = []metav1.OwnerReference{{Name: "large"}}
	reduced, err := s.store.Transformer()(object)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(reduced).To(Equal(&sighting{
		PartialObjectMetadata: metav1.PartialObjectMetadata{ObjectMeta: metaOf("p", "5", 3)},
		verdict:               &health.Verdict{Checked: true, Unhealthy: "Pending"},
	}))
	again, err := s.store.Transformer()(reduced)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(again).To(BeIdenticalTo(reduced))
}

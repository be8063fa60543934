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
	"github.com/espalier-dev/espalier/internal/reflector"
)

// storeFixture is a store without an API server. The test passes objects to it as the reflector would.
type storeFixture struct {
	*WithT
	store    *store
	reported []string
}

// newStoreFixture returns a store of metadata, or of whole pods that are unhealthy unless they run.
func newStoreFixture(t *testing.T, whole bool) *storeFixture {
	t.Helper()
	s := &storeFixture{WithT: NewWithT(t)}
	s.store = newStore(
		func(_, name string) { s.reported = append(s.reported, "changed "+name) },
		func(_, name string) { s.reported = append(s.reported, "judged "+name) },
	)
	if whole {
		s.store.verdictOf = func(object runtime.Object) *health.Verdict {
			if sick, ok := object.(*corev1.Pod); ok && sick.Status.Phase != corev1.PodRunning {
				return &health.Verdict{Checked: true, Unhealthy: string(sick.Status.Phase)}
			}
			return nil
		}
	}
	return s
}

// takeReports returns the calls of onChange and onVerdict since the last call of takeReports, sorted.
func (s *storeFixture) takeReports() []string {
	reported := s.reported
	s.reported = nil
	slices.Sort(reported)
	return reported
}

// fill returns the store through which a Reflector of client-go writes to the tested one.
func (s *storeFixture) fill() cache.ReflectorStore { return reflector.NewStore(s.store.keep, s.store) }

func (s *storeFixture) list(version string, objects ...any) {
	s.Expect(s.fill().Replace(objects, version)).To(Succeed())
}
func (s *storeFixture) update(object any) { s.Expect(s.fill().Update(object)).To(Succeed()) }
func (s *storeFixture) delete(object any) { s.Expect(s.fill().Delete(object)).To(Succeed()) }

// state returns whether an object is stored, whether its verdict is unknown, and its verdict.
func (s *storeFixture) state(name string) [3]any {
	object, found := s.store.lookup(types.NamespacedName{Namespace: "shop", Name: name})
	if object.Verdict == nil {
		return [3]any{found, !object.VerdictUnknown, ""}
	}
	return [3]any{found, !object.VerdictUnknown, object.Verdict.Unhealthy}
}

func wholePod(name, version string, phase corev1.PodPhase, generation ...int64) *corev1.Pod {
	object := &corev1.Pod{ObjectMeta: metaOf(name, version, generation...)}
	object.Status.Phase = phase
	return object
}

func metaOf(name, version string, generation ...int64) metav1.ObjectMeta {
	object := metav1.ObjectMeta{
		Namespace: "shop", Name: name, ResourceVersion: version, UID: types.UID(name),
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "another-client", Operation: "Update"}, {Manager: "kubelet", Operation: "Update", Subresource: "status"},
		},
	}
	for _, each := range generation {
		object.Generation = each
	}
	return object
}

func metadataObject(name, version string, generation ...int64) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metaOf(name, version, generation...)}
}

// recordOwnWrite records the result of a write of the controller.
func (s *storeFixture) recordOwnWrite(object metav1.Object) {
	s.store.recordOwnWrite(types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}, s.store.condenseAnswer(object))
}

func TestVerdictsOfWholeObjects(t *testing.T) {
	s := newStoreFixture(t, true)
	s.list("10", wholePod("p", "5", "Pending"))
	s.Expect(s.takeReports()).To(BeEmpty(), "the first listing is waited for")
	s.Expect(s.state("p")).To(Equal([3]any{true, true, "Pending"}))
	s.update(wholePod("p", "11", "Pending"))
	s.Expect(s.takeReports()).To(BeEmpty(), "it says the same")
	s.update(wholePod("p", "12", "Failed"))
	s.Expect(s.takeReports()).To(Equal([]string{"judged p"}), "it is sick in another way")
	s.update(wholePod("p", "13", "Running"))
	s.Expect(s.takeReports()).To(Equal([]string{"judged p"}))
	s.Expect(s.state("p")).To(Equal([3]any{true, true, ""}))
	s.update(wholePod("p", "14", "Running", 2))
	s.Expect(s.takeReports()).To(Equal([]string{"changed p"}), "another client wrote to it")
	s.update(wholePod("q", "15", "Running"))
	s.Expect(s.takeReports()).To(Equal([]string{"changed q", "judged q"}), "a new one")
	s.delete(wholePod("q", "16", "Running"))
	s.Expect(s.takeReports()).To(Equal([]string{"changed q", "judged q"}))
	s.Expect(s.state("q")).To(Equal([3]any{false, true, ""}))
	s.delete(cache.DeletedFinalStateUnknown{Key: "shop/p", Obj: wholePod("p", "17", "Running")})
	s.Expect(s.takeReports()).To(Equal([]string{"changed p", "judged p"}))
}

// Between a write of Espalier and its event, the object's health is unknown, even if older events arrive.
func TestVerdictFromBeforeOurWriteIsIgnored(t *testing.T) {
	s := newStoreFixture(t, true)
	s.list("10", wholePod("p", "5", "Running"))
	s.recordOwnWrite(metadataObject("p", "20", 2))
	s.Expect(s.state("p")).To(Equal([3]any{true, false, ""}))
	s.update(wholePod("p", "15", "Failed"))
	s.Expect(s.takeReports()).To(BeEmpty())
	s.Expect(s.state("p")).To(Equal([3]any{true, false, ""}))
	s.recordOwnWrite(metadataObject("p", "21", 2))
	s.update(wholePod("p", "20", "Failed", 2))
	s.Expect(s.state("p")).To(Equal([3]any{true, false, ""}), "the echo of the write before")
	s.update(wholePod("p", "21", "Running", 2))
	s.Expect(s.takeReports()).To(Equal([]string{"judged p"}), "the echo is no change, but it is a verdict")
	s.Expect(s.state("p")).To(Equal([3]any{true, true, ""}))
	s.recordOwnWrite(metadataObject("p", "19", 2))
	s.Expect(s.state("p")).To(Equal([3]any{true, true, ""}), "a write that the watch is past is no news")
}

// When another set takes over an object, the change is reported at once, for the set that had the object.
func TestAnOwnWriteThatChangesTheOriginIsAChange(t *testing.T) {
	s := newStoreFixture(t, true)
	withOrigin := func(version, origin string) *metav1.PartialObjectMetadata {
		object := metadataObject("p", version)
		object.Annotations = map[string]string{"resources.gardener.cloud/origin": origin}
		return object
	}
	s.list("10", metadataObject("p", "5"))
	s.recordOwnWrite(withOrigin("20", "shop/first"))
	s.Expect(s.takeReports()).To(BeEmpty(), "no set had it")
	s.recordOwnWrite(withOrigin("21", "shop/first"))
	s.Expect(s.takeReports()).To(BeEmpty())
	s.recordOwnWrite(withOrigin("22", "shop/second"))
	s.Expect(s.takeReports()).To(Equal([]string{"changed p"}))
}

// The answer to a write may be the whole object. Then its health is known before the event about the write arrives.
func TestWholeObjectInTheAnswerToOurWriteHasAVerdict(t *testing.T) {
	s := newStoreFixture(t, true)
	s.list("10")
	s.recordOwnWrite(wholePod("p", "20", "Failed"))
	s.Expect(s.state("p")).To(Equal([3]any{true, true, "Failed"}))
	s.update(wholePod("p", "20", "Failed"))
	s.Expect(s.takeReports()).To(BeEmpty(), "the echo brings nothing new")
	s.update(wholePod("p", "21", "Running"))
	s.Expect(s.takeReports()).To(Equal([]string{"judged p"}))
}

func TestNewListingReportsVerdicts(t *testing.T) {
	s := newStoreFixture(t, true)
	s.list("10", wholePod("same", "1", "Pending"), wholePod("gone", "1", "Running"), wholePod("better", "1", "Pending"),
		wholePod("written", "1", "Running"))
	s.recordOwnWrite(metadataObject("late", "30"))
	s.recordOwnWrite(metadataObject("written", "11"))
	s.list("20", wholePod("same", "15", "Pending"), wholePod("better", "15", "Running"), wholePod("new", "15", "Running"),
		wholePod("written", "11", "Running"))
	s.Expect(s.takeReports()).
		To(Equal([]string{"changed gone", "changed new", "judged better", "judged gone", "judged new", "judged written"}))
	s.Expect(s.state("late")).To(Equal([3]any{true, false, ""}), "written after the listing was made")
	s.Expect(s.state("written")).To(Equal([3]any{true, true, ""}))
}

// A cluster that was restored from a backup lists older versions than the watch has reported.
func TestListingOfARestoredClusterReplacesAllObjects(t *testing.T) {
	s := newStoreFixture(t, false)
	s.list("10", metadataObject("same", "1"), metadataObject("edited", "5", 1), metadataObject("gone", "9"))
	s.update(metadataObject("edited", "20", 2))
	s.update(metadataObject("gone", "21"))
	s.recordOwnWrite(metadataObject("written", "30"))
	s.takeReports()
	s.list("15", metadataObject("same", "1"), metadataObject("edited", "5", 1))
	s.Expect(s.takeReports()).To(Equal([]string{"changed edited", "changed gone", "changed written", "judged gone", "judged written"}))
	s.update(metadataObject("edited", "16", 3))
	s.Expect(s.takeReports()).To(Equal([]string{"changed edited"}), "its versions are lower than before")
	s.recordOwnWrite(metadataObject("written", "17"))
	s.Expect(s.state("written")).To(Equal([3]any{true, false, ""}))
}

func TestVerdictIsUnknownFromMetadataAlone(t *testing.T) {
	s := newStoreFixture(t, false)
	s.list("10", metadataObject("c", "5"))
	s.Expect(s.state("c")).To(Equal([3]any{true, false, ""}))
	s.update(metadataObject("c", "11"))
	s.recordOwnWrite(metadataObject("c", "12"))
	s.update(metadataObject("c", "12"))
	s.list("20", metadataObject("c", "12"))
	s.Expect(s.takeReports()).To(BeEmpty())
	s.update(metadataObject("c", "21", 2))
	s.Expect(s.takeReports()).To(Equal([]string{"changed c"}))
	s.delete(metadataObject("c", "22"))
	s.Expect(s.takeReports()).To(Equal([]string{"changed c", "judged c"}))
	_, err := s.store.reduce(wholePod("p", "23", "Running"))
	s.Expect(err).To(MatchError(ContainSubstring("unexpected type *v1.Pod")))
}

// A watch that replaces another one reports all changes since the last event of the replaced watch, and verdicts that were unknown before.
func TestReplacementStoreReportsAllChangesMeanwhile(t *testing.T) {
	before := newStoreFixture(t, false)
	before.list("10", metadataObject("sick", "1"), metadataObject("well", "1"), metadataObject("gone", "1"), metadataObject("edited", "1"))
	s := newStoreFixture(t, true)
	s.store.copyFrom(before.store)
	s.list("20", wholePod("sick", "1", "Pending"), wholePod("well", "1", "Running"), wholePod("edited", "15", "Running", 2),
		wholePod("new", "15", "Running"))
	s.Expect(s.takeReports()).To(Equal([]string{
		"changed edited", "changed gone", "changed new",
		"judged edited", "judged gone", "judged new", "judged sick", "judged well",
	}))
	s.Expect(s.state("sick")).To(Equal([3]any{true, true, "Pending"}))
	s.Expect(before.state("gone")).To(Equal([3]any{true, false, ""}), "the other store is left alone")
}

// If a caller continued without the first listing, the objects of that listing must be reported.
func TestFirstListingIsReportedIfNoCallerWaitsForIt(t *testing.T) {
	s := newStoreFixture(t, true)
	s.store.first.stopWaiting()
	s.list("10", wholePod("p", "5", "Pending"))
	s.Expect(s.takeReports()).To(Equal([]string{"changed p", "judged p"}))
	s.Expect(s.store.first.done).To(BeClosed())
	s.list("11", wholePod("p", "5", "Pending"))
	s.Expect(s.takeReports()).To(BeEmpty())
}

// The stored state of a whole object consists of the state of its metadata and the verdict.
func TestWholeObjectIsReducedOnArrival(t *testing.T) {
	s := newStoreFixture(t, true)
	object := wholePod("p", "5", "Pending", 3)
	object.Spec.NodeName = "large"
	object.OwnerReferences = []metav1.OwnerReference{{Name: "large"}}
	reduced, kept := s.store.keep(object)
	s.Expect(kept).To(BeTrue())
	s.Expect(reduced).To(Equal(&reducedObject{
		PartialObjectMetadata: metav1.PartialObjectMetadata{ObjectMeta: metaOf("p", "5", 3)},
		verdict:               &health.Verdict{Checked: true, Unhealthy: "Pending"},
	}))
}

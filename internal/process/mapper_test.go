package process

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
)

// discoveryServer serves the discovery of its kinds in the old format, and counts the requests.
type discoveryServer struct {
	mu          sync.Mutex
	kinds       map[string]string // kind by group version
	broken      map[string]bool   // group versions whose own server does not answer
	down        bool
	discoveries int
	asked       atomic.Int64 // number of requests, including requests that are not answered yet
}

func (s *discoveryServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down:
		w.WriteHeader(http.StatusInternalServerError)
		return
	case r.URL.Path == "/api":
		s.discoveries++
		s.answer(w, metav1.APIVersions{})
		return
	case r.URL.Path == "/apis":
		groups := metav1.APIGroupList{}
		for name := range s.kinds {
			gv, _ := schema.ParseGroupVersion(name)
			version := metav1.GroupVersionForDiscovery{GroupVersion: name, Version: gv.Version}
			groups.Groups = append(groups.Groups, metav1.APIGroup{
				Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
			})
		}
		s.answer(w, groups)
		return
	}
	groupVersion := r.URL.Path[len("/apis/"):]
	if s.broken[groupVersion] {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	s.answer(w, metav1.APIResourceList{GroupVersion: groupVersion, APIResources: []metav1.APIResource{
		{Name: "things", SingularName: "thing", Kind: s.kinds[groupVersion], Namespaced: true},
	}})
}

func (s *discoveryServer) answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

func (s *discoveryServer) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func newTestMapper(t *testing.T) (*discoveryServer, *Mapper, *clocktesting.FakeClock) {
	t.Helper()
	served := &discoveryServer{kinds: map[string]string{"a.example.com/v1": "Apple"}, broken: map[string]bool{}}
	server := httptest.NewServer(served)
	t.Cleanup(server.Close)
	passive := clocktesting.NewFakeClock(time.Unix(0, 0))
	mapper, err := NewMapper(&rest.Config{Host: server.URL, QPS: -1}, server.Client(), passive, time.Minute)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return served, mapper, passive
}

func apple() schema.GroupKind { return schema.GroupKind{Group: "a.example.com", Kind: "Apple"} }
func pear() schema.GroupKind  { return schema.GroupKind{Group: "p.example.com", Kind: "Pear"} }

func TestMapperAsksOnceWhenItIsFirstUsed(t *testing.T) {
	g := NewWithT(t)
	served, mapper, passive := newTestMapper(t)
	g.Expect(served.discoveries).To(Equal(0))
	passive.Step(time.Hour)
	for range 3 {
		mapping, err := mapper.RESTMapping(apple(), "v1")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(mapping.Resource).To(Equal(schema.GroupVersionResource{Group: "a.example.com", Version: "v1", Resource: "things"}))
		g.Expect(mapping.Scope.Name()).To(Equal(meta.RESTScopeNameNamespace))
		passive.Step(time.Hour)
	}
	g.Expect(served.discoveries).To(Equal(1))
}

func TestMapperServesEveryDirection(t *testing.T) {
	g := NewWithT(t)
	_, mapper, _ := newTestMapper(t)
	gvk := schema.GroupVersionKind{Group: "a.example.com", Version: "v1", Kind: "Apple"}
	gvr := schema.GroupVersionResource{Group: "a.example.com", Version: "v1", Resource: "things"}
	g.Expect(mapper.KindFor(gvr)).To(Equal(gvk))
	g.Expect(mapper.KindsFor(gvr)).To(Equal([]schema.GroupVersionKind{gvk}))
	g.Expect(mapper.ResourceFor(gvr)).To(Equal(gvr))
	g.Expect(mapper.ResourcesFor(gvr)).To(Equal([]schema.GroupVersionResource{gvr}))
	g.Expect(mapper.ResourceSingularizer("things")).To(Equal("thing"))
	mappings, err := mapper.RESTMappings(apple())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(mappings).To(HaveLen(1))
	g.Expect(mappings[0].GroupVersionKind).To(Equal(gvk))
}

func TestMapperKnowsWhichKindsTheAPIServerNames(t *testing.T) {
	g := NewWithT(t)
	served, mapper, _ := newTestMapper(t)
	kind := func(name string) schema.GroupVersionKind {
		return apple().WithVersion("v1").GroupVersion().WithKind(name)
	}
	g.Expect(mapper.Names(kind("Apple"))).To(BeFalse(), "before the first discovery")
	mapping, err := mapper.RESTMapping(kind("AppleList").GroupKind(), "v1")
	g.Expect(err).NotTo(HaveOccurred(), "controller-runtime asks for the kinds of lists")
	g.Expect(mapper.Names(mapping.GroupVersionKind)).To(BeFalse())
	g.Expect(mapper.Names(kind("Apple"))).To(BeTrue())
	for _, name := range []string{"List", "apple", "Apples", ""} {
		g.Expect(mapper.Names(kind(name))).To(BeFalse(), name)
	}
	served.change(func() { served.kinds = map[string]string{"a.example.com/v1": "AppleList"} })
	g.Expect(mapper.Refresh()).To(Succeed())
	g.Expect(mapper.Names(kind("AppleList"))).To(BeTrue())
}

func TestMapperRemembersNoMatchForAWhile(t *testing.T) {
	g := NewWithT(t)
	served, mapper, passive := newTestMapper(t)
	_, err := mapper.RESTMapping(pear(), "v1")
	g.Expect(meta.IsNoMatchError(err)).To(BeTrue())
	served.change(func() { served.kinds["p.example.com/v1"] = "Pear" })

	passive.Step(59 * time.Second)
	_, err = mapper.RESTMapping(pear(), "v1")
	g.Expect(meta.IsNoMatchError(err)).To(BeTrue())
	g.Expect(served.discoveries).To(Equal(1))

	passive.Step(time.Second)
	_, err = mapper.RESTMapping(pear(), "v1")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(served.discoveries).To(Equal(2))
}

func TestMapperLooksForAnUnknownKindAtOnceAfterReset(t *testing.T) {
	g := NewWithT(t)
	served, mapper, _ := newTestMapper(t)
	_, err := mapper.RESTMapping(pear(), "v1")
	g.Expect(meta.IsNoMatchError(err)).To(BeTrue())
	served.change(func() {
		served.kinds["p.example.com/v1"] = "Pear"
		delete(served.kinds, "a.example.com/v1")
	})
	mapper.Reset()
	_, err = mapper.RESTMapping(pear(), "v1")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = mapper.RESTMapping(apple(), "v1")
	g.Expect(meta.IsNoMatchError(err)).To(BeTrue(), "what is gone is forgotten too")
	g.Expect(served.discoveries).To(Equal(2))
}

func TestKnownKindsNeedNoDiscoveryAfterReset(t *testing.T) {
	g := NewWithT(t)
	served, mapper, _ := newTestMapper(t)
	_, err := mapper.RESTMapping(apple(), "v1")
	g.Expect(err).NotTo(HaveOccurred())
	served.change(func() { served.down = true })
	mapper.Reset()
	_, err = mapper.RESTMapping(apple(), "v1")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(served.discoveries).To(Equal(1))
}

func TestRefreshReplacesWhatIsKnown(t *testing.T) {
	g := NewWithT(t)
	served, mapper, _ := newTestMapper(t)
	_, err := mapper.RESTMapping(apple(), "v1")
	g.Expect(err).NotTo(HaveOccurred())

	served.change(func() { served.down = true })
	g.Expect(mapper.Refresh()).To(MatchError(HavePrefix("discover the kinds of the API server: ")))
	_, err = mapper.RESTMapping(apple(), "v1")
	g.Expect(err).NotTo(HaveOccurred(), "a failure changes nothing")

	served.change(func() { served.down, served.kinds = false, map[string]string{"p.example.com/v1": "Pear"} })
	g.Expect(mapper.Refresh()).To(Succeed())
	_, err = mapper.RESTMapping(apple(), "v1")
	g.Expect(meta.IsNoMatchError(err)).To(BeTrue())
	_, err = mapper.RESTMapping(pear(), "v1")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(served.discoveries).To(Equal(2))
}

// While a discovery from before the Reset gets no response, the Mapper answers for known kinds. That discovery must not answer a search
// after the Reset.
func TestResetDoesNotDelayKnownKindsWhileADiscoveryHangs(t *testing.T) {
	g := NewWithT(t)
	served, mapper, passive := newTestMapper(t)
	_, err := mapper.RESTMapping(apple(), "v1")
	g.Expect(err).NotTo(HaveOccurred())
	passive.Step(time.Minute)

	before := served.asked.Load()
	served.mu.Lock() // the server does not answer
	answer := sync.OnceFunc(served.mu.Unlock)
	defer answer()
	unknown := make(chan error, 1)
	lookUp := func() {
		_, err := mapper.RESTMapping(pear(), "v1")
		unknown <- err
	}
	go lookUp()
	g.Eventually(served.asked.Load).WithTimeout(20*time.Second).Should(BeNumerically(">", before), "the discovery is in flight")

	mapper.Reset()
	known := make(chan error, 1)
	go func() {
		_, err := mapper.RESTMapping(apple(), "v1")
		known <- err
	}()
	g.Eventually(known).WithTimeout(20 * time.Second).Should(Receive(Not(HaveOccurred())))

	before = served.asked.Load()
	go lookUp()
	g.Eventually(served.asked.Load).WithTimeout(20*time.Second).Should(BeNumerically(">", before), "the question after the Reset is a new one")
	g.Expect(unknown).NotTo(Receive())
	answer()
	for range 2 {
		g.Expect(meta.IsNoMatchError(<-unknown)).To(BeTrue())
	}
}

func TestAnAnswerFromBeforeAResetIsOutdated(t *testing.T) {
	g := NewWithT(t)
	served, mapper, _ := newTestMapper(t)
	served.mu.Lock() // the server does not answer
	first := make(chan error, 1)
	go func() {
		_, err := mapper.RESTMapping(apple(), "v1")
		first <- err
	}()
	g.Eventually(served.asked.Load).WithTimeout(20 * time.Second).Should(BeNumerically(">", 0))
	mapper.Reset()
	served.mu.Unlock()
	g.Expect(<-first).NotTo(HaveOccurred())
	served.change(func() { served.kinds["p.example.com/v1"] = "Pear" })
	_, err := mapper.RESTMapping(pear(), "v1")
	g.Expect(err).NotTo(HaveOccurred(), "the answer is from before the Reset")
}

func TestMapperDoesNotTakeASilentGroupForGone(t *testing.T) {
	g := NewWithT(t)
	served, mapper, passive := newTestMapper(t)
	served.kinds["p.example.com/v1"] = "Pear"
	served.broken["p.example.com/v1"] = true

	_, err := mapper.RESTMapping(pear(), "v1")
	g.Expect(err).To(MatchError(HavePrefix("discover the kinds of p.example.com/v1: ")))
	g.Expect(meta.IsNoMatchError(err)).To(BeFalse())
	_, err = mapper.RESTMapping(apple(), "v1")
	g.Expect(err).NotTo(HaveOccurred(), "other groups are not concerned")
	_, err = mapper.RESTMapping(schema.GroupKind{Group: "x.example.com", Kind: "X"}, "v1")
	g.Expect(meta.IsNoMatchError(err)).To(BeTrue())

	served.change(func() { served.broken = nil })
	passive.Step(4 * time.Second)
	_, err = mapper.RESTMapping(pear(), "v1")
	g.Expect(err).To(HaveOccurred())
	g.Expect(served.discoveries).To(Equal(1))
	passive.Step(time.Second)
	_, err = mapper.RESTMapping(pear(), "v1")
	g.Expect(err).NotTo(HaveOccurred(), "a silent group is looked for again sooner")
}

func TestMapperDoesNotTakeASilentServerForEmpty(t *testing.T) {
	g := NewWithT(t)
	served, mapper, _ := newTestMapper(t)
	served.down = true
	_, err := mapper.RESTMapping(apple(), "v1")
	g.Expect(err).To(MatchError(HavePrefix("discover the kinds of the API server: ")))
	g.Expect(meta.IsNoMatchError(err)).To(BeFalse())
	served.change(func() { served.down = false })
	_, err = mapper.RESTMapping(apple(), "v1")
	g.Expect(err).NotTo(HaveOccurred(), "a failure is not remembered")
}

func TestMapperSharesOneDiscovery(t *testing.T) {
	g := NewWithT(t)
	served, mapper, passive := newTestMapper(t)
	lookUp := func() {
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				_, _ = mapper.RESTMapping(pear(), "v1")
				_, _ = mapper.RESTMapping(apple(), "v1")
			})
		}
		wg.Wait()
	}
	lookUp()
	g.Expect(served.discoveries).To(Equal(1))
	passive.Step(time.Minute)
	lookUp()
	g.Expect(served.discoveries).To(Equal(2))
}

func TestKnownKindsDoNotWaitForADiscoveryInFlight(t *testing.T) {
	g := NewWithT(t)
	served, mapper, passive := newTestMapper(t)
	_, err := mapper.RESTMapping(apple(), "v1")
	g.Expect(err).NotTo(HaveOccurred())
	passive.Step(time.Minute)

	before := served.asked.Load()
	served.mu.Lock() // the server does not answer
	answer := sync.OnceFunc(served.mu.Unlock)
	defer answer()
	unknown := make(chan error, 1)
	go func() {
		_, err := mapper.RESTMapping(pear(), "v1")
		unknown <- err
	}()
	known := make(chan error, 1)
	go func() {
		g.Eventually(served.asked.Load).WithTimeout(10*time.Second).Should(BeNumerically(">", before), "the discovery is in flight")
		_, err := mapper.RESTMapping(apple(), "v1")
		known <- err
	}()
	g.Eventually(known).WithTimeout(20 * time.Second).Should(Receive(Not(HaveOccurred())))
	g.Expect(unknown).NotTo(Receive())
	answer()
	g.Expect(meta.IsNoMatchError(<-unknown)).To(BeTrue())
}

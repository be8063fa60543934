package late

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestWatchBeginsOnceTheKindIsServed(t *testing.T) {
	g := NewWithT(t)
	begun := 0
	served, failure := error(&meta.NoKindMatchError{}), error(nil)
	w := Watch{served: func() error { return served }, start: func() error { begun++; return failure }}
	g.Expect(w.Begin()).To(Succeed())
	g.Expect(begun).To(BeZero())
	g.Expect(w.HasBegun()).To(BeFalse())

	served = errors.New("discovery failed")
	g.Expect(w.Begin()).To(MatchError(ContainSubstring("discovery failed")))
	served, failure = nil, errors.New("stopped")
	g.Expect(w.Begin()).To(MatchError(ContainSubstring("stopped")))
	failure = nil
	g.Expect(w.Begin()).To(Succeed())
	g.Expect(w.Begin()).To(Succeed())
	g.Expect(begun).To(Equal(2))
	g.Expect(w.HasBegun()).To(BeTrue())
}

// rememberer is a mapper that does not know a kind until it is refreshed.
type rememberer struct {
	meta.RESTMapper
	fresh   meta.RESTMapper
	failure error
}

func (r *rememberer) Refresh() error {
	r.RESTMapper = r.fresh
	return r.failure
}

func TestKindsThatTheOperatorHasJustDefinedAreServed(t *testing.T) {
	g := NewWithT(t)
	kind := schema.GroupVersionKind{Group: "a", Version: "v1", Kind: "B"}
	none, fresh := meta.NewDefaultRESTMapper(nil), meta.NewDefaultRESTMapper([]schema.GroupVersion{kind.GroupVersion()})
	fresh.Add(kind, meta.RESTScopeNamespace)
	g.Expect(meta.IsNoMatchError(isServed(none, kind.GroupKind()))).To(BeTrue())
	g.Expect(isServed(fresh, kind.GroupKind())).To(Succeed())
	g.Expect(isServed(&rememberer{RESTMapper: none, fresh: fresh}, kind.GroupKind())).To(Succeed())
	g.Expect(meta.IsNoMatchError(isServed(&rememberer{RESTMapper: none, fresh: none}, kind.GroupKind()))).To(BeTrue())
	failure := errors.New("discovery failed")
	g.Expect(isServed(&rememberer{RESTMapper: none, fresh: none, failure: failure}, kind.GroupKind())).To(MatchError(failure))
}

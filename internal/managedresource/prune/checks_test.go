package prune

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
)

func TestKeepAll(t *testing.T) {
	faults := []string{"document 1 is not an object"}
	const unreadable = "nothing is deleted while documents of the set cannot be read"
	for name, tc := range map[string]struct {
		keepObjects *bool
		removesSet  bool
		faults      []string
		want        string
	}{
		"an applied set": {},
		"an applied set with an unreadable document": {faults: faults, want: unreadable},
		"an applied set that would keep its objects": {keepObjects: ptr.To(true)},
		"a removed set": {removesSet: true},
		"a removed set with an unreadable document":    {removesSet: true, faults: faults},
		"a removed set that keeps its objects":         {removesSet: true, keepObjects: ptr.To(true), want: "spec.keepObjects"},
		"a removed set that does not keep its objects": {removesSet: true, keepObjects: ptr.To(false)},
		"an unreadable document, and objects are kept": {faults: faults, keepObjects: ptr.To(true), want: unreadable},
	} {
		t.Run(name, func(t *testing.T) {
			set := &resourcesv1alpha1.ManagedResource{Spec: resourcesv1alpha1.ManagedResourceSpec{KeepObjects: tc.keepObjects}}
			NewWithT(t).Expect(KeepAll(set, tc.removesSet, tc.faults)).To(Equal(tc.want))
		})
	}
}

func TestKeepReason(t *testing.T) {
	const own, other = "shop/web", "shop/other"
	const never = "nothing shows that it was ever written on behalf of this set"
	for name, tc := range map[string]struct {
		facts      facts
		want       string
		surprising bool
		err        string
	}{
		"an object of the set": {facts: facts{Object: observe.Object{Origin: own}}},
		"an object with the annotation that keeps it": {
			facts: facts{Object: observe.Object{Origin: own, KeepObject: "true"}},
			want:  "it has the annotation resources.gardener.cloud/keep-object",
		},
		"an annotation that does not keep it": {facts: facts{Object: observe.Object{Origin: own, KeepObject: "false"}}},
		"a ConfigMap that the garbage collector deletes": {
			facts: facts{Object: observe.Object{Origin: own, GarbageCollectable: "true"}, isData: true, garbageCollector: true},
			want:  "it is the garbage collector's to delete",
		},
		"a ConfigMap that the garbage collector would delete": {
			facts: facts{Object: observe.Object{Origin: own, GarbageCollectable: "true"}, isData: true},
		},
		"a kind that the garbage collector does not delete": {
			facts: facts{Object: observe.Object{Origin: own, GarbageCollectable: "true"}, garbageCollector: true},
		},
		"an object that another set contains": {
			facts: facts{Object: observe.Object{Origin: other, WrittenByUs: true}, claim: ownership.Claimed},
			want:  `ManagedResource "shop/other" holds it`,
		},
		"an object of a set that cannot be read": {
			facts: facts{Object: observe.Object{Origin: other, WrittenByUs: true}, claim: ownership.Unknown},
			want:  `its origin "shop/other" names a set that cannot be seen from here`, surprising: true,
		},
		"an object of a set that does not contain it": {
			facts: facts{Object: observe.Object{Origin: other, WrittenByUs: true}}, want: never, surprising: true,
		},
		"a former cluster ID, and the controller has written it": {
			facts: facts{Object: observe.Object{Origin: "old:shop/web", WrittenByUs: true}, claim: ownership.Former},
		},
		"a former cluster ID, and another client has written it": {
			facts: facts{Object: observe.Object{Origin: "old:shop/web"}, claim: ownership.Former}, want: never, surprising: true,
		},
		"an unknown cluster ID, and the controller has written it": {
			facts: facts{Object: observe.Object{Origin: "old:shop/web", WrittenByUs: true}, claim: ownership.Doubtful},
			err:   `its origin "old:shop/web" has another cluster ID than this controller`,
		},
		"an unknown cluster ID, and another client has written it": {
			facts: facts{Object: observe.Object{Origin: "old:shop/web"}, claim: ownership.Doubtful}, want: never, surprising: true,
		},
		"no origin, but the controller has written it": {facts: facts{Object: observe.Object{WrittenByUs: true}, mayWrite: true}},
		"no origin, and the set may not write it": {
			facts: facts{Object: observe.Object{WrittenByUs: true}}, want: never, surprising: true,
		},
		"no origin, and another client has written it": {facts: facts{mayWrite: true}, want: never, surprising: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			tc.facts.ownOrigin = own
			reason, surprising, err := keepReason(tc.facts)
			if tc.err != "" {
				g.Expect(err).To(MatchError(HavePrefix(tc.err)))
			} else {
				g.Expect(err).NotTo(HaveOccurred())
			}
			g.Expect(reason).To(Equal(tc.want))
			g.Expect(surprising).To(Equal(tc.surprising))
		})
	}
}

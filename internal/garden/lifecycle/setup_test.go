package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

func TestEventsThatTriggerAReconciliation(t *testing.T) {
	annotated := func(key, value string) *operatorv1alpha1.Garden {
		return &operatorv1alpha1.Garden{ObjectMeta: metav1.ObjectMeta{Generation: 1, Annotations: map[string]string{key: value}}}
	}
	plain := func(change func(*operatorv1alpha1.Garden)) *operatorv1alpha1.Garden {
		g := &operatorv1alpha1.Garden{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
		change(g)
		return g
	}
	same := func(*operatorv1alpha1.Garden) {}
	for sentence, tc := range map[string]struct {
		before, after *operatorv1alpha1.Garden
		want          bool
	}{
		"nothing changes":      {plain(same), plain(same), false},
		"the generation grows": {plain(same), plain(func(g *operatorv1alpha1.Garden) { g.Generation = 2 }), true},
		"the status changes": {plain(same), plain(func(g *operatorv1alpha1.Garden) {
			g.Status.LastOperation = &operatorv1alpha1.LastOperation{LastUpdateTime: metav1.NewTime(time.Unix(1, 0))}
		}), false},
		"a finalizer is added":     {plain(same), plain(func(g *operatorv1alpha1.Garden) { g.Finalizers = []string{"a"} }), false},
		"another object appears":   {plain(same), plain(func(g *operatorv1alpha1.Garden) { g.UID = "other" }), true},
		"an operation appears":     {plain(same), annotated("gardener.cloud/operation", "reconcile"), true},
		"an unknown value appears": {plain(same), annotated("gardener.cloud/operation", "foo"), false},
		"an operation disappears":  {annotated("gardener.cloud/operation", "reconcile"), plain(same), false},
		"the operations change": {
			annotated("gardener.cloud/operation", "reconcile"), annotated("gardener.cloud/operation", "rotate-ca-start"), true,
		},
		"a pause begins":                  {plain(same), annotated("espalier.dev/paused-until", "true"), true},
		"a pause ends":                    {annotated("espalier.dev/paused-until", "true"), plain(same), true},
		"a restoration ends":              {annotated("espalier.dev/restoring", "0123456789abcdef"), plain(same), true},
		"the virtual cluster is given up": {plain(same), annotated("espalier.dev/abandon-virtual-cluster", "garden-1"), true},
		"a rotation is aborted":           {plain(same), annotated("espalier.dev/abort-rotation", "encryption-key"), true},
		"a loss is confirmed":             {plain(same), annotated("espalier.dev/confirm-lost-keys", "ca-f6032ea0"), true},
		"leftovers are confirmed":         {plain(same), annotated("espalier.dev/confirm-leftovers", "5c1f0a7b"), true},
		"other annotations appear":        {plain(same), annotated("team", "a"), false},
		"a pause stays": {
			annotated("espalier.dev/paused-until", "true"), annotated("espalier.dev/paused-until", "true"), false,
		},
		"an operation is unchanged": {
			annotated("gardener.cloud/operation", "reconcile"), annotated("gardener.cloud/operation", "reconcile"), false,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(
				triggers().Update(event.TypedUpdateEvent[*operatorv1alpha1.Garden]{ObjectOld: tc.before, ObjectNew: tc.after}),
			).To(Equal(tc.want))
		})
	}
	g := NewWithT(t)
	g.Expect(triggers().Create(event.TypedCreateEvent[*operatorv1alpha1.Garden]{Object: plain(same)})).To(BeTrue())
	g.Expect(triggers().Delete(event.TypedDeleteEvent[*operatorv1alpha1.Garden]{Object: plain(same)})).To(BeFalse())
	g.Expect(triggers().Generic(event.TypedGenericEvent[*operatorv1alpha1.Garden]{Object: plain(same)})).To(BeFalse())
	g.Expect(deletions().Create(event.TypedCreateEvent[*operatorv1alpha1.Garden]{Object: plain(same)})).To(BeFalse())
	g.Expect(deletions().Update(event.TypedUpdateEvent[*operatorv1alpha1.Garden]{})).To(BeFalse())
	g.Expect(deletions().Delete(event.TypedDeleteEvent[*operatorv1alpha1.Garden]{Object: plain(same)})).To(BeTrue())
	g.Expect(deletions().Generic(event.TypedGenericEvent[*operatorv1alpha1.Garden]{Object: plain(same)})).To(BeFalse())
}

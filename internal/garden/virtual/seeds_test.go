package virtual

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRenewalInASeed(t *testing.T) {
	const operation, progress = "gardener.cloud/operation", "espalier.dev/renew-kubeconfig"
	request := map[string]string{operation: "renew-kubeconfig", progress: "new requested"}
	marked := func(progressOf, of string) map[string]string {
		return map[string]string{progress: progressOf, operation: of}
	}
	requested, renewed := map[string]string{progress: "new requested"}, map[string]string{progress: "new renewed"}
	for sentence, tc := range map[string]struct {
		annotations    map[string]string
		deleted        bool
		anew, unproven bool
		unawaited      bool
		want           map[string]string
		problem        string
	}{
		"it is requested": {want: request, problem: "it was requested"},
		"it is requested again in a new rotation": {
			annotations: map[string]string{progress: "old renewed"}, want: request, problem: "it was requested",
		},
		"a request for another rotation that was not carried out": {
			annotations: map[string]string{progress: "old requested"}, want: request, problem: "it was requested",
		},
		"it waits for the gardenlet": {
			annotations: request, problem: "has not removed the annotation gardener.cloud/operation=renew-kubeconfig",
		},
		"it waits for another operation": {
			annotations: map[string]string{operation: "reconcile"}, problem: "already annotated with gardener.cloud/operation=reconcile",
		},
		"it waits for the same operation of a user, which may have begun with the former credential": {
			annotations: map[string]string{operation: "renew-kubeconfig"}, problem: "already annotated with ",
		},
		"it waits for a deletion":             {deleted: true, problem: "it is being deleted"},
		"it is done":                          {annotations: requested, want: renewed},
		"it is done during another operation": {annotations: marked("new requested", "reconcile"), want: renewed},
		"it was done":                         {annotations: marked("new renewed", "reconcile")},
		"it waits for the proof":              {annotations: requested, unproven: true, problem: "has signed no client certificate"},
		"a request is enough":                 {annotations: request, unawaited: true},
		"a new attempt does not wait for proof": {
			annotations: requested, unproven: true, anew: true, want: request, problem: "it was requested",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			seed := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "local", Annotations: tc.annotations}}
			if tc.deleted {
				seed.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			}
			r := renewal{operation: "renew-kubeconfig", noun: "gardenlet kubeconfig", proven: true, unawaited: tc.unawaited}
			annotations, problem := r.next(seed, "new", tc.anew, !tc.unproven)
			g.Expect(annotations).To(Equal(tc.want))
			if tc.problem == "" {
				g.Expect(problem).To(BeEmpty())
				return
			}
			g.Expect(problem).To(And(
				HavePrefix(`renewing "gardenlet kubeconfig" secrets for seed "local" is not yet completed: `), ContainSubstring(tc.problem),
			))
		})
	}
}

package prune

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func reference(name string) resourcesv1alpha1.ObjectReference {
	return resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{
		APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns",
		Name: name,
	}}
}

func TestMessage(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct{ have, want string }{
		"one pending deletion": {
			have: Message([]Pending{{ref: reference("a")}}, noon),
			want: `Could not clean all old resources: 1 error occurred: deletion of old resource "v1/ConfigMap/ns/a" is still pending`,
		},
		"two pending deletions, sorted, one with an error": {
			have: Message([]Pending{{ref: reference("b")}, {ref: reference("a"), err: errors.New("boom")}}, noon),
			want: `Could not clean all old resources: 2 errors occurred: [deletion of old resource "v1/ConfigMap/ns/a" is still pending: boom, ` +
				`deletion of old resource "v1/ConfigMap/ns/b" is still pending]`,
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(tc.have).To(Equal(tc.want)) })
	}
}

func TestEventsAreReadOnlyIfADeletionTakesLong(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	service := reference("lb")
	service.Kind = "Service"
	for name, tc := range map[string]struct {
		open Pending
		want bool
	}{
		"a Service whose deletion takes long":       {open: Pending{ref: service, deleted: noon.Add(-10 * time.Second)}, want: true},
		"a Service whose deletion has just begun":   {open: Pending{ref: service, deleted: noon.Add(-9 * time.Second)}},
		"a Service whose wave has not begun":        {open: Pending{ref: service}},
		"a Service of the future (clocks disagree)": {open: Pending{ref: service, deleted: noon.Add(time.Minute)}},
		"an object of another kind":                 {open: Pending{ref: reference("a"), deleted: noon.Add(-time.Hour)}},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(tc.open.explainable(noon)).To(Equal(tc.want)) })
	}
}

package health

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	rules "github.com/espalier-dev/espalier/internal/health"
)

var noon = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

// Two messages with the same facts may differ only in ages, whatever the text of an Event contains.
func TestAgeless(t *testing.T) {
	block := func(now time.Time, count int32, message string) string {
		return "Service \"a/b\" is unhealthy: service is missing ingress status\n\n" + rules.EventsBlock([]corev1.Event{{
			Source: corev1.EventSource{Component: "cloud"}, Count: count, Message: message,
			FirstTimestamp: metav1.Time{Time: noon}, LastTimestamp: metav1.Time{Time: noon.Add(time.Minute)},
		}}, now)
	}
	soon, late := noon.Add(90*time.Second), noon.Add(26*time.Hour)
	same, different := Equal, func(other any) OmegaMatcher { return Not(Equal(other)) }
	for name, tc := range map[string]struct {
		one, other string
		matcher    func(any) OmegaMatcher
	}{
		"an Event that happened once grows older":  {block(soon, 1, "quota"), block(late, 1, "quota"), same},
		"an Event that happened often grows older": {block(soon, 7, "quota"), block(late, 7, "quota"), same},
		"it happens once more":                     {block(soon, 7, "quota"), block(soon, 8, "quota"), different},
		"it happens for the second time":           {block(soon, 1, "quota"), block(soon, 2, "quota"), different},
		"it says something else":                   {block(soon, 1, "quota"), block(soon, 1, "zone"), different},
		"it tells of something that was reported itself": {
			block(soon, 1, "node reported 5s ago: x"), block(late, 1, "node reported 5s ago: x"),
			same,
		},
		"it tells of an age, which is the Event's own": {
			block(soon, 1, "node reported 5s ago: x"), block(soon, 1, "node reported 6s ago: x"),
			different,
		},
		"it tells something like an entry in another line": {
			block(soon, 1, "a\nb reported 5s ago: x"), block(soon, 1, "a\nb reported 6s ago: x"),
			different,
		},
		"a message without Events": {"reported 5s ago: x", "reported 6s ago: x", different},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(ageless(tc.one)).To(tc.matcher(ageless(tc.other))) })
	}
}

func known(kind, status, reason, message string) corev1beta1.Condition {
	return corev1beta1.Condition{
		Type: corev1beta1.ConditionType(kind), Status: corev1beta1.ConditionStatus(status), Reason: reason, Message: message,
		LastTransitionTime: metav1.Time{Time: noon}, LastUpdateTime: metav1.Time{Time: noon},
	}
}

func at(c corev1beta1.Condition, transition, update time.Time) corev1beta1.Condition {
	c.LastTransitionTime, c.LastUpdateTime = metav1.Time{Time: transition}, metav1.Time{Time: update}
	return c
}

func TestConditionsKeepTheirTimesAndPlaces(t *testing.T) {
	later := noon.Add(time.Hour)
	healthy := known("ResourcesHealthy", "True", "ResourcesHealthy", "All resources are healthy.")
	rolledOut := known("ResourcesProgressing", "False", "ResourcesRolledOut", "All resources have been fully rolled out.")
	applied := known("ResourcesApplied", "True", "ApplySucceeded", "All resources are applied.")
	missing := findings{faults: []rules.Fault{{Kind: "Pod", Namespace: "a", Name: "b", Problem: rules.Missing}}}
	for name, tc := range map[string]struct {
		before []corev1beta1.Condition
		found  findings
		want   []corev1beta1.Condition
	}{
		"nothing changed": {
			before: []corev1beta1.Condition{healthy, rolledOut, applied},
			want:   []corev1beta1.Condition{healthy, rolledOut, applied},
		},
		"there were none": {
			before: []corev1beta1.Condition{applied},
			want:   []corev1beta1.Condition{applied, at(healthy, later, later), at(rolledOut, later, later)},
		},
		"an object is missing": {
			before: []corev1beta1.Condition{healthy, rolledOut, applied}, found: missing,
			want: []corev1beta1.Condition{
				at(known("ResourcesHealthy", "False", "PodMissing", `Required Pod "b" in namespace "a" is missing`), later, later), rolledOut, applied,
			},
		},
		"another object is missing": {
			before: []corev1beta1.Condition{known("ResourcesHealthy", "False", "PodMissing", "another"), rolledOut, applied}, found: missing,
			want: []corev1beta1.Condition{
				at(known("ResourcesHealthy", "False", "PodMissing", `Required Pod "b" in namespace "a" is missing`), noon, later), rolledOut, applied,
			},
		},
		"a rollout began": {
			before: []corev1beta1.Condition{healthy, rolledOut, applied},
			found: findings{rolling: []rules.Rolling{{
				Kind: "DaemonSet", Namespace: "a", Name: "b",
				Description: "1 of 2 replica(s) have been updated",
			}}},
			want: []corev1beta1.Condition{
				healthy, at(known("ResourcesProgressing", "True", "DaemonSetProgressing",
					`DaemonSet "a/b" is progressing: 1 of 2 replica(s) have been updated`), later, later), applied,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(conditions(testingclock.NewFakePassiveClock(later), tc.before, &tc.found)).To(BeComparableTo(tc.want))
		})
	}
}

// An object that was deleted and created again between two checks is reported as missing for a moment, unless the set is already reported
// as unhealthy.
func TestLost(t *testing.T) {
	healthy, unhealthy := condition("ResourcesHealthy", "True", ""), condition("ResourcesHealthy", "False", "")
	gone := resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{Kind: "ConfigMap", Namespace: "a", Name: "b"}}
	missing := rules.Fault{Kind: "ConfigMap", Namespace: "a", Name: "b", Problem: rules.Missing}
	other := rules.Fault{Kind: "Pod", Problem: rules.Unhealthy}
	for name, tc := range map[string]struct {
		mr       *resourcesv1alpha1.ManagedResource
		faults   []rules.Fault
		missed   []resourcesv1alpha1.ObjectReference
		wantLost bool
		want     []rules.Fault
	}{
		"nothing was missed": {mr: healthy},
		"an object of a healthy set": {
			mr: healthy, missed: []resourcesv1alpha1.ObjectReference{gone}, wantLost: true,
			want: []rules.Fault{missing},
		},
		"an object of an unhealthy set":     {mr: unhealthy, missed: []resourcesv1alpha1.ObjectReference{gone}},
		"an object of a set not judged yet": {mr: &resourcesv1alpha1.ManagedResource{}, missed: []resourcesv1alpha1.ObjectReference{gone}},
		"a set that is unhealthy by now": {
			mr: healthy, faults: []rules.Fault{other}, missed: []resourcesv1alpha1.ObjectReference{gone},
			want: []rules.Fault{other},
		},
		"several objects in their own order": {
			mr: healthy, missed: []resourcesv1alpha1.ObjectReference{gone, gone}, wantLost: true,
			want: []rules.Fault{missing, missing},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, found := NewWithT(t), &findings{faults: tc.faults}
			g.Expect(lost(tc.mr, found, tc.missed)).To(Equal(tc.wantLost))
			g.Expect(found.faults).To(Equal(tc.want))
		})
	}
}

func TestBehind(t *testing.T) {
	for name, tc := range map[string]struct {
		cached, written string
		want            bool
	}{
		"nothing was written":          {"7", "", false},
		"the cache shows our write":    {"7", "7", false},
		"the cache is behind":          {"7", "10", true},
		"the cache is ahead":           {"11", "10", false},
		"versions that say nothing":    {"x", "10", false},
		"a longer number is the later": {"9", "10", true},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(observe.Older(tc.cached, tc.written)).To(Equal(tc.want)) })
	}
}

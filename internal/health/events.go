// Package health describes the health of objects in words. It is pure: its caller reads the objects.
package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// maxEvents is the maximum number of Events in a text; these are the latest ones.
const maxEvents = 5

// Warnings returns the latest Warning Events about one object, in the order in which they last occurred.
func Warnings(events []corev1.Event, about corev1.ObjectReference) []corev1.Event {
	var found []corev1.Event
	for _, event := range events {
		object := event.InvolvedObject
		if event.Type == corev1.EventTypeWarning && object.APIVersion == about.APIVersion && object.Kind == about.Kind &&
			object.Namespace == about.Namespace && object.Name == about.Name {
			found = append(found, event)
		}
	}
	slices.SortStableFunc(found, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
	if len(found) > maxEvents {
		found = found[len(found)-maxEvents:]
	}
	return found
}

// EventsBlock returns a text with a heading and one line for each Event; "" if there are no Events. Their ages are relative to now.
func EventsBlock(events []corev1.Event, now time.Time) string {
	if len(events) == 0 {
		return ""
	}
	lines := []string{"-> Events:"}
	for _, event := range events {
		source := cmp.Or(event.Source.Component, event.ReportingController)
		lines = append(lines, fmt.Sprintf("* %s reported %s: %s", source, interval(event, now), event.Message))
	}
	return strings.Join(lines, "\n")
}

func interval(event corev1.Event, now time.Time) string {
	first := event.FirstTimestamp.Time
	if first.IsZero() {
		first = event.EventTime.Time
	}
	if event.Count > 1 {
		return fmt.Sprintf("%s ago (x%d over %s)", age(event.LastTimestamp.Time, now), event.Count, age(first, now))
	}
	return age(first, now) + " ago"
}

func age(at, now time.Time) string {
	if at.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(at))
}

// EventFacts returns the contents of the text without the ages. While the contents are the same, there is nothing new to report.
func EventFacts(events []corev1.Event) string {
	var facts strings.Builder
	for _, event := range events {
		_, _ = fmt.Fprintf(&facts, "%s/%d/%s;", event.UID, event.Count, event.Message)
	}
	return facts.String()
}

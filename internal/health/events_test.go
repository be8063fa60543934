package health_test

import (
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/health"
)

var (
	noon    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	service = corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: "shop", Name: "web"}
)

// warning returns an Event about the service, first and last seen five seconds before noon.
func warning(message string, modify ...func(*corev1.Event)) corev1.Event {
	at := metav1.NewTime(noon.Add(-5 * time.Second))
	event := corev1.Event{
		InvolvedObject: service, Type: corev1.EventTypeWarning, Message: message, Count: 1,
		Source: corev1.EventSource{Component: "service-controller"}, FirstTimestamp: at, LastTimestamp: at,
	}
	for _, each := range modify {
		each(&event)
	}
	return event
}

func last(before time.Duration) func(*corev1.Event) {
	return func(e *corev1.Event) { e.LastTimestamp = metav1.NewTime(noon.Add(-before)) }
}

func TestEventsBlock(t *testing.T) {
	for name, tc := range map[string]struct {
		event corev1.Event
		want  string
	}{
		"once": {event: warning("boom"), want: "-> Events:\n* service-controller reported 5s ago: boom"},
		"several times": {
			event: warning("boom", last(2*time.Second), func(e *corev1.Event) {
				e.Count = 3
				e.FirstTimestamp = metav1.NewTime(noon.Add(-3 * time.Minute))
			}),
			want: "-> Events:\n* service-controller reported 2s ago (x3 over 3m): boom",
		},
		"of the newer API, by its time": {event: warning("boom", func(e *corev1.Event) {
			e.Source, e.FirstTimestamp = corev1.EventSource{}, metav1.Time{}
			e.ReportingController, e.EventTime = "cloud", metav1.NewMicroTime(noon.Add(-time.Minute))
		}), want: "-> Events:\n* cloud reported 60s ago: boom"},
		"without any time": {
			event: warning("boom", func(e *corev1.Event) { e.FirstTimestamp = metav1.Time{} }),
			want:  "-> Events:\n* service-controller reported <unknown> ago: boom",
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(health.EventsBlock([]corev1.Event{tc.event}, noon)).To(Equal(tc.want))
		})
	}
	NewWithT(t).Expect(health.EventsBlock(nil, noon)).To(BeEmpty())
}

func TestWarningsAreTheLatestAboutTheObject(t *testing.T) {
	var events []corev1.Event
	for i := range 7 {
		events = append(events, warning(strconv.Itoa(i), last(time.Duration(i)*time.Second)))
	}
	other := func(change func(*corev1.Event)) corev1.Event { return warning("other", change) }
	events = append(events,
		other(func(e *corev1.Event) { e.Type = corev1.EventTypeNormal }), other(func(e *corev1.Event) { e.InvolvedObject.Name = "x" }),
		other(func(e *corev1.Event) { e.InvolvedObject.Kind = "Pod" }), other(func(e *corev1.Event) { e.InvolvedObject.Namespace = "x" }),
		other(func(e *corev1.Event) { e.InvolvedObject.APIVersion = "v2" }))
	var messages []string
	for _, event := range health.Warnings(events, service) {
		messages = append(messages, event.Message)
	}
	NewWithT(t).Expect(messages).To(Equal([]string{"4", "3", "2", "1", "0"}))
}

func TestEventFactsLeaveAgesOut(t *testing.T) {
	g := NewWithT(t)
	g.Expect(health.EventFacts([]corev1.Event{warning("boom")})).To(Equal(health.EventFacts([]corev1.Event{warning("boom", last(time.Hour))})))
	g.Expect(health.EventFacts([]corev1.Event{warning("boom")})).
		NotTo(Equal(health.EventFacts([]corev1.Event{warning("boom", func(e *corev1.Event) { e.Count = 2 })})))
}

package view

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/fields"
)

// Event is an Event about a set.
type Event struct {
	Set    string `json:"set"`
	Type   string `json:"type"`
	Reason string `json:"reason"`
	// Object is the object of the set that the Event is about; nil if it is about the set.
	Object *ID         `json:"object,omitempty"`
	Note   string      `json:"note"`
	Count  int32       `json:"count"`
	First  metav1.Time `json:"first"`
	Last   metav1.Time `json:"last"`
}

// Events are Events about sets, the latest last.
type Events struct {
	Events []Event `json:"events"`
}

// EventsOf returns Events in the order of time.
func EventsOf(events []corev1.Event) Events {
	all := Events{Events: make([]Event, 0, len(events))}
	for i := range events {
		all.Events = append(all.Events, eventOf(&events[i]))
	}
	slices.SortStableFunc(all.Events, func(a, b Event) int { return a.Last.Compare(b.Last.Time) })
	return all
}

func eventOf(e *corev1.Event) Event {
	event := Event{
		Set: e.InvolvedObject.Namespace + "/" + e.InvolvedObject.Name, Type: e.Type, Reason: e.Reason, Note: e.Message,
		Count: max(e.Count, 1), First: e.FirstTimestamp, Last: e.LastTimestamp,
	}
	if !e.EventTime.IsZero() {
		event.First = metav1.NewTime(e.EventTime.Time)
	}
	if e.Series != nil {
		event.Count, event.Last = e.Series.Count, metav1.NewTime(e.Series.LastObservedTime.Time)
	}
	if event.Last.IsZero() {
		event.Last = event.First
	}
	if r := e.Related; r != nil && r.Kind != "ManagedResource" {
		event.Object = &ID{APIVersion: r.APIVersion, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
	}
	return event
}

// text returns the note, and how often it was sent.
func (e Event) text() string {
	if e.Count > 1 {
		return fmt.Sprintf("%s (%d times)", e.Note, e.Count)
	}
	return e.Note
}

func (e Event) colour() colour {
	if e.Type == corev1.EventTypeWarning {
		return yellow
	}
	return plain
}

// Text implements Answer.
func (e Events) Text(p *Printer) {
	if len(e.Events) == 0 {
		fmt.Fprintln(p, "No Events found. Kubernetes removes Events after an hour, unless the API server is configured otherwise.")
		return
	}
	rows := make([][]cell, 0, len(e.Events))
	for _, each := range e.Events {
		rows = append(rows, []cell{
			text(p.age(each.Last)), text(each.Type), text(each.Set), {each.Reason, each.colour()}, p.brief(each.text()),
		})
	}
	p.table([]string{"AGO", "+TYPE", "SET", "REASON", "NOTE"}, rows)
}

// Moment is a moment in the life of a set.
type Moment struct {
	Time metav1.Time `json:"time"`
	// What is the kind of the moment: Created, Changed, SecretChanged, DeletionRequested, the type of a condition, or the reason of an Event.
	What string `json:"what"`
	Text string `json:"text"`
}

// History is the life of a set, as far as the clusters still know it.
type History struct {
	Set     Set      `json:"set"`
	Moments []Moment `json:"moments"`
	// Remarks name information that the user may not read.
	Remarks []string `json:"remarks,omitempty"`
}

// HistoryOf returns the history of a set from its metadata, its conditions, its Events, and the metadata of its Secrets.
func HistoryOf(
	mr *resourcesv1alpha1.ManagedResource, secrets []metav1.PartialObjectMetadata, events []corev1.Event, remarks []string,
) History {
	h := History{Set: SetOf(mr), Remarks: remarks}
	h.add(mr.CreationTimestamp, "Created", "ManagedResource created")
	for _, entry := range mr.ManagedFields {
		if !fields.IsOwnName(entry.Manager) && entry.Subresource == "" && entry.Time != nil && !entry.Time.Equal(&mr.CreationTimestamp) {
			h.add(*entry.Time, "Changed", fmt.Sprintf("ManagedResource changed by %q", entry.Manager))
		}
	}
	for i := range secrets {
		for _, entry := range secrets[i].ManagedFields {
			if entry.Time != nil {
				h.add(*entry.Time, "SecretChanged", fmt.Sprintf("Secret %s changed by %q", secrets[i].Name, entry.Manager))
			}
		}
	}
	for _, c := range mr.Status.Conditions {
		became := "became " + string(c.Status)
		if !c.LastUpdateTime.Equal(&c.LastTransitionTime) {
			h.add(c.LastTransitionTime, string(c.Type), became)
			became = "is " + string(c.Status)
		}
		h.add(c.LastUpdateTime, string(c.Type), became+": "+reasonOf(&c))
	}
	for _, each := range EventsOf(events).Events {
		h.add(each.Last, each.Reason, each.text())
	}
	if mr.DeletionTimestamp != nil {
		h.add(*mr.DeletionTimestamp, "DeletionRequested", "deletion requested")
	}
	slices.SortStableFunc(h.Moments, func(a, b Moment) int { return a.Time.Compare(b.Time.Time) })
	return h
}

func (h *History) add(at metav1.Time, what, text string) {
	h.Moments = append(h.Moments, Moment{Time: at, What: what, Text: text})
}

// Text implements Answer.
func (h History) Text(p *Printer) {
	h.Set.Text(p)
	rows := make([][]cell, 0, len(h.Moments))
	for _, m := range h.Moments {
		rows = append(rows, []cell{text(p.age(m.Time)), text(m.Time.UTC().Format("2006-01-02T15:04:05Z")), text(m.What), p.brief(m.Text)})
	}
	p.table([]string{"AGO", "+TIME", "WHAT", "TEXT"}, rows)
	for _, remark := range h.Remarks {
		fmt.Fprintln(p, p.paint(cell{"not read: " + strings.TrimSpace(remark), yellow}, 0))
	}
}

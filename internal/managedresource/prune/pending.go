package prune

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	rules "github.com/espalier-dev/espalier/internal/health"
	"github.com/espalier-dev/espalier/internal/managedresource/health"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
)

// Pending is an object whose deletion is not complete.
type Pending struct {
	ref resourcesv1alpha1.ObjectReference
	// deleted is the deletion timestamp of the object; zero if its deletion was not requested yet.
	deleted time.Time
	err     error
	// warnings are the latest Warning Events about the object, for kinds whose deletion depends on other controllers.
	warnings []corev1.Event
}

// Failed reports whether one of the deletions has failed.
func Failed(open []Pending) bool {
	return slices.ContainsFunc(open, func(each Pending) bool { return each.err != nil })
}

// Reference names the object for the Events API.
func (p Pending) Reference() *corev1.ObjectReference { return &p.ref.ObjectReference }

// Message lists the objects that are not gone yet, in a fixed order and with bounded length.
func Message(open []Pending, now time.Time) string {
	texts := make([]string, 0, len(open))
	for _, each := range open {
		text := fmt.Sprintf("deletion of old resource %q is still pending",
			status.Describe(each.ref.GroupVersionKind(), each.ref.Namespace, each.ref.Name))
		if each.err != nil {
			text += ": " + each.err.Error()
		}
		if block := rules.EventsBlock(each.warnings, now); block != "" {
			text += "\n\n" + block
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return "Could not clean all old resources" + status.CountedErrors(texts)
}

// explainAfter is how long the deletion of a Service may take before its Events are read. Most deletions are complete sooner.
const explainAfter = 10 * time.Second

// AddEvents adds the Events that may explain why the deletion of a Service takes long. It reads them live, because no cache contains
// Events.
func AddEvents(ctx context.Context, target client.Reader, open []Pending, now time.Time) {
	for i, each := range open {
		if i < status.MaxListed && each.explainable(now) {
			open[i].warnings = health.ServiceWarnings(ctx, target, each.ref.Namespace, each.ref.Name)
		}
	}
}

// explainable reports whether Events may explain a pending deletion.
func (p Pending) explainable(now time.Time) bool {
	return p.ref.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Service") && !p.deleted.IsZero() &&
		now.Sub(p.deleted) >= explainAfter
}

// Facts returns a text that changes if and only if the pending deletions change. It omits the parts of the message that change with time.
func Facts(open []Pending) string {
	plain := slices.Clone(open)
	var events strings.Builder
	for i := range plain {
		_, _ = events.WriteString(rules.EventFacts(plain[i].warnings))
		plain[i].warnings = nil
	}
	return Message(plain, time.Time{}) + events.String()
}

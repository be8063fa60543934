package stale

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Events tell of what is about to happen, and of what keeps us from judging.
// +kubebuilder:rbac:groups="",resources=events,verbs=create,roleName=espalier-project-controller-source

// Reasons of the Events.
const (
	// ReasonStaleForecast, on a Project: it will be found stale unless somebody uses it.
	ReasonStaleForecast = "StaleForecast"
	// ReasonDeletionForecast, on a Project: it will be deleted unless somebody uses it.
	ReasonDeletionForecast = "DeletionForecast"
	// ReasonWouldDelete, on a Project: it would have been deleted if that was not only rehearsed.
	ReasonWouldDelete = "WouldDelete"
	// ReasonSuspended, on the APIService of Projects: projects are neither marked nor deleted, because nobody can tell
	// whether they are used.
	ReasonSuspended = "StaleChecksSuspended"
	// ReasonResumed, on the APIService of Projects: projects are judged again.
	ReasonResumed = "StaleChecksResumed"
)

// source is who tells.
const source = "project-controller"

// Events creates Events, each about one thing that happens at one time. Their names are made of what they tell, so that
// nothing is told twice while the first lasts, whatever happens to the process meanwhile.
type Events struct {
	Client client.Client

	mu sync.Mutex // guards told
	// told remembers, by the names of Projects, what was told. A restart costs one request for each that is still to come.
	told map[string]map[string]bool
}

// project tells about a Project; at is when it happens. What is still to come is told once a day. First is true if this
// process has not told it before.
func (e *Events) project(ctx context.Context, project *corev1beta1.Project, now time.Time, reason string, at time.Time) (first bool, err error) {
	key := fmt.Sprintf("%s/%s/%d/%d", project.UID, reason, at.Unix(), daysLeft(now, at))
	if e.knows(project.Name, key) {
		return false, nil
	}
	eventType, message := wording(reason, at)
	about := corev1.ObjectReference{
		APIVersion: corev1beta1.SchemeGroupVersion.String(), Kind: "Project", Name: project.Name, UID: project.UID, ResourceVersion: project.ResourceVersion,
	}
	if err := e.create(ctx, about, key, now, eventType, reason, message); err != nil {
		return false, err
	}
	return e.remember(project.Name, key), nil
}

func wording(reason string, at time.Time) (eventType, message string) {
	date := at.UTC().Format(time.RFC3339)
	switch reason {
	case ReasonStaleForecast:
		return corev1.EventTypeWarning, fmt.Sprintf("Nobody seems to use this project; unless that changes, it is marked as stale after %s", date)
	case ReasonDeletionForecast:
		return corev1.EventTypeWarning, fmt.Sprintf("Nobody seems to use this project; unless that changes, it is deleted after %s with everything in its namespace", date)
	default:
		return corev1.EventTypeNormal, fmt.Sprintf("Would delete this project, whose date of deletion was %s; it stays because espalier.project.staleDeletion is DryRun", date)
	}
}

// suspended tells that nobody can judge; resumed that somebody can again.
func (e *Events) suspended(ctx context.Context, now time.Time, why string) error {
	return e.create(ctx, apiService(), turnKey(ReasonSuspended, now), now, corev1.EventTypeWarning, ReasonSuspended,
		"Projects are neither marked as stale nor deleted, because nobody can tell whether they are used: "+excerpt.Quoted(why))
}

func (e *Events) resumed(ctx context.Context, now time.Time) error {
	return e.create(ctx, apiService(), turnKey(ReasonResumed, now), now, corev1.EventTypeNormal, ReasonResumed, "Projects are marked as stale again")
}

func turnKey(reason string, now time.Time) string { return fmt.Sprintf("%s/%d", reason, now.Unix()) }

func apiService() corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: "apiregistration.k8s.io/v1", Kind: "APIService",
		Name: corev1beta1.SchemeGroupVersion.Version + "." + corev1beta1.SchemeGroupVersion.Group,
	}
}

// create creates an Event, unless it exists.
func (e *Events) create(ctx context.Context, about corev1.ObjectReference, key string, now time.Time, eventType, reason, message string) error {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(key)) // never fails
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s.%016x", about.Name, hash.Sum64())},
		InvolvedObject: about, Reason: reason, Message: message, Type: eventType, Count: 1,
		Source: corev1.EventSource{Component: source}, ReportingController: source,
		FirstTimestamp: metav1.NewTime(now), LastTimestamp: metav1.NewTime(now),
	}
	if err := e.Client.Create(ctx, event); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Event %s: %w", reason, refused(err))
	}
	return nil
}

// refused says which right is missing, without which nothing is deleted.
func refused(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("nothing is deleted that cannot be announced; grant create on events in namespace %q: %w", metav1.NamespaceDefault, err)
	}
	return err
}

func (e *Events) knows(project, key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.told[project][key]
}

// remember returns whether that is new.
func (e *Events) remember(project, key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.told[project][key] {
		return false
	}
	if e.told == nil {
		e.told = map[string]map[string]bool{}
	}
	if e.told[project] == nil {
		e.told[project] = map[string]bool{}
	}
	e.told[project][key] = true
	return true
}

// forget drops what is remembered of a Project that is gone.
func (e *Events) forget(project string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.told, project)
}

package stale

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// Events announce changes of Projects, and report why Projects cannot be judged.
// +kubebuilder:rbac:groups="",resources=events,verbs=create,roleName=espalier-project-controller-source

// Reasons of the Events.
const (
	// ReasonStaleForecast is a Warning Event about a Project: it will be marked as stale unless it is used.
	//
	// Remedy: use the project, or exempt it.
	ReasonStaleForecast = "StaleForecast"
	// ReasonDeletionForecast is a Warning Event about a Project: it will be deleted unless it is used.
	//
	// Remedy: use the project, exempt it, or accept its deletion.
	ReasonDeletionForecast = "DeletionForecast"
	// ReasonWouldDelete is a Normal Event about a Project: it would have been deleted if `staleDeletion` were `Delete` instead of `DryRun`.
	//
	// Remedy: use the project, exempt it, or accept its deletion.
	ReasonWouldDelete = "WouldDelete"
	// ReasonSuspended is a Warning Event about the APIService of Projects: projects are neither marked nor deleted, because the controller
	// cannot find out whether they are used.
	//
	// Remedy: restore the API that the Event names, or grant the missing right that it names.
	ReasonSuspended = "StaleChecksSuspended"
	// ReasonResumed is a Normal Event about the APIService of Projects: projects are marked and deleted again.
	ReasonResumed = "StaleChecksResumed"
)

// source is the component that reports the Events.
const source = "project-controller"

// announce creates an Event about a change of a Project. The argument at is the time of the change. Until this time, announce creates at
// most one Event per day. The result first is true if this process has not created the Event before. After a restart, the process has no
// record of its Events, so announce sends one request for each Event that exists already.
func (r *Reconciler) announce(
	ctx context.Context, project *corev1beta1.Project, now time.Time, reason string, at time.Time,
) (first bool, err error) {
	key := fmt.Sprintf("%s/%s/%d/%d", project.UID, reason, at.Unix(), daysLeft(now, at))
	if r.judged.hasEvent(project.Name, key) {
		return false, nil
	}
	eventType, message := eventText(reason, at)
	about := corev1.ObjectReference{
		APIVersion: corev1beta1.SchemeGroupVersion.String(), Kind: "Project", Name: project.Name, UID: project.UID,
		ResourceVersion: project.ResourceVersion,
	}
	if err := r.createEvent(ctx, about, key, now, eventType, reason, message); err != nil {
		return false, err
	}
	r.judged.addEvent(project.Name, key)
	return true, nil
}

func eventText(reason string, at time.Time) (eventType, message string) {
	date := at.UTC().Format(time.RFC3339)
	switch reason {
	case ReasonStaleForecast:
		return corev1.EventTypeWarning, fmt.Sprintf("This project seems to be unused; unless that changes, it is marked as stale after %s", date)
	case ReasonDeletionForecast:
		return corev1.EventTypeWarning, fmt.Sprintf("This project seems to be unused; unless that changes, it is deleted after %s with "+
			"everything in its namespace", date)
	default:
		return corev1.EventTypeNormal, fmt.Sprintf("Would delete this project, whose date of deletion was %s; it stays because "+
			"espalier.project.staleDeletion is DryRun", date)
	}
}

// announceForAll creates an Event on the APIService of Projects.
func (r *Reconciler) announceForAll(ctx context.Context, now time.Time, eventType, reason, message string) error {
	return r.createEvent(ctx, apiService(), fmt.Sprintf("%s/%d", reason, now.Unix()), now, eventType, reason, message)
}

func apiService() corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: "apiregistration.k8s.io/v1", Kind: "APIService",
		Name: corev1beta1.SchemeGroupVersion.Version + "." + corev1beta1.SchemeGroupVersion.Group,
	}
}

// createEvent creates an Event, unless the Event exists already. The name of the Event is derived from the argument key. So while the
// Event exists, no second Event with the same key is created, even after a restart.
func (r *Reconciler) createEvent(
	ctx context.Context, about corev1.ObjectReference, key string, now time.Time, eventType, reason, message string,
) error {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(key)) // never fails
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s.%016x", about.Name, hash.Sum64())},
		InvolvedObject: about, Reason: reason, Message: message, Type: eventType, Count: 1,
		Source: corev1.EventSource{Component: source}, ReportingController: source,
		FirstTimestamp: metav1.NewTime(now), LastTimestamp: metav1.NewTime(now),
	}
	if err := r.Client.Create(ctx, event); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Event %s: %w", reason, withMissingRight(err))
	}
	return nil
}

// withMissingRight names the missing right in the error. Without that right, no project is deleted.
func withMissingRight(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("nothing is deleted that cannot be announced; grant create on events in namespace %q: %w", metav1.NamespaceDefault, err)
	}
	return err
}

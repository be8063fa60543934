// Package view turns objects that were read from clusters into the answers of kubectl espalier, and prints the answers as text. The
// answers are also the documents that "-o json" and "-o yaml" print. The package does no I/O.
//
// No answer contains a value of an object that was read for the answer: an answer contains only names, the paths of fields, conditions,
// and the texts of Events and of published plans. The text of a published plan contains values if the set requests them.
package view

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/merge"
)

// State is the state of a set in one word.
type State string

// States of sets. The first one that fits, in this order, is the state of a set.
const (
	// Deleting means that the set is being deleted.
	Deleting State = "Deleting"
	// Paused means that an annotation of the set stops the controller.
	Paused State = "Paused"
	// PlanOnly means that the controller publishes a plan and applies nothing.
	PlanOnly State = "PlanOnly"
	// Pending means that no controller has acted on the set.
	Pending State = "Pending"
	// Failed means that the set is not applied completely.
	Failed State = "Failed"
	// Applying means that the set is being applied.
	Applying State = "Applying"
	// Unhealthy means that the set is applied, and an object is missing or not healthy.
	Unhealthy State = "Unhealthy"
	// Checking means that the set is applied, and its health is not known yet.
	Checking State = "Checking"
	// RollingOut means that the set is applied and healthy, and an object is still being rolled out.
	RollingOut State = "RollingOut"
	// Healthy means that the set is applied, healthy and rolled out.
	Healthy State = "Healthy"
)

// Condition is a condition of a set or a Garden.
type Condition struct {
	Type    string      `json:"type"`
	Status  string      `json:"status"`
	Since   metav1.Time `json:"since"`
	Reason  string      `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
}

// Set is the state of a ManagedResource.
type Set struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Class     string `json:"class"`
	State     State  `json:"state"`
	// Problem says why the set is not Healthy; empty if it is.
	Problem string      `json:"problem,omitempty"`
	Objects int         `json:"objects"`
	Created metav1.Time `json:"created"`
	// Secrets are the names of the Secrets with the manifests.
	Secrets             []string    `json:"secrets,omitempty"`
	SecretsDataChecksum string      `json:"secretsDataChecksum,omitempty"`
	Conditions          []Condition `json:"conditions,omitempty"`
}

// Key returns the namespace and the name of the set.
func (s Set) Key() string { return s.Namespace + "/" + s.Name }

// SetOf returns the state of a ManagedResource.
func SetOf(mr *resourcesv1alpha1.ManagedResource) Set {
	set := Set{
		Namespace: mr.Namespace, Name: mr.Name, Class: ptr.Deref(mr.Spec.Class, ""),
		Objects: len(mr.Status.Resources), Created: mr.CreationTimestamp,
		SecretsDataChecksum: ptr.Deref(mr.Status.SecretsDataChecksum, ""), Conditions: conditionsOf(mr.Status.Conditions),
	}
	if set.Class == "" {
		set.Class = resourcesv1alpha1.DefaultClass
	}
	for _, ref := range mr.Spec.SecretRefs {
		set.Secrets = append(set.Secrets, ref.Name)
	}
	set.State, set.Problem = stateOf(mr, set.Class)
	return set
}

func stateOf(mr *resourcesv1alpha1.ManagedResource, class string) (state State, problem string) {
	applied := corev1beta1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ResourcesApplied)
	healthy := corev1beta1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ResourcesHealthy)
	progressing := corev1beta1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ResourcesProgressing)
	planOnly, _ := merge.AsksForPlan(mr.Annotations)
	approved, needsApproval := mr.Annotations[resourcesv1alpha1.Approved]
	switch {
	case mr.DeletionTimestamp != nil && corev1beta1.IsTrue(mr.Status.Conditions, resourcesv1alpha1.ResourcesApplied):
		return Deleting, "" // the condition is older than the deletion
	case mr.DeletionTimestamp != nil:
		return Deleting, reasonOf(applied)
	case Stopped(mr) != "":
		return Paused, "annotation " + Stopped(mr)
	case planOnly:
		return PlanOnly, fmt.Sprintf("annotation %s=%s", resourcesv1alpha1.Plan, mr.Annotations[resourcesv1alpha1.Plan])
	case needsApproval && mr.Annotations[resourcesv1alpha1.Planned] != "":
		return PlanOnly, fmt.Sprintf("the content of the sources is not approved: the plan shows the checksum for the annotation %s",
			resourcesv1alpha1.Approved)
	case applied == nil:
		return Pending, fmt.Sprintf("no controller has acted on it: one must run for spec.class %q and be allowed to act in the namespace "+
			"(label %s=%s)", class, resourcesv1alpha1.SetsAllowedLabel, resourcesv1alpha1.SetsAllowed)
	case applied.Status == corev1beta1.ConditionFalse:
		return Failed, reasonOf(applied)
	case applied.Status != corev1beta1.ConditionTrue:
		return Applying, reasonOf(applied)
	case mr.Status.ObservedGeneration != mr.Generation:
		return Applying, fmt.Sprintf("generation %d of the spec is not applied yet", mr.Generation)
	case needsApproval && approved != ptr.Deref(mr.Status.SecretsDataChecksum, ""):
		return Applying, fmt.Sprintf("the approved content is not applied: annotation %s=%s", resourcesv1alpha1.Approved, approved)
	case healthy != nil && healthy.Status == corev1beta1.ConditionFalse:
		return Unhealthy, reasonOf(healthy)
	case healthy == nil || healthy.Status != corev1beta1.ConditionTrue:
		return Checking, reasonOf(healthy)
	case progressing == nil || progressing.Status != corev1beta1.ConditionFalse:
		return RollingOut, reasonOf(progressing)
	}
	if applied.Message != resourcesv1alpha1.MessageApplySucceeded {
		problem = reasonOf(applied) // fields that are deliberately not applied
	}
	return Healthy, problem
}

// Stopped returns the annotation that stops the controller, as key and value; empty if there is none.
func Stopped(mr *resourcesv1alpha1.ManagedResource) string {
	switch {
	case merge.Truthy(mr.Annotations[resourcesv1alpha1.Ignore]):
		return resourcesv1alpha1.Ignore + "=" + mr.Annotations[resourcesv1alpha1.Ignore]
	case mr.Annotations[resourcesv1alpha1.GardenerOperation] == resourcesv1alpha1.OperationWaitForState:
		return resourcesv1alpha1.GardenerOperation + "=" + resourcesv1alpha1.OperationWaitForState
	}
	return ""
}

func conditionsOf(conditions []corev1beta1.Condition) []Condition {
	all := make([]Condition, 0, len(conditions))
	for _, c := range conditions {
		all = append(all, Condition{
			Type: string(c.Type), Status: string(c.Status), Since: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	return all
}

func reasonOf(c *corev1beta1.Condition) string {
	if c == nil {
		return ""
	}
	return strings.TrimSuffix(c.Reason+": "+c.Message, ": ")
}

// Reached reports whether the state of a set satisfies a goal for which a user waits. A later state also satisfies the goals of earlier
// states: for example, a healthy set satisfies the goal "applied", too. The result for GoalDeleted is false.
func (s Set) Reached(goal Goal) bool {
	switch goal {
	case GoalApplied:
		return s.State == Unhealthy || s.State == Checking || s.State == RollingOut || s.State == Healthy
	case GoalHealthy:
		return s.State == RollingOut || s.State == Healthy
	case GoalRolledOut:
		return s.State == Healthy
	default:
		return false
	}
}

// Goal is a state that a user waits for.
type Goal string

// Goals.
const (
	// GoalApplied is reached when all objects are applied as the Secrets declare them.
	GoalApplied Goal = "applied"
	// GoalHealthy is reached when all objects are applied, exist and are healthy.
	GoalHealthy Goal = "healthy"
	// GoalRolledOut is reached when all objects are also rolled out.
	GoalRolledOut Goal = "rolled-out"
	// GoalDeleted is reached when the set does not exist.
	GoalDeleted Goal = "deleted"
)

// ParseGoal returns the goal that a word of the command line names.
func ParseGoal(word string) (Goal, error) {
	switch goal := Goal(word); goal {
	case GoalApplied, GoalHealthy, GoalRolledOut, GoalDeleted:
		return goal, nil
	}
	return "", fmt.Errorf("--for %q: want a list of %s, %s, %s, or %s", word, GoalApplied, GoalHealthy, GoalRolledOut, GoalDeleted)
}

// Gone says that a set does not exist any more.
type Gone struct {
	Set string `json:"deleted"`
}

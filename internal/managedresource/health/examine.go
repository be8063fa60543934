package health

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	rules "github.com/espalier-dev/espalier/internal/health"
)

// findings is what is wrong with a set's objects, in the order in which the status lists them.
type findings struct {
	faults  []rules.Fault
	rolling []rules.Rolling
	// pending tells that the watches have not caught up with our own writes.
	pending bool
}

func fault(ref resourcesv1alpha1.ObjectReference, problem rules.Problem, detail string) rules.Fault {
	return rules.Fault{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, Problem: problem, Detail: detail}
}

// examination is the work on one set.
type examination struct {
	*Reconciler
	kstatus bool
	// live tells that watches which are behind are not waited for any longer.
	live  bool
	found findings
}

// examine judges every object that the status of a set lists.
func (r *Reconciler) examine(ctx context.Context, name types.NamespacedName, mr *resourcesv1alpha1.ManagedResource) (*findings, error) {
	e := &examination{Reconciler: r, kstatus: Kstatus(mr, r.Kstatus), live: r.Verdicts.waitedEnough(name, r.Clock.Now())}
	for _, ref := range mr.Status.Resources {
		if err := e.object(ctx, ref); err != nil {
			return nil, err
		}
	}
	return &e.found, nil
}

// object judges one object, by what the watches know if they know it.
func (e *examination) object(ctx context.Context, ref resourcesv1alpha1.ObjectReference) error {
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	var seen observe.Object
	var knowledge observe.Knowledge
	if merge.Truthy(ref.Annotations[resourcesv1alpha1.Ignore]) { // such an object does not carry the label that we watch
		seen, knowledge = e.Watcher.LookupNamed(kind.GroupKind(), ref.Namespace, ref.Name)
	} else {
		seen, knowledge = e.Watcher.Lookup(kind.GroupKind(), ref.Namespace, ref.Name)
	}
	switch {
	case knowledge == observe.Present && seen.Unjudged && e.judged(kind):
		if !e.live {
			e.found.pending = true
			return nil
		}
	case knowledge == observe.Present:
		return e.conclude(ctx, kind, ref, seen.Verdict, nil)
	}
	return e.read(ctx, kind, ref)
}

// judged tells whether more is asked of a kind than to be there.
func (e *examination) judged(kind schema.GroupVersionKind) bool {
	return rules.HasRule(kind.GroupKind()) || e.kstatus && !e.Whole.Registered(kind)
}

// read looks at the object itself. One that a watch reports as missing may only have lost its label.
func (e *examination) read(ctx context.Context, kind schema.GroupVersionKind, ref resourcesv1alpha1.ObjectReference) error {
	resource, err := e.Target.Resource(kind)
	if meta.IsNoMatchError(err) {
		e.found.faults = append(e.found.faults, fault(ref, rules.Missing, err.Error()))
		return nil
	}
	if err != nil {
		return fmt.Errorf("find out how %s is served: %w", kind.Kind, err)
	}
	live, err := e.Target.Get(ctx, resource, ref.Namespace, ref.Name)
	if apierrors.IsNotFound(err) {
		e.found.faults = append(e.found.faults, fault(ref, rules.Missing, unserved(err)))
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s %s/%s: %w", kind.Kind, ref.Namespace, ref.Name, err)
	}
	return e.conclude(ctx, kind, ref, e.verdict(kind, live), live)
}

// unserved explains that not only an object is missing but its kind is no longer served: then the answer does not come
// from the object's kind. It is "" if the kind is served.
func unserved(notFound error) string {
	if apierrors.IsUnexpectedServerError(notFound) {
		return notFound.Error()
	}
	return ""
}

func (e *examination) verdict(kind schema.GroupVersionKind, live *unstructured.Unstructured) *rules.Verdict {
	var verdict rules.Verdict
	switch {
	case !e.judged(kind):
		return nil
	case !rules.HasRule(kind.GroupKind()):
		verdict = rules.JudgeByStatus(live)
	default:
		verdict = rules.Judge(live)
	}
	return &verdict
}

// conclude notes what a verdict says. Live is the object if it was read, nil if a watch knows it.
func (e *examination) conclude(ctx context.Context, kind schema.GroupVersionKind, ref resourcesv1alpha1.ObjectReference, verdict *rules.Verdict, live *unstructured.Unstructured) error {
	if !e.judged(kind) {
		return nil
	}
	if verdict == nil {
		verdict = &rules.Verdict{}
	}
	switch {
	case verdict.Failed != "":
		e.found.faults = append(e.found.faults, fault(ref, rules.CheckFailed, verdict.Failed))
	case verdict.Unhealthy != "":
		next := fault(ref, rules.Unhealthy, verdict.Unhealthy)
		if kind.GroupKind() == (schema.GroupKind{Kind: "Service"}) {
			next.Events = e.events(ctx, ref)
		}
		e.found.faults = append(e.found.faults, next)
	}
	description := verdict.Progressing
	if description == "" && kind.GroupKind() == (schema.GroupKind{Group: "apps", Kind: "Deployment"}) {
		old, err := e.oldPods(ctx, ref, live)
		if err != nil {
			return err
		}
		description = old
	}
	if description != "" {
		e.found.rolling = append(e.found.rolling, rules.Rolling{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, Description: description})
	}
	return nil
}

// oldPods describes a Deployment that has other pods than it asks for. Metadata tells that there may be some; the pods
// themselves tell which of them count.
func (e *examination) oldPods(ctx context.Context, ref resourcesv1alpha1.ObjectReference, live *unstructured.Unstructured) (string, error) {
	rollout, count := e.rollout(ref, live)
	switch count {
	case observe.CountPending:
		e.found.pending = e.found.pending || !e.live
		return "", nil
	case observe.CountDiffers:
	case observe.CountUnknown, observe.CountMatches:
		return "", nil
	}
	pods := &corev1.PodList{}
	err := e.TargetLive.List(ctx, pods, client.InNamespace(ref.Namespace), client.MatchingLabels(rollout.Selector))
	if apierrors.IsForbidden(err) {
		return "", nil // a missing right does not hold up the conditions
	}
	if err != nil {
		return "", fmt.Errorf("list pods of Deployment %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	counting := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !rules.Relevant(&pod) })
	if len(counting) != int(rollout.Replicas) {
		return rules.OldPods, nil
	}
	return "", nil
}

// rollout returns what is to be compared with the pods of a Deployment, and whether they have to be looked at. Those of
// one that no watch covers are not counted.
func (e *examination) rollout(ref resourcesv1alpha1.ObjectReference, live *unstructured.Unstructured) (rules.Rollout, observe.Count) {
	if live == nil {
		return e.Pods.Of(ref.Namespace, ref.Name)
	}
	typed, err := e.Whole.Typed(live)
	if err != nil {
		return rules.Rollout{}, observe.CountUnknown
	}
	deployment, isDeployment := typed.(*appsv1.Deployment)
	if !isDeployment {
		return rules.Rollout{}, observe.CountUnknown
	}
	if rollout, counts := rules.RolloutOf(deployment); counts {
		return rollout, observe.CountDiffers
	}
	return rules.Rollout{}, observe.CountMatches
}

// events shows what happened to a Service of late. Nothing tells when there is more: that shows in the next period.
func (e *examination) events(ctx context.Context, ref resourcesv1alpha1.ObjectReference) string {
	about := corev1.ObjectReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}
	events := &corev1.EventList{}
	err := e.TargetLive.List(ctx, events, client.InNamespace(ref.Namespace), client.MatchingFields{"involvedObject.name": ref.Name, "involvedObject.kind": ref.Kind})
	if err != nil {
		log.FromContext(ctx).Info("Cannot read Events of a Service", "service", ref.Name, "reason", err.Error())
		return ""
	}
	return rules.EventsBlock(rules.Warnings(events.Items, about), e.Clock.Now())
}

package health

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	rules "github.com/espalier-dev/espalier/internal/health"
)

// findings are the faults and rollouts of a set's objects, in the order of the status.
type findings struct {
	faults  []rules.Fault
	rolling []rules.Rolling
	// pending is true if the check must wait for a watch: the watch has not shown the last write of this process to an object yet, or the
	// first list of Pods has not arrived yet. unobserved is true if the controller of a kind, such as Deployments, has not processed the
	// current generation of an object yet.
	pending, unobserved bool
}

func fault(ref resourcesv1alpha1.ObjectReference, problem rules.Problem, detail string) rules.Fault {
	return rules.Fault{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, Problem: problem, Detail: detail}
}

// examination is the check of one object of a set.
type examination struct {
	*Reconciler
	kstatus bool
	// live is true if the check must read live instead of waiting any longer for watches that are behind.
	live bool
	// user is the user with whose rights objects are read, "" for the controller.
	user string
	// view shows the watched objects of the set.
	view  observe.View
	found *findings
}

// readers is how many objects of one set are read concurrently.
const readers = 16

// examine judges every object in the status of a set, with data from the watches or from live reads.
func (r *Reconciler) examine(ctx context.Context, name types.NamespacedName, mr *resourcesv1alpha1.ManagedResource) (*findings, error) {
	each, reads := r.known(mr, r.Verdicts.waitedEnough(name, r.Clock.Now()))
	if err := readAll(ctx, reads); err != nil {
		return nil, err
	}
	user := r.Identity.User(mr)
	found := combine(each)
	if user != "" && !found.pending && r.tellsMore(mr, found) {
		if err := readAll(ctx, r.concealing(user, mr, each)); err != nil {
			return nil, err
		}
		found = combine(each)
	}
	if !found.pending && found.explainable() {
		events, err := r.TargetAs(user)
		if err != nil {
			return nil, err
		}
		first := &found.faults[0]
		// New Events cause no reconciliation: they appear in the next period.
		first.Events = rules.EventsBlock(ServiceWarnings(ctx, events, first.Namespace, first.Name), r.Clock.Now())
	}
	return found, nil
}

func readAll(ctx context.Context, reads []func(context.Context) error) error {
	reading, bounded := errgroup.WithContext(ctx)
	reading.SetLimit(readers)
	for _, read := range reads {
		reading.Go(func() error { return read(bounded) })
	}
	return reading.Wait()
}

// tellsMore reports whether findings would add texts about objects to the conditions.
func (r *Reconciler) tellsMore(mr *resourcesv1alpha1.ManagedResource, found *findings) bool {
	return len(found.faults)+len(found.rolling) > 0 &&
		!equality.Semantic.DeepEqual(conditions(r.Clock, mr.Status.Conditions, found), mr.Status.Conditions)
}

// concealing returns reads that replace the findings about objects with a fault or a rollout by the answer of the API server if the user
// may not read the objects: the watch has the rights of the controller, or the user has lost the right since the watch began. One request
// is enough for several objects of a kind in a namespace if the user may list them.
func (r *Reconciler) concealing(user string, mr *resourcesv1alpha1.ManagedResource, each []findings) []func(context.Context) error {
	type collection struct {
		kind      schema.GroupVersionKind
		namespace string
	}
	single := map[collection][]func(context.Context) error{}
	for i, ref := range mr.Status.Resources {
		if len(each[i].faults)+len(each[i].rolling) > 0 {
			key := collection{ref.GroupVersionKind(), ref.Namespace}
			single[key] = append(single[key], func(ctx context.Context) error { return r.conceal(ctx, user, ref, &each[i]) })
		}
	}
	reads := make([]func(context.Context) error, 0, len(single))
	for key, objects := range single {
		reads = append(reads, func(ctx context.Context) error {
			if len(objects) > 1 && r.Target.As(user).InServedVersion(key.kind, func(resource apply.Resource) error {
				return r.Target.As(user).TryList(ctx, resource, key.namespace)
			}) == nil {
				return nil
			}
			return readAll(ctx, objects)
		})
	}
	return reads
}

// conceal reads an object. If the user may not read it, the answer of the API server replaces the findings.
func (r *Reconciler) conceal(ctx context.Context, user string, ref resourcesv1alpha1.ObjectReference, found *findings) error {
	err := r.Target.As(user).InServedVersion(ref.GroupVersionKind(), func(resource apply.Resource) error {
		_, err := r.Target.As(user).GetMetadata(ctx, resource, ref.Namespace, ref.Name)
		return err
	})
	switch {
	case apierrors.IsForbidden(err):
		*found = findings{faults: []rules.Fault{fault(ref, rules.CheckFailed, err.Error())}}
	case err != nil && !apply.IsGone(err):
		return fmt.Errorf("read %s %s/%s: %w", ref.Kind, ref.Namespace, ref.Name, err)
	}
	return nil
}

// known judges every object in the status of a set with data from the watches. It also returns the reads that are still needed: each read
// adds to the findings of one object. For live, see examination.
func (r *Reconciler) known(mr *resourcesv1alpha1.ManagedResource, live bool) (each []findings, reads []func(context.Context) error) {
	kstatus, user, view := Kstatus(mr, *r.Own.Kstatus), r.Identity.User(mr), r.Watcher.As(r.Identity.Watcher(mr))
	each = make([]findings, len(mr.Status.Resources))
	for i, ref := range mr.Status.Resources {
		e := examination{Reconciler: r, kstatus: kstatus, live: live, user: user, view: view, found: &each[i]}
		if read := e.object(ref); read != nil {
			reads = append(reads, read)
		}
	}
	return each, reads
}

// combine joins the findings of all objects.
func combine(each []findings) *findings {
	found := &findings{}
	for _, one := range each {
		found.faults = append(found.faults, one.faults...)
		found.rolling = append(found.rolling, one.rolling...)
		found.pending = found.pending || one.pending
		found.unobserved = found.unobserved || one.unobserved
	}
	return found
}

// explainable reports whether the condition must show Events: the first fault, which determines the condition, is about an unhealthy
// Service.
func (f *findings) explainable() bool {
	return len(f.faults) > 0 && f.faults[0].Problem == rules.Unhealthy && f.faults[0].Kind == serviceKind
}

// object judges one object with data from the watches, if they have it. Otherwise it returns a function that reads the missing data.
func (e *examination) object(ref resourcesv1alpha1.ObjectReference) func(context.Context) error {
	kind := ref.GroupVersionKind()
	var seen observe.Object
	var knowledge observe.Presence
	if merge.Truthy(ref.Annotations[resourcesv1alpha1.Ignore]) { // such an object does not carry the label of the watch
		seen, knowledge = e.view.LookupNamed(kind.GroupKind(), ref.Namespace, ref.Name)
	} else {
		seen, knowledge = e.view.Lookup(kind.GroupKind(), ref.Namespace, ref.Name)
	}
	switch {
	case knowledge == observe.Present && seen.VerdictUnknown && e.judged(kind):
		if !e.live {
			e.found.pending = true
			return nil
		}
	case knowledge == observe.Present:
		return e.conclude(kind, ref, seen.Verdict, nil)
	case knowledge == observe.Absent && e.Watcher.HasFinished(kind.GroupKind(), ref.Namespace, ref.Name):
		return nil
	}
	return func(ctx context.Context) error { return e.read(ctx, kind, ref) }
}

// judged reports whether the health of objects of a kind depends on more than their existence.
func (e *examination) judged(kind schema.GroupVersionKind) bool {
	return rules.HasRule(kind.GroupKind()) || e.kstatus && !e.Whole.IsRegistered(kind)
}

// read reads the object live, in another version if the target does not serve the version in the status any more. read also reads an
// object that is missing in a watch, because the object may only have lost the label of the watch.
func (e *examination) read(ctx context.Context, kind schema.GroupVersionKind, ref resourcesv1alpha1.ObjectReference) error {
	var served apply.Resource
	var live *unstructured.Unstructured
	err := e.Target.As(e.user).InServedVersion(kind, func(resource apply.Resource) (err error) {
		served = resource
		live, err = e.get(ctx, kind, resource, ref)
		return err
	})
	switch {
	case meta.IsNoMatchError(err):
		e.found.faults = append(e.found.faults, fault(ref, rules.Missing, unserved(kind)))
		return nil
	case apply.IsGone(err) && e.Watcher.HasFinished(kind.GroupKind(), ref.Namespace, ref.Name):
		return nil
	case apply.IsGone(err):
		detail := ""
		if served.Kind != kind { // the version of the status is not served
			detail = unserved(kind)
		}
		e.found.faults = append(e.found.faults, fault(ref, rules.Missing, detail))
		return nil
	case e.user != "" && apierrors.IsForbidden(err):
		e.found.faults = append(e.found.faults, fault(ref, rules.CheckFailed, err.Error()))
		return nil
	case err != nil:
		return fmt.Errorf("read %s %s/%s: %w", kind.Kind, ref.Namespace, ref.Name, err)
	case live == nil:
		return nil
	}
	if more := e.conclude(kind, ref, e.verdict(kind, live), live); more != nil {
		return more(ctx)
	}
	return nil
}

// get returns an object if its health depends on more than its existence. Otherwise it reads only the metadata, and returns nil.
func (e *examination) get(ctx context.Context, kind schema.GroupVersionKind, resource apply.Resource,
	ref resourcesv1alpha1.ObjectReference,
) (*unstructured.Unstructured, error) {
	if e.judged(kind) {
		return e.Target.As(e.user).Get(ctx, resource, ref.Namespace, ref.Name)
	}
	_, err := e.Target.As(e.user).GetMetadata(ctx, resource, ref.Namespace, ref.Name)
	return nil, err
}

// unserved returns the message for an object whose kind is not served. It is the same whether a response or the mapper shows this.
func unserved(kind schema.GroupVersionKind) string {
	return (&meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}).Error()
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

// conclude records a verdict, and returns a function that reads further data, nil if none is needed. live is the object if it was read, nil
// if the verdict is from a watch.
func (e *examination) conclude(kind schema.GroupVersionKind, ref resourcesv1alpha1.ObjectReference, verdict *rules.Verdict,
	live *unstructured.Unstructured,
) func(context.Context) error {
	if !e.judged(kind) {
		return nil
	}
	if verdict == nil {
		verdict = &rules.Verdict{}
	}
	e.found.unobserved = verdict.Unobserved
	switch {
	case verdict.Failed != "":
		e.found.faults = append(e.found.faults, fault(ref, rules.CheckFailed, verdict.Failed))
	case verdict.Unhealthy != "":
		e.found.faults = append(e.found.faults, fault(ref, rules.Unhealthy, verdict.Unhealthy))
	}
	if verdict.Progressing != "" {
		e.rolls(ref, verdict.Progressing)
		return nil
	}
	if kind.GroupKind() != (schema.GroupKind{Group: "apps", Kind: "Deployment"}) {
		return nil
	}
	rollout, count := e.rollout(ref, live)
	switch {
	case count == observe.CountPending && !e.live:
		e.found.pending = true
		return nil
	case count == observe.CountUnknown || count == observe.CountMatches:
		return nil
	}
	return func(ctx context.Context) error { return e.pods(ctx, ref, rollout) }
}

// rolls records that the rollout of an object is not complete.
func (e *examination) rolls(ref resourcesv1alpha1.ObjectReference, description string) {
	e.found.rolling = append(e.found.rolling, rules.Rolling{
		Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name,
		Description: description,
	})
}

// pods lists the Pods of a Deployment if their number seems to differ from the replicas. It does not count Pods that are not relevant, for
// example evicted Pods. If the number of the other Pods differs from the replicas, it records that the rollout is not complete. The list
// is necessary because the watch receives only the metadata of Pods, which does not show whether a Pod is relevant.
func (e *examination) pods(ctx context.Context, ref resourcesv1alpha1.ObjectReference, rollout rules.Rollout) error {
	pods := &corev1.PodList{}
	reader, err := e.TargetAs(e.user)
	if err != nil {
		return err
	}
	err = reader.List(ctx, pods, client.InNamespace(ref.Namespace), client.MatchingLabels(rollout.Selector))
	if apierrors.IsForbidden(err) {
		return nil // a missing right must not delay the conditions
	}
	if err != nil {
		return fmt.Errorf("list pods of Deployment %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	counting := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !rules.Relevant(&pod) })
	if len(counting) != int(rollout.Replicas) {
		e.rolls(ref, rules.OldPods)
	}
	return nil
}

// rollout returns the replicas and the selector of a Deployment, and whether the number of its Pods matches the replicas. For a Deployment
// that no watch covers, the Pods are not counted, so the caller must list them.
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

// serviceKind is the kind whose Events are reported. A kind Service of another API group has no such Events.
const serviceKind = "Service"

// ServiceWarnings returns the latest Warning Events about a Service, none if they cannot be read.
func ServiceWarnings(ctx context.Context, target client.Reader, namespace, name string) []corev1.Event {
	events := &corev1.EventList{}
	err := target.List(ctx, events, client.InNamespace(namespace),
		client.MatchingFields{"involvedObject.name": name, "involvedObject.kind": serviceKind})
	if err != nil {
		log.FromContext(ctx).Info("Cannot read Events of a Service", "service", name, "reason", err.Error())
		return nil
	}
	return rules.Warnings(events.Items, corev1.ObjectReference{APIVersion: "v1", Kind: serviceKind, Namespace: namespace, Name: name})
}

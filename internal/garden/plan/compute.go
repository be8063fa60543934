package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/difference"
	"github.com/espalier-dev/espalier/internal/apply/manifest"
	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/exposure"
	"github.com/espalier-dev/espalier/internal/garden/component/globalmonitoring"
	"github.com/espalier-dev/espalier/internal/garden/component/istio"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/lifecycle"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// The clusters of objects.
const (
	runtimeCluster = "runtime"
	virtualCluster = "virtual"
)

// maxPasses bounds the reconciliations that follow each other at once, as the reconciliations after a change of the encryption do.
const maxPasses = 3

// unknownUID stands for the UID of a Garden that does not exist yet.
const unknownUID types.UID = "00000000-0000-0000-0000-000000000000"

// virtualTasks are the rows whose tasks write in the virtual cluster, or wait for it. A plan only says that they run.
func virtualTasks() []string {
	return []string{
		components.Connection, component.VirtualLeftovers, components.TokenRenewal, components.SeedTokens, components.SeedIdentities,
		components.SeedKubeconfigs, components.SeedMonitoring, components.Rewrite, components.Snapshot, components.RewriteEnd,
		components.RotationProof,
	}
}

// simulation runs a reconciler with an overlay.
type simulation struct {
	*overlay
	rows    map[string]component.Component // by task
	serial  sync.Mutex                     // held while a task runs
	remarks []string
	refused []string // operations and aborts that are refused
}

// Compute foresees the reconciliation of a Garden. The parameter reconciler is the reconciler of the operator, and the field Client of the
// reconciler reads the runtime cluster. Live is the Garden in the cluster, or nil if there is none. Next is the Garden after the change,
// with all defaults.
func Compute(ctx context.Context, reconciler lifecycle.Reconciler, live, next *operatorv1alpha1.Garden) (*Plan, error) {
	p, _, err := compute(ctx, reconciler, live, next)
	return p, err
}

// compute also returns the simulation.
func compute(
	ctx context.Context, reconciler lifecycle.Reconciler, live, next *operatorv1alpha1.Garden,
) (*Plan, *simulation, error) {
	s := &simulation{overlay: newOverlay(reconciler.Client, reconciler.Clock), rows: map[string]component.Component{}}
	for _, node := range components.Reconciliation() {
		s.rows[node.Name] = node.Component
	}
	stored := asStored(live, next, reconciler.Clock.Now())
	if err := s.put(stored); err != nil {
		return nil, nil, err
	}
	reconciler.Client, reconciler.Foresee, reconciler.Recorder = s, s.wrap, s
	reconciler.Expiry, reconciler.Issued, reconciler.Metrics = nil, nil, nil
	reconciler.Timing.ReportDelay = time.Hour // nothing reads reports of the progress
	p := &Plan{Garden: next.Name, New: live == nil, Objects: []Object{}, Restarts: []Restart{}, Tasks: []Task{}}
	end, err := s.reconcile(ctx, &reconciler, stored.Name)
	p.Refused = append(p.Refused, s.refused...)
	if err != nil {
		p.Refused = append(p.Refused, sentences(err)...)
	}
	if paused := corev1beta1.GetCondition(end.Status.Conditions, operatorv1alpha1.ReconciliationPaused); paused != nil &&
		paused.Status == corev1beta1.ConditionTrue {
		s.remark("The Garden is paused, so nothing happens until it is resumed: " + paused.Message)
	}
	if live != nil {
		if problem := virtualProblem(ctx, reconciler.Connection); problem != nil {
			s.remark(unreachable(problem))
		}
		if failure := p.compareGardens(live, stored); failure != nil {
			return nil, nil, failure
		}
		p.Lost = lossesOf(live, stored)
	}
	all, err := s.histories(ctx)
	if err != nil {
		return nil, nil, err
	}
	p.Lost, p.images = append(p.Lost, lostHosts(all)...), imagesOf(all)
	p.Objects, p.Restarts = append(p.Objects, objectsOf(all)...), append(p.Restarts, restartsOf(all, s.contents(ctx))...)
	p.Tasks = tasksOf(end.Status.Tasks, live, p.Objects)
	p.Seconds = lastReconciliation(live)
	p.Remarks = append(p.Remarks, s.remarks...)
	return p, s, ctx.Err()
}

// asStored returns the Garden as the API server would store it.
func asStored(live, next *operatorv1alpha1.Garden, now time.Time) *operatorv1alpha1.Garden {
	stored := next.DeepCopy()
	stored.SetGroupVersionKind(operatorv1alpha1.SchemeGroupVersion.WithKind("Garden"))
	if live == nil {
		stored.UID, stored.Generation, stored.CreationTimestamp, stored.ResourceVersion = unknownUID, 1, metav1.NewTime(now), "planned"
		return stored
	}
	spec, annotations, labels := stored.Spec, stored.Annotations, stored.Labels
	live.DeepCopyInto(stored)
	stored.SetGroupVersionKind(operatorv1alpha1.SchemeGroupVersion.WithKind("Garden"))
	for key, value := range annotations {
		metav1.SetMetaDataAnnotation(&stored.ObjectMeta, key, value)
	}
	for key, value := range labels {
		metav1.SetMetaDataLabel(&stored.ObjectMeta, key, value)
	}
	if !equality.Semantic.DeepEqual(spec, live.Spec) {
		stored.Spec, stored.Generation = spec, live.Generation+1
	}
	return stored
}

// reconcile runs reconciliations until none follows at once, and returns the Garden afterwards. The error says why one of them failed.
func (s *simulation) reconcile(ctx context.Context, r *lifecycle.Reconciler, name string) (*operatorv1alpha1.Garden, error) {
	end := &operatorv1alpha1.Garden{}
	for pass := 1; ; pass++ {
		result, failure := r.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
		if err := s.Get(ctx, client.ObjectKey{Name: name}, end); err != nil {
			return end, errors.Join(failure, err)
		}
		again := result.RequeueAfter > 0 && result.RequeueAfter < time.Second
		if failure != nil || !again || pass == maxPasses {
			return end, failure
		}
		s.remark("Another reconciliation follows at once; the plan contains it.")
	}
}

// wrap returns a task for the simulation. Tasks run one after the other, because none of them waits.
func (s *simulation) wrap(task flow.Task) flow.Task {
	if task.Run == nil {
		return task
	}
	work, row := task.Run, s.rows[task.Name].Name
	task.Run = func(ctx context.Context) error {
		s.serial.Lock()
		defer s.serial.Unlock()
		switch {
		case slices.Contains(virtualTasks(), row):
			s.remark(fmt.Sprintf("Task %q works in the virtual cluster, which the plan does not foresee.", task.Name))
			if row == components.RotationProof {
				s.remark("The proof keeps a credential of the former generation in Secret " + rotation.ClientProbe + "-… or " +
					rotation.TokenProbe + "-… until the rotation completes.")
			}
			return nil
		case row == component.DNSRecords && !s.hasAddress(ctx):
			s.remark("The DNSRecords are not in the plan, because Service " + istio.GatewayNamespace + "/" + istio.Gateway + " has no address yet.")
			return nil
		}
		return s.during(task.Name, func() error { return work(ctx) })
	}
	return task
}

// hasAddress reports whether the gateway has an address.
func (s *simulation) hasAddress(ctx context.Context) bool {
	gateway := &corev1.Service{}
	err := s.Get(ctx, client.ObjectKey{Namespace: istio.GatewayNamespace, Name: istio.Gateway}, gateway)
	return err == nil && exposure.Problem(gateway) == ""
}

func (s *simulation) remark(text string) {
	if !slices.Contains(s.remarks, text) {
		s.remarks = append(s.remarks, text)
	}
}

// Eventf implements events.EventRecorder. Warnings that an operation has no effect become refusals, and other warnings become remarks.
// Failures are left out, because the result already contains them. Normal Events are left out, too.
func (s *simulation) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	text := fmt.Sprintf(note, args...)
	switch {
	case kind != corev1.EventTypeWarning || strings.HasSuffix(reason, "Failed"):
	case reason != lifecycle.ReasonOperationRefused:
		s.remark(reason + ": " + text)
	case !slices.Contains(s.refused, text):
		s.refused = append(s.refused, text)
	}
}

// answerTimeout bounds the request that shows whether the virtual cluster answers.
const answerTimeout = 10 * time.Second

// virtualProblem returns why the virtual cluster cannot be reached.
func virtualProblem(ctx context.Context, connection *virtual.Connection) error {
	clients, err := connection.Clients(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return clients.REST.Get().AbsPath("/readyz").Do(ctx).Error()
}

// unreachable names the parts of a plan that depend on the virtual cluster.
func unreachable(problem error) string {
	return fmt.Sprintf("The virtual cluster cannot be reached (%v): the plan has neither the result of the checks %s and %s nor what depends "+
		"on its Seeds in %s and %s.", problem, virtual.CheckDeprecatedAPIs, virtual.CheckQuota, component.PrometheusGarden,
		globalmonitoring.Component.Name)
}

// compareGardens lists the fields of the Garden that the file changes.
func (p *Plan) compareGardens(live, stored *operatorv1alpha1.Garden) error {
	both := make([]*unstructured.Unstructured, 2)
	for i, each := range []*operatorv1alpha1.Garden{live, stored} {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(each)
		if err != nil {
			return fmt.Errorf("convert Garden: %w", err)
		}
		delete(content, "status")
		both[i] = &unstructured.Unstructured{Object: content}
		both[i].SetGroupVersionKind(operatorv1alpha1.SchemeGroupVersion.WithKind("Garden"))
	}
	p.Fields, p.MoreFields = difference.Of(both[0], both[1], true)
	return nil
}

// sentences returns the errors of a reconciliation, one for each task.
func sentences(err error) []string {
	if tasks, ok := errors.AsType[flow.TaskErrors](err); ok {
		texts := make([]string, 0, len(tasks))
		for _, each := range tasks {
			texts = append(texts, each.Error())
		}
		return texts
	}
	return []string{err.Error()}
}

// histories returns the objects that the simulation has written, except Gardens. In place of ManagedResources and their Secrets, it
// returns the objects of the ManagedResources.
func (s *simulation) histories(ctx context.Context) ([]history, error) {
	var all []history
	content := map[string]bool{} // the Secrets of ManagedResources
	written := s.entries()
	for _, each := range written {
		if each.kind.GroupKind() != rollout.ManagedResource.GroupKind() {
			continue
		}
		of, err := s.setHistories(ctx, each, content)
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	for _, each := range written {
		switch {
		case each.kind.GroupKind() == rollout.ManagedResource.GroupKind():
		case each.kind.Kind == "Garden" && each.kind.Group == operatorv1alpha1.GroupName:
		case each.kind.Kind == "Secret" && content[nameOf(each)]:
		default:
			all = append(all, directHistory(each))
		}
	}
	return all, nil
}

func nameOf(e *entry) string {
	for _, each := range e.states {
		if each.object != nil {
			return each.object.GetNamespace() + "/" + each.object.GetName()
		}
	}
	if e.live != nil {
		return e.live.GetNamespace() + "/" + e.live.GetName()
	}
	return ""
}

func directHistory(e *entry) history {
	h := history{cluster: runtimeCluster, states: []*unstructured.Unstructured{e.live}}
	for _, each := range e.states {
		h.states, h.task = append(h.states, each.object), each.task
	}
	return h
}

// setHistories returns the histories of the objects of a ManagedResource, and adds its Secrets to content.
func (s *simulation) setHistories(ctx context.Context, e *entry, content map[string]bool) ([]history, error) {
	cluster := virtualCluster
	states := append([]state{{object: e.live}}, e.states...)
	var contents []map[id]*unstructured.Unstructured
	name, task := nameOf(e), ""
	for _, each := range states {
		task = each.task
		if each.object != nil {
			if class, _, _ := unstructured.NestedString(each.object.Object, "spec", "class"); class != "" {
				cluster = runtimeCluster
			}
		}
		objects, err := s.manifests(ctx, each.object, content)
		if err != nil {
			return nil, fmt.Errorf("read ManagedResource %s: %w", name, err)
		}
		contents = append(contents, objects)
	}
	var keys []id
	for _, each := range contents {
		for key := range each {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	slices.SortFunc(keys, func(a, b id) int { return strings.Compare(a.String(), b.String()) })
	all := make([]history, 0, len(keys))
	for _, key := range keys {
		h := history{cluster: cluster, set: name, task: task, exact: true}
		for _, each := range contents {
			h.states = append(h.states, each[key])
		}
		all = append(all, h)
	}
	return all, nil
}

// manifests returns the objects of a ManagedResource; none if it is nil.
func (s *simulation) manifests(
	ctx context.Context, set *unstructured.Unstructured, content map[string]bool,
) (map[id]*unstructured.Unstructured, error) {
	objects := map[id]*unstructured.Unstructured{}
	if set == nil {
		return objects, nil
	}
	refs, _, err := unstructured.NestedSlice(set.Object, "spec", "secretRefs")
	if err != nil {
		return nil, err
	}
	for _, each := range refs {
		ref, _ := each.(map[string]any)
		name, _ := ref["name"].(string)
		content[set.GetNamespace()+"/"+name] = true
		secret, err := s.ever(ctx, corev1.SchemeGroupVersion.WithKind("Secret"), set.GetNamespace(), name)
		if err != nil {
			return nil, err
		}
		if secret == nil {
			continue
		}
		data, _, err := unstructured.NestedMap(secret.Object, "data")
		if err != nil {
			return nil, err
		}
		if err := addManifests(objects, data); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

func addManifests(objects map[id]*unstructured.Unstructured, data map[string]any) error {
	for key := range data {
		value, err := decoded(data, key)
		if err != nil {
			return err
		}
		documents, failure := manifest.Split(key, value, 0)
		if failure != nil {
			return failure
		}
		for _, document := range documents {
			content, err := document.Decode()
			if err != nil {
				return err
			}
			if content == nil {
				continue
			}
			o := &unstructured.Unstructured{Object: content}
			objects[id{o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()}] = o
		}
	}
	return nil
}

// ever returns an object that exists in the cluster or that the simulation has created, even if the simulation has deleted the object. It
// returns nil if there is no such object.
func (s *simulation) ever(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	if written, found := s.objects[id{kind.GroupKind(), namespace, name}]; found {
		for _, each := range slices.Backward(written.states) {
			if each.object != nil {
				return each.object, nil
			}
		}
		return written.live, nil
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(kind)
	err := s.WithWatch.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, live)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	return live, err
}

// contents returns a function that reads the data of Secrets and ConfigMaps. The plan names only the keys that differ, so it needs no
// error: an object that cannot be read has no data.
func (s *simulation) contents(ctx context.Context) contents {
	return func(kind, namespace, name string) map[string]any {
		o, err := s.ever(ctx, corev1.SchemeGroupVersion.WithKind(kind), namespace, name)
		if err != nil || o == nil {
			return nil
		}
		data, _, _ := unstructured.NestedMap(o.Object, "data")
		return data
	}
}

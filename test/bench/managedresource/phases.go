package managedresource

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/local"
)

// workload is a number of sets with objects. A measurement takes it through every phase.
type workload struct {
	size
	// twoClusters puts the sets into another cluster than their objects.
	twoClusters bool
	// rest is the length of the idle window.
	rest time.Duration
	// repairs is how many objects are changed, one after the other.
	repairs int
	// calm is the length of an interval without activity that counts as idle.
	calm time.Duration
}

// size is a number of sets and of objects in each.
type size struct{ sets, objects int }

func (s size) String() string { return fmt.Sprintf("%d×%d", s.sets, s.objects) }

func (s size) total() int { return s.sets * s.objects }

func (w workload) String() string {
	if w.twoClusters {
		return w.size.String() + ", 2 clusters"
	}
	return w.size.String()
}

// measure runs all phases. It always adds the same rows, also for phases that could not be measured.
func (w workload) measure(r *harness.Run) {
	f := figures{workload: w}
	defer func() { r.Add(f.rows()) }()
	b := open(r, setup{parts: local.Options{ControllerManager: true}}, w)
	defer r.Within("measure %s", w)
	r.Step("workload %s: creating %d namespaces and starting the controller", w, 2*b.sets)
	b.createNamespaces()
	b.startController()
	for _, phase := range []func(*figures){
		b.floor, b.converge, b.floor, b.atRest, b.drift, b.changeFloor, b.update, b.changeFloor, b.restart, b.remove, b.floor,
	} {
		phase(&f)
	}
}

// floor measures the bare client: the times to create the objects of all sets, and to delete them until the last one is gone. It uses its
// own namespaces and leaves none of its objects.
func (b *bench) floor(f *figures) {
	items := b.bareItems()
	b.settle()
	created := b.Timed(len(items), workers, func(i int) { b.Check(b.target.bare.Create(b.Ctx, items[i])) })
	b.settle()
	w := b.Follow(b.allObjects(floorRun)...)
	defer w.Stop()
	begin := time.Now()
	b.Parallel(len(items), workers, func(i int) { b.removeBare(items[i]) })
	deleted := w.Until(harness.Patience, "the objects of the bare client to be gone", harness.UntilGone(len(items))).Sub(begin)
	f.creations, f.deletions = append(f.creations, created), append(f.deletions, deleted)
	b.Step("floor %d: a bare client created %d objects in %s; it deleted them, and they were gone, in %s",
		len(f.creations), len(items), harness.Seconds(created), harness.Seconds(deleted))
}

// bareItems returns the objects of the bare client, set by set.
func (b *bench) bareItems() []*unstructured.Unstructured {
	items := make([]*unstructured.Unstructured, 0, b.total())
	for set := range b.sets {
		items = append(items, itemsOf(floorRun, set, b.objects, dataBefore)...)
	}
	return items
}

func (b *bench) removeBare(o *unstructured.Unstructured) {
	b.Check(b.target.bare.Delete(b.Ctx, o, deleteOptions(o)...))
}

// change is a phase whose time is measured from the moment before its cause until the watches show the effect.
type change struct {
	name, effect string
	subjects     []harness.Subject
	cause        func(int) // for each set
	done         func(harness.Event) bool
}

// measureChange waits until the control plane is idle, and then measures the time of a change.
func (b *bench) measureChange(c change) time.Duration {
	defer b.Within("%s", c.name)
	b.settle()
	w := b.Follow(c.subjects...)
	defer w.Stop()
	place := b.mark()
	begin := time.Now()
	var caused, took time.Duration
	b.Together(
		func() { caused = b.Timed(b.sets, workers, c.cause) },
		func() { took = w.Until(harness.Patience, c.effect, c.done).Sub(begin) },
	)
	b.Step("%s: done after %s (the last request was answered after %s)", c.name, harness.Seconds(took), harness.Seconds(caused))
	b.Detail("requests of the controller: %s", b.requests(place))
	return took
}

// converge creates all sets and measures the time from the first request until the last set is applied.
func (b *bench) converge(f *figures) {
	data := b.secretsData(dataBefore)
	f.converge = b.measureChange(change{
		name: "converge", effect: "all sets to be applied", subjects: []harness.Subject{b.allSets(true)},
		cause: func(set int) { b.createSetOf(sourceNamespace, set, data[set], "") },
		done:  harness.UntilAll(b.sets, func(e harness.Event) string { return appliedIn(sourceNamespace, e) }),
	})
	b.requireObjects()
}

// appliedIn returns the name of a set that an event shows as applied in a namespace, or "".
func appliedIn(namespace string, e harness.Event) string {
	set, ok := e.Object.(*resourcesv1alpha1.ManagedResource)
	if !ok || set.Namespace != namespace || applied(set) == "" {
		return ""
	}
	return set.Name
}

// secretsData renders the Secret of each set.
func (b *bench) secretsData(data string) [][]byte {
	all := make([][]byte, b.sets)
	for set := range all {
		all[set] = secretData(itemsOf(oursRun, set, b.objects, data))
	}
	return all
}

// createSet creates a set with these objects.
func (b *bench) createSet(set int, items ...*unstructured.Unstructured) {
	b.createSetOf(sourceNamespace, set, secretData(items), "")
}

// createSetOf creates a set of a class, or of the default class, and returns its ManagedResource.
func (b *bench) createSetOf(namespace string, set int, data []byte, class string) *resourcesv1alpha1.ManagedResource {
	secret, managedResource := setOf(namespace, set, data)
	if class != "" {
		managedResource.Spec.Class = &class
	}
	b.Check(b.source.bare.Create(b.Ctx, secret))
	b.Check(b.source.bare.Create(b.Ctx, managedResource))
	return managedResource
}

// requireObjects checks that the sets have created all their objects.
func (b *bench) requireObjects() {
	found := 0
	for _, kind := range managedKinds() {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		b.Checkf(b.target.Client.List(b.Ctx, list, client.MatchingLabels{runLabel: oursRun}), "list %s", kind.Kind)
		found += len(list.Items)
	}
	if found != b.total() {
		b.Check(fmt.Errorf("all sets are applied by their status, but %d of their %d objects exist", found, b.total()))
	}
}

// drift changes objects, one after the other: every second one is edited (a ConfigMap), the others are deleted.
func (b *bench) drift(f *figures) {
	defer b.Within("repair drift")
	b.settle()
	all := b.allObjects(oursRun)
	for i := range all {
		all[i].Full = all[i].Kind == configMapKind
	}
	w := b.Follow(all...)
	defer w.Stop()
	edited, deleted := driftingObjects(b.size, b.repairs)
	place := b.mark()
	for i := range min(len(edited), len(deleted)) {
		f.repairs = append(f.repairs, b.repairEdited(w, edited[i]), b.repairDeleted(w, deleted[i]))
	}
	median, longest := harness.Median(f.repairs), harness.Longest(f.repairs)
	b.Step("drift: %d repairs, median %s, max %s", len(f.repairs), harness.Seconds(median), harness.Seconds(longest))
	b.Detail("requests of the controller: %s", b.requests(place))
}

// driftingObjects returns different objects to edit and to delete, half of repairs each. They are the same in every run.
func driftingObjects(s size, repairs int) (edited, deleted []*unstructured.Unstructured) {
	half := (repairs + 1) / 2
	for _, index := range rand.New(rand.NewPCG(uint64(s.sets), uint64(s.objects))).Perm(s.total()) {
		i := itemOf(oursRun, index/s.objects, index%s.objects, dataBefore)
		switch {
		case len(edited) < half && i.GetKind() == configMapKind.Kind:
			edited = append(edited, i)
		case len(deleted) < half:
			deleted = append(deleted, i)
		case len(edited) == half:
			return edited, deleted
		}
	}
	return edited, deleted
}

// otherManager is the field manager that changes objects.
const otherManager = "another-client"

// repairEdited measures from the response to the edit until a watch shows the previous data again.
func (b *bench) repairEdited(w *harness.Follower, o *unstructured.Unstructured) time.Duration {
	const driftedData = "drifted"
	b.Pause(repairPause)
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{%q:%q}}`, dataKey, driftedData))
	b.Check(b.target.Client.Patch(b.Ctx, o.DeepCopy(), patch, client.FieldOwner(otherManager)))
	begin, drifted := time.Now(), false
	end := w.Until(time.Minute, "the edited "+describe(o)+" to be restored", func(e harness.Event) bool {
		configMap, ok := e.Object.(*corev1.ConfigMap)
		if !ok || !e.IsOf(configMapKind, o) {
			return false
		}
		says := configMap.Data[dataKey]
		restored := drifted && says == dataBefore
		drifted = drifted || says == driftedData
		return restored
	})
	return max(0, end.Sub(begin))
}

// repairDeleted measures from the response to the deletion until a watch shows a new object of that name.
func (b *bench) repairDeleted(w *harness.Follower, o *unstructured.Unstructured) time.Duration {
	b.Pause(repairPause)
	before := o.DeepCopy()
	b.Check(b.target.Client.Get(b.Ctx, client.ObjectKeyFromObject(o), before))
	b.Check(b.target.Client.Delete(b.Ctx, o, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	begin := time.Now()
	end := w.Until(time.Minute, "the deleted "+describe(o)+" to be restored", func(e harness.Event) bool {
		return e.IsOf(o.GroupVersionKind(), o) && !e.Deleted && e.Object.GetUID() != before.GetUID()
	})
	return max(0, end.Sub(begin))
}

// bareSets is the namespace of the sets in which the bare client changes an object. The controller does not process these sets, because
// they have the class bareSetClass.
const bareSets, bareSetClass = "bench-bare-sets", "bench-floor"

// bareChecksum is the checksum that the bare client writes into the status.
const bareChecksum = "changed by the bare client"

// changeFloor measures the minimum cost, for any controller, of a change of one object in every set: the Secret is changed in the same way,
// and then the bare client reads it, reads and replaces the ConfigMap, and writes the status of a set. The status is as large as the status
// of the controller's sets, and the same watches run, since the size and the watches cost the API server time.
func (b *bench) changeFloor(f *figures) {
	b.createBareSets(f)
	after := b.secretsData(dataAfter)
	f.updateFloors = append(f.updateFloors, b.measureChange(change{
		name: "update-floor", effect: "the bare client to have changed one object in every set",
		subjects: []harness.Subject{b.allSets(true), b.objectsOf(floorRun, configMapKind, true)},
		cause:    func(set int) { b.changeBareSet(set, after[set]) },
		done: harness.UntilAll(b.sets, func(e harness.Event) string {
			set, ok := e.Object.(*resourcesv1alpha1.ManagedResource)
			if !ok || set.Namespace != bareSets || ptr.Deref(set.Status.SecretsDataChecksum, "") != bareChecksum {
				return ""
			}
			return set.Name
		}),
	}))
	b.Parallel(b.sets, workers, func(set int) {
		for _, each := range itemsOf(floorRun, set, b.objects, "") {
			b.removeBare(each)
		}
		secret, managedResource := setOf(bareSets, set, nil)
		b.Check(b.source.bare.Delete(b.Ctx, managedResource))
		b.Check(b.source.bare.Delete(b.Ctx, secret))
	})
}

// createBareSets measures the minimum cost of new sets for any controller that writes a new ManagedResource three times: the bare client
// creates a set for each one of the controller, reads its Secret, adds metadata, announces the objects in the status, creates them, and
// writes the status.
func (b *bench) createBareSets(f *figures) {
	data, items := b.secretsData(dataBefore), slices.Collect(slices.Chunk(b.bareItems(), b.objects))
	statuses := map[string]resourcesv1alpha1.ManagedResourceStatus{}
	for _, each := range b.managedResources() {
		statuses[each.Name] = each.Status
	}
	f.setFloors = append(f.setFloors, b.measureChange(change{
		name: "set-floor", effect: "the bare client to have created all sets", subjects: []harness.Subject{b.allSets(true)},
		cause: func(set int) { b.createBareSet(set, data[set], items[set], statuses[setName(set)]) },
		done:  harness.UntilAll(b.sets, func(e harness.Event) string { return appliedIn(bareSets, e) }),
	}))
}

func (b *bench) createBareSet(
	set int, data []byte, items []*unstructured.Unstructured, status resourcesv1alpha1.ManagedResourceStatus,
) {
	managedResource := b.createSetOf(bareSets, set, data, bareSetClass)
	finalizer := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"instead-of":"finalizer"}}}`))
	b.Check(b.source.bare.Patch(b.Ctx, managedResource, finalizer))
	b.readBareSecret(set)
	b.patchBareStatus(set, resourcesv1alpha1.ManagedResourceStatus{Resources: status.Resources})
	for _, each := range items {
		b.Check(b.target.bare.Create(b.Ctx, each))
	}
	b.patchBareStatus(set, status)
}

func (b *bench) readBareSecret(set int) {
	b.Check(b.source.bare.Get(b.Ctx, client.ObjectKey{Namespace: bareSets, Name: setName(set)}, &corev1.Secret{}))
}

func (b *bench) patchBareStatus(set int, status resourcesv1alpha1.ManagedResourceStatus) {
	patch, err := json.Marshal(map[string]any{"status": status})
	b.Checkf(err, "encode patch")
	_, managedResource := setOf(bareSets, set, nil)
	b.Check(b.source.bare.Status().Patch(b.Ctx, managedResource, client.RawPatch(types.MergePatchType, patch)))
}

func (b *bench) changeBareSet(set int, data []byte) {
	b.patchSecret(bareSets, set, data)
	b.readBareSecret(set)
	wanted := itemOf(floorRun, set, changingConfigMap, dataAfter)
	live := wanted.DeepCopy()
	b.Check(b.target.bare.Get(b.Ctx, client.ObjectKeyFromObject(wanted), live))
	live.Object["data"] = wanted.Object["data"]
	b.Check(b.target.bare.Update(b.Ctx, live))
	b.patchBareStatus(set, resourcesv1alpha1.ManagedResourceStatus{SecretsDataChecksum: ptr.To(bareChecksum)})
}

// update changes one ConfigMap in the Secret of every set, and measures the time until all ConfigMaps are seen with the new data and all
// sets are applied with another checksum.
func (b *bench) update(f *figures) {
	data, checksums := b.secretsData(dataAfter), map[string]string{}
	for _, set := range b.managedResources() {
		checksums[set.Name] = applied(&set)
	}
	f.updateTotal = b.measureChange(change{
		name: "update", effect: "the change to be applied in all sets", done: untilUpdated(b.sets, checksums),
		subjects: []harness.Subject{b.allSets(true), b.objectsOf(oursRun, configMapKind, true)},
		cause:    func(set int) { b.patchSecret(sourceNamespace, set, data[set]) },
	})
}

// untilUpdated returns a function that returns true for the event that shows the last result of an update: for each set, it waits for the
// ConfigMap with the new data, and for the set to be applied with another checksum than before.
func untilUpdated(sets int, before map[string]string) func(harness.Event) bool {
	return harness.UntilAll(2*sets, func(e harness.Event) string {
		switch o := e.Object.(type) {
		case *corev1.ConfigMap:
			if o.Data[dataKey] == dataAfter {
				return "ConfigMap of " + o.Labels["app.kubernetes.io/instance"]
			}
		case *resourcesv1alpha1.ManagedResource:
			if checksum := applied(o); checksum != "" && checksum != before[o.Name] {
				return o.Name
			}
		}
		return ""
	})
}

func (b *bench) patchSecret(namespace string, set int, data []byte) {
	secret, _ := setOf(namespace, set, nil)
	patch := fmt.Appendf(nil, `{"data":{%q:%q}}`, manifestKey, base64.StdEncoding.EncodeToString(data))
	b.Check(b.source.bare.Patch(b.Ctx, secret, client.RawPatch(types.MergePatchType, patch)))
}

// remove deletes all sets and measures the time until the last set and the last object are gone.
func (b *bench) remove(f *figures) {
	f.remove = b.measureChange(change{
		name: "delete", effect: "all sets and their objects to be gone",
		subjects: append(b.allObjects(oursRun), b.allSets(false)), done: harness.UntilGone(b.sets + b.total()),
		cause: func(set int) {
			_, managedResource := setOf(sourceNamespace, set, nil)
			b.Check(b.source.bare.Delete(b.Ctx, managedResource))
		},
	})
}

// restFigures are the costs of the controller while nothing happens.
type restFigures struct {
	window time.Duration
	// managed is the number of requests for objects of the sets. other is the number of all other requests except watches and requests for
	// leases.
	managed, other int
	cpu            time.Duration
	memory         int64
}

// perMinute converts a number of events in the window to a number per minute.
func (r restFigures) perMinute(n float64) float64 { return n / r.window.Minutes() }

func (b *bench) atRest(f *figures) {
	b.settle()
	b.quiet()
	b.Step("at rest: a window of %s begins", b.rest)
	place, before, begin := b.mark(), b.controller.Usage(), time.Now()
	b.Pause(b.rest)
	after := b.controller.Usage()
	r := restFigures{window: time.Since(begin), cpu: after.Processor - before.Processor, memory: after.Resident}
	counted := b.requests(place).Only(harness.Request.Counts)
	r.managed = len(counted.Only(isManaged))
	r.other = len(counted) - r.managed
	f.rest = r
	b.Step("at rest: %.1f requests a minute to managed objects, %.1f others, CPU %.2f s a minute, %s",
		r.perMinute(float64(r.managed)), r.perMinute(float64(r.other)), r.perMinute(r.cpu.Seconds()), harness.Mebibytes(r.memory))
	b.Detail("requests of the controller: %s", counted)
}

// quiet waits until the controller has sent no counted request for five calm intervals, at most two minutes.
func (b *bench) quiet() {
	b.tryAwait(2*time.Minute, "the controller to be quiet", func(context.Context) error {
		place := b.mark()
		b.Pause(5 * b.calm)
		if counted := b.requests(place).Only(harness.Request.Counts); len(counted) > 0 {
			return errors.New(counted.String())
		}
		return nil
	})
}

// restart measures from the start of a new process until the process has determined that all objects are in sync, and counts its reads.
func (b *bench) restart(f *figures) {
	defer b.Within("restart")
	b.settle()
	b.controller.Stop()
	place := b.mark()
	b.controller.Start()
	b.inSync()
	f.restart = time.Since(b.controller.Started)
	b.Pause(2 * time.Second) // later requests also belong to the restart
	requests := b.requests(place)
	managed := requests.Only(isManaged)
	f.restartReads = len(managed.Only(func(q harness.Request) bool { return q.Verb == "get" }))
	f.restartWrites = len(managed.Only(harness.Request.IsWrite))
	b.Step("restart: in sync %s after the start of the process", harness.Seconds(f.restart))
	b.Detail("requests of the controller: %s", requests)
}

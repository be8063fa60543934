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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/test/bench/harness"
)

// workload is a number of sets with objects that go through every phase.
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

// measure adds the same rows in every case, also those that could not be measured.
func (w workload) measure(r *harness.Run) {
	f := figures{workload: w}
	defer func() { r.Add(f.rows()) }()
	b := open(r, setup{Setup: harness.Setup{ControllerManager: true}, twoClusters: w.twoClusters}, w)
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

// floor is the time of the bare client to create the objects of all sets, and to delete them until the last one is gone.
type floor struct{ create, remove time.Duration }

// floor uses its own namespaces and leaves none of its objects.
func (b *bench) floor(f *figures) {
	items := b.bareItems()
	b.settle()
	var measured floor
	place, usage := b.mark(), b.usage()
	round, n := len(f.floors)+1, float64(len(items))
	measured.create = b.Timed(len(items), workers, func(i int) { b.Check(create(b.Ctx, b.target.bare, items[i])) })
	b.Step("floor %d: a bare client created %.0f objects in %s (%.0f/s)",
		round, n, harness.Seconds(measured.create), n/measured.create.Seconds())
	b.Detail("CPU: %s", b.usage().Since(usage))
	b.Detail("requests: %s", b.requests(place, bareName).Pressure())
	b.settle()
	usage = b.usage()
	w := b.follow(subjects(floorRun)...)
	defer w.stop()
	begin := time.Now()
	b.Parallel(len(items), workers, func(i int) {
		b.Check(remove(b.Ctx, b.target.bare, items[i], deleteOptions(items[i].resource)))
	})
	measured.remove = b.until(w, harness.Patience, "the objects of the bare client to be gone", untilGone(len(items))).Sub(begin)
	b.Step("floor %d: it deleted them, and they were gone, in %s (%.0f/s)",
		round, harness.Seconds(measured.remove), n/measured.remove.Seconds())
	b.Detail("CPU: %s", b.usage().Since(usage))
	f.floors = append(f.floors, measured)
}

// bareItems returns the objects of the bare client, set by set.
func (b *bench) bareItems() []item {
	items := make([]item, 0, b.total())
	for set := range b.sets {
		items = append(items, itemsOf(floorRun, set, b.objects, dataBefore)...)
	}
	return items
}

// change is a phase: its time is from before the cause until the watches show the effect.
type change struct {
	name, effect string
	subjects     []subject
	cause        func(int) // for each set
	done         func(event) bool
	// profile is the length of the profile.
	profile time.Duration
}

// measureChange waits until the control plane is idle, and then measures the time of a change.
func (b *bench) measureChange(c change) time.Duration {
	defer b.Within("%s", c.name)
	b.settle()
	w := b.follow(c.subjects...)
	defer w.stop()
	place, usage := b.mark(), b.usage()
	profiled := b.profile(c.name, c.profile)
	begin := time.Now()
	var caused, took time.Duration
	b.Together(
		func() { caused = b.Timed(b.sets, workers, c.cause) },
		func() { took = b.until(w, harness.Patience, c.effect, c.done).Sub(begin) },
	)
	used := b.usage().Since(usage)
	profiled()
	b.Step("%s: done after %s (the last request was answered after %s)", c.name, harness.Seconds(took), harness.Seconds(caused))
	b.Detail("CPU: %s", used)
	b.reportRequests(place)
	return took
}

// converge measures from the first request that creates a set until the last set is applied.
func (b *bench) converge(f *figures) {
	data, done := b.secretsData(dataBefore), map[string]bool{}
	defer b.Explain(func(err error) error { return fmt.Errorf("%w; %d of %d sets are applied", err, len(done), b.sets) })
	f.converge = b.measureChange(change{
		name: "converge", effect: "all sets to be applied", profile: f.createFloors()[0],
		subjects: []subject{{resource: managedResources, full: true}},
		cause:    func(set int) { b.Check(b.createSet(b.Ctx, set, data[set])) },
		done:     b.everySet(done, isApplied),
	})
	b.requireObjects()
}

// everySet returns a function that adds the sets that match to done, and returns true for the last one.
func (b *bench) everySet(done map[string]bool, match func(event) bool) func(event) bool {
	return func(e event) bool {
		if match(e) {
			done[e.object.GetName()] = true
		}
		return len(done) == b.sets
	}
}

func isApplied(e event) bool { return applied(e.content()) != "" }

// secretsData renders the Secret of each set.
func (b *bench) secretsData(data string) [][]byte {
	all := make([][]byte, b.sets)
	for set := range all {
		var err error
		all[set], err = secretData(itemsOf(oursRun, set, b.objects, data))
		b.Check(err)
	}
	return all
}

func (b *bench) createSet(ctx context.Context, set int, data []byte) error {
	secret, managedResource := setOf(sourceNamespace, set, data)
	if err := create(ctx, b.source.bare, secret); err != nil {
		return err
	}
	return create(ctx, b.source.bare, managedResource)
}

// requireObjects checks that the sets have created all their objects.
func (b *bench) requireObjects() {
	found := 0
	for _, resource := range managedKinds() {
		list, err := b.target.metadata.Resource(resource).List(b.Ctx, metav1.ListOptions{LabelSelector: runLabel + "=" + oursRun})
		b.Checkf(err, "list %s", resource.Resource)
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
	all := subjects(oursRun)
	for i := range all {
		all[i].full = all[i].resource == configMaps
	}
	w := b.follow(all...)
	defer w.stop()
	edited, deleted := driftingObjects(b.size, b.repairs)
	place := b.mark()
	profiled := b.profile("drift", 5*time.Second)
	for i := range 2 * min(len(edited), len(deleted)) {
		repair, object := b.repairEdited, edited[i/2]
		if i%2 == 1 {
			repair, object = b.repairDeleted, deleted[i/2]
		}
		took := repair(w, object)
		b.Pause(repairPause)
		f.repairs = append(f.repairs, took)
	}
	profiled()
	median, longest := harness.Median(f.repairs), harness.Longest(f.repairs)
	b.Step("drift: %d repairs, median %s, max %s", len(f.repairs), harness.Seconds(median), harness.Seconds(longest))
	b.reportRequests(place)
}

// driftingObjects returns different objects to edit and to delete, half of the number each. They are the same in every run.
func driftingObjects(s size, repairs int) (edited, deleted []item) {
	half := (repairs + 1) / 2
	for _, index := range rand.New(rand.NewPCG(uint64(s.sets), uint64(s.objects))).Perm(s.total()) {
		i := itemOf(oursRun, index/s.objects, index%s.objects, dataBefore)
		switch {
		case len(edited) < half && i.resource == configMaps:
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

// repairEdited measures from the response to the edit until a watch shows the former data.
func (b *bench) repairEdited(w *follower, i item) time.Duration {
	const driftedData = "drifted"
	patch := fmt.Appendf(nil, `{"data":{%q:%q}}`, dataKey, driftedData)
	_, err := i.in(b.target.objects).
		Patch(b.Ctx, i.object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: otherManager})
	b.Checkf(err, "edit %s", describe(i.object))
	begin, drifted := time.Now(), false
	end := b.until(w, time.Minute, "the edited "+describe(i.object)+" to be restored", func(e event) bool {
		if e.key() != i.key() {
			return false
		}
		says := textOf(e.content(), "data", dataKey)
		restored := drifted && says == dataBefore
		drifted = drifted || says == driftedData
		return restored
	})
	return max(0, end.Sub(begin))
}

// repairDeleted measures from the response to the deletion until a watch shows another object of that name.
func (b *bench) repairDeleted(w *follower, i item) time.Duration {
	before, err := i.in(b.target.objects).Get(b.Ctx, i.object.GetName(), metav1.GetOptions{})
	b.Checkf(err, "read %s", describe(i.object))
	background := metav1.DeletePropagationBackground
	b.Check(remove(b.Ctx, b.target.objects, i, metav1.DeleteOptions{PropagationPolicy: &background}))
	begin := time.Now()
	end := b.until(w, time.Minute, "the deleted "+describe(i.object)+" to be restored", func(e event) bool {
		return e.key() == i.key() && !e.deleted && e.object.GetUID() != before.GetUID()
	})
	return max(0, end.Sub(begin))
}

// bareSets is the namespace of the sets in which the bare client changes an object; bareSetClass excludes them from the controller.
const bareSets, bareSetClass = "bench-bare-sets", "bench-floor"

// bareChecksum is the checksum that the bare client writes into the status.
const bareChecksum = "changed by the bare client"

// changeFloor measures the minimum cost, for any controller, of a change of one object in every set: the Secret is changed in the same way,
// and then the bare client reads it, reads and replaces the ConfigMap, and writes the status of a set. The status is as large as those of
// the controller's sets, and the same watches and profiles run, since both cost the API server time.
func (b *bench) changeFloor(f *figures) {
	b.createBareSets(f)
	after := b.secretsData(dataAfter)
	f.updateFloors = append(f.updateFloors, b.measureChange(change{
		name: "update-floor", effect: "the bare client to have changed one object in every set", profile: time.Second,
		subjects: []subject{{resource: managedResources, full: true}, {resource: configMaps, selector: runLabel + "=" + floorRun, full: true}},
		cause:    func(set int) { b.changeBareSet(set, after[set]) },
		done: b.everySet(map[string]bool{}, func(e event) bool {
			return e.object.GetNamespace() == bareSets && textOf(e.content(), "status", "secretsDataChecksum") == bareChecksum
		}),
	}))
	b.Parallel(b.sets, workers, func(set int) {
		secret, managedResource := setOf(bareSets, set, nil)
		for _, each := range itemsOf(floorRun, set, b.objects, "") {
			b.Check(remove(b.Ctx, b.target.bare, each, deleteOptions(each.resource)))
		}
		b.Check(errors.Join(
			remove(b.Ctx, b.source.bare, managedResource, metav1.DeleteOptions{}), remove(b.Ctx, b.source.bare, secret, metav1.DeleteOptions{}),
		))
	})
}

// managedResources returns every set of the controller.
func (b *bench) managedResources() []unstructured.Unstructured {
	list, err := b.source.objects.Resource(managedResources).Namespace(sourceNamespace).List(b.Ctx, metav1.ListOptions{})
	b.Checkf(err, "list ManagedResources")
	return list.Items
}

// createBareSets measures the minimum cost of new sets for any controller that writes a new ManagedResource three times: the bare client
// creates a set for each one of the controller, reads its Secret, adds metadata, announces the objects in the status, creates them, and
// writes the status.
func (b *bench) createBareSets(f *figures) {
	data, items, statuses := b.secretsData(dataBefore), slices.Collect(slices.Chunk(b.bareItems(), b.objects)), map[string]any{}
	for _, each := range b.managedResources() {
		statuses[each.GetName()] = each.Object["status"]
	}
	f.setFloors = append(f.setFloors, b.measureChange(change{
		name: "set-floor", effect: "the bare client to have created all sets", profile: time.Second,
		subjects: []subject{{resource: managedResources, full: true}},
		cause:    func(set int) { b.createBareSet(set, data[set], items[set], statuses[setName(set)]) },
		done: b.everySet(map[string]bool{}, func(e event) bool {
			return e.object.GetNamespace() == bareSets && isApplied(e)
		}),
	}))
}

func (b *bench) createBareSet(set int, data []byte, items []item, status any) {
	secret, managedResource := setOf(bareSets, set, data)
	_ = unstructured.SetNestedField(managedResource.object.Object, bareSetClass, "spec", "class") // spec is a map
	b.Check(errors.Join(create(b.Ctx, b.source.bare, secret), create(b.Ctx, b.source.bare, managedResource)))
	b.patchBareSet(set, map[string]any{"metadata": map[string]any{"annotations": map[string]any{"instead-of": "finalizer"}}})
	b.readBareSecret(set)
	announced, _, err := unstructured.NestedFieldNoCopy(map[string]any{"status": status}, "status", "resources")
	b.Check(err)
	b.patchBareStatus(set, map[string]any{"resources": announced})
	for _, each := range items {
		b.Check(create(b.Ctx, b.target.bare, each))
	}
	b.patchBareStatus(set, status)
}

func (b *bench) readBareSecret(set int) {
	_, err := b.source.bare.Resource(secrets).Namespace(bareSets).Get(b.Ctx, setName(set), metav1.GetOptions{})
	b.Check(err)
}

func (b *bench) patchBareStatus(set int, status any) {
	b.patchBareSet(set, map[string]any{"status": status}, "status")
}

func (b *bench) patchBareSet(set int, content map[string]any, subresources ...string) {
	patch, err := json.Marshal(content)
	b.Checkf(err, "encode patch")
	_, err = b.source.bare.Resource(managedResources).Namespace(bareSets).
		Patch(b.Ctx, setName(set), types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
	b.Check(err)
}

func (b *bench) changeBareSet(set int, data []byte) {
	b.Check(b.patchSecret(b.Ctx, bareSets, set, data))
	b.readBareSecret(set)
	wanted := itemOf(floorRun, set, changingConfigMap, dataAfter)
	live, err := wanted.in(b.target.bare).Get(b.Ctx, wanted.object.GetName(), metav1.GetOptions{})
	b.Check(err)
	live.Object["data"] = wanted.object.Object["data"]
	_, err = wanted.in(b.target.bare).Update(b.Ctx, live, metav1.UpdateOptions{})
	b.Check(err)
	b.patchBareStatus(set, map[string]any{"secretsDataChecksum": bareChecksum})
}

// update changes one ConfigMap in the Secret of every set, and measures until all are seen with the new data and all sets are applied with
// another checksum.
func (b *bench) update(f *figures) {
	data, checksums := b.secretsData(dataAfter), map[string]string{}
	for _, set := range b.managedResources() {
		checksums[set.GetName()] = applied(set.Object)
	}
	sent := make([]time.Time, b.sets)
	t := newUpdateTracker(b.sets, checksums)
	f.updateTotal = b.measureChange(change{
		name: "update", effect: "the change to be applied in all sets", profile: time.Second, done: t.see,
		subjects: []subject{{resource: managedResources, full: true}, {resource: configMaps, selector: runLabel + "=" + oursRun, full: true}},
		cause: func(set int) {
			sent[set] = time.Now()
			b.Check(b.patchSecret(b.Ctx, sourceNamespace, set, data[set]))
		},
	})
	for set, begin := range sent {
		f.updates = append(f.updates, t.done[setName(set)].Sub(begin))
	}
	b.Detail("median of a set: %s", harness.Seconds(harness.Median(f.updates)))
}

func (b *bench) patchSecret(ctx context.Context, namespace string, set int, data []byte) error {
	patch := fmt.Sprintf(`{"data":{%q:%q}}`, manifestKey, base64.StdEncoding.EncodeToString(data))
	c := b.source.bare.Resource(secrets).Namespace(namespace)
	if _, err := c.Patch(ctx, setName(set), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("change Secret %s: %w", setName(set), err)
	}
	return nil
}

// updateTracker records which sets have both results of an update.
type updateTracker struct {
	sets               int
	before             map[string]string
	configMap, applied map[string]bool
	done               map[string]time.Time
}

func newUpdateTracker(sets int, before map[string]string) *updateTracker {
	return &updateTracker{sets, before, map[string]bool{}, map[string]bool{}, map[string]time.Time{}}
}

// see processes an event and returns true for the one that completes the last set.
func (t *updateTracker) see(e event) bool {
	name := e.object.GetName()
	if e.resource == configMaps {
		if textOf(e.content(), "data", dataKey) != dataAfter {
			return false
		}
		name = e.object.GetLabels()["app.kubernetes.io/instance"]
		t.configMap[name] = true
	} else if checksum := applied(e.content()); checksum != "" && checksum != t.before[name] {
		t.applied[name] = true
	}
	if _, complete := t.done[name]; !complete && t.configMap[name] && t.applied[name] {
		t.done[name] = e.at
	}
	return len(t.done) == t.sets
}

// remove deletes all sets and measures until the last set and the last object are gone.
func (b *bench) remove(f *figures) {
	f.remove = b.measureChange(change{
		name: "delete", effect: "all sets and their objects to be gone", profile: f.floors[len(f.floors)-1].remove,
		subjects: append(subjects(oursRun), subject{resource: managedResources}), done: untilGone(b.sets + b.total()),
		cause: func(set int) {
			_, managedResource := setOf(sourceNamespace, set, nil)
			b.Check(remove(b.Ctx, b.source.bare, managedResource, metav1.DeleteOptions{}))
		},
	})
}

// restFigures are the costs of the controller while nothing happens.
type restFigures struct {
	window time.Duration
	// managed are requests about objects of the sets, other are all others except watches and leases.
	managed, other int
	cpu            time.Duration
	memory         int64
}

// perMinute scales a number of the window to a minute.
func (r restFigures) perMinute(n float64) float64 {
	if r.window <= 0 {
		return 0
	}
	return n / r.window.Minutes()
}

func (b *bench) atRest(f *figures) {
	b.settle()
	b.quiet()
	b.Step("at rest: a window of %s begins", b.rest)
	place, before, begin := b.mark(), b.controller.Usage(), time.Now()
	b.Pause(b.rest)
	r := restFigures{window: time.Since(begin), cpu: b.controller.Usage().Since(before).Total()}
	requests := b.requests(place, binaryName)
	r.memory, _ = b.controller.Memory()
	counted := requests.Only(harness.Request.Counts)
	r.managed = len(counted.Only(isManaged))
	r.other = len(counted) - r.managed
	f.rest = r
	b.Step("at rest: %.1f requests a minute to managed objects, %.1f others, CPU %.2f s a minute, %s",
		r.perMinute(float64(r.managed)), r.perMinute(float64(r.other)), r.perMinute(r.cpu.Seconds()), harness.Mebibytes(r.memory))
	b.listRequests(requests)
	b.profile("rest", min(time.Minute, b.rest))()
}

// quiet waits until the controller has sent no counted request for five calm intervals, at most two minutes.
func (b *bench) quiet() {
	const limit = 2 * time.Minute
	begin := time.Now()
	for {
		place := b.mark()
		b.Pause(5 * b.calm)
		counted := b.requests(place, binaryName).Only(harness.Request.Counts)
		if len(counted) == 0 {
			return
		}
		if time.Since(begin) > limit {
			b.Detail("not quiet after %s: %s within %s", limit, counted, 5*b.calm)
			return
		}
	}
}

// restart measures from the start of a new process until it has determined that everything is in sync, and counts its reads.
func (b *bench) restart(f *figures) {
	defer b.Within("restart")
	b.settle()
	begin := time.Now()
	b.Check(b.controller.Stop())
	stopped := time.Since(begin)
	place := b.mark()
	b.controller.Start()
	profiled := b.profile("restart", 3*time.Second)
	b.inSync()
	f.restart = time.Since(b.controller.Started)
	used := b.controller.Usage()
	b.Pause(2 * time.Second) // later requests also belong to the restart
	profiled()
	requests := b.requests(place, binaryName)
	managed := requests.Only(isManaged)
	f.restartReads = len(managed.Only(func(q harness.Request) bool { return q.Verb == "get" }))
	f.restartWrites = len(managed.Only(harness.Request.IsWrite))
	b.Step("restart: stopped within %s, in sync %s after its start; CPU: %s", harness.Seconds(stopped), harness.Seconds(f.restart), used)
	b.listRequests(requests)
}

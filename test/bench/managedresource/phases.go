package managedresource

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/local"
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

// measure returns the figures that could be measured, even with an error.
func (w workload) measure(ctx context.Context, r *harness.Run) ([]harness.Row, error) {
	f := figures{workload: w}
	b, err := open(ctx, r, setup{twoClusters: w.twoClusters, controllerManager: true}, w)
	if err != nil {
		return f.rows(), err
	}
	r.Step("workload %s: creating %d namespaces and starting the controller", w, 2*b.sets)
	phase := func(measure func(context.Context, *figures) error) func(context.Context) error {
		return func(ctx context.Context) error { return measure(ctx, &f) }
	}
	phases := []func(context.Context) error{
		b.createNamespaces, b.startController,
		phase(b.floor), phase(b.converge), phase(b.floor), phase(b.atRest), phase(b.drift),
		phase(b.changeFloor), phase(b.update), phase(b.changeFloor), phase(b.restart), phase(b.remove), phase(b.floor),
	}
	err = harness.InOrder(ctx, phases...)
	if err != nil {
		err = fmt.Errorf("measure %s: %w", w, err)
	}
	return f.rows(), err
}

// floor is the time of the bare client to create the objects of all sets, and to delete them until the last one is gone.
type floor struct{ create, remove time.Duration }

// floor uses its own namespaces and leaves none of its objects.
func (b *bench) floor(ctx context.Context, f *figures) error {
	items := make([]item, 0, b.sets*b.objects)
	for set := range b.sets {
		items = append(items, itemsOf(floorRun, set, b.objects, dataBefore)...)
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	var measured floor
	place, err := b.mark()
	if err != nil {
		return err
	}
	round, n, usage := len(f.floors)+1, float64(len(items)), b.usage()
	measured.create, err = harness.Timed(ctx, len(items), workers, func(ctx context.Context, i int) error {
		return create(ctx, b.target.bare, items[i])
	})
	if err != nil {
		return err
	}
	b.Step("floor %d: a bare client created %.0f objects in %s (%.0f/s)",
		round, n, harness.Seconds(measured.create), n/measured.create.Seconds())
	b.Detail("CPU: %s", b.usage().Since(usage))
	requests, err := b.requests(place, bareName)
	if err != nil {
		return err
	}
	b.Detail("requests: %s", requests.Pressure())
	err = b.settle(ctx)
	if err != nil {
		return err
	}
	usage = b.usage()
	w, err := b.follow(ctx, subjects(floorRun)...)
	if err != nil {
		return err
	}
	defer w.stop()
	begin := time.Now()
	err = harness.Parallel(ctx, len(items), workers, func(ctx context.Context, i int) error {
		return remove(ctx, b.target.bare, items[i], deleteOptions(items[i].resource))
	})
	if err != nil {
		return err
	}
	end, err := w.until(ctx, harness.Patience, "the objects of the bare client to be gone", untilGone(len(items)))
	if err != nil {
		return err
	}
	measured.remove = end.Sub(begin)
	b.Step("floor %d: it deleted them, and they were gone, in %s (%.0f/s)",
		round, harness.Seconds(measured.remove), n/measured.remove.Seconds())
	b.Detail("CPU: %s", b.usage().Since(usage))
	f.floors = append(f.floors, measured)
	return nil
}

// change is a phase: its time is from before the cause until the watches show the effect.
type change struct {
	name, effect string
	subjects     []subject
	cause        func(context.Context, int) error // for each set
	done         func(event) bool
	// profile is the length of the profile.
	profile time.Duration
}

// measureChange waits until the control plane is idle, and then measures the time of a change.
func (b *bench) measureChange(ctx context.Context, c change) (time.Duration, error) {
	if err := b.settle(ctx); err != nil {
		return 0, err
	}
	w, err := b.follow(ctx, c.subjects...)
	if err != nil {
		return 0, err
	}
	defer w.stop()
	place, err := b.mark()
	if err != nil {
		return 0, err
	}
	usage := b.usage()
	profiled := b.profile(ctx, c.name, c.profile)
	var caused time.Duration
	took, err := both(ctx, func(ctx context.Context) (err error) {
		caused, err = harness.Timed(ctx, b.sets, workers, c.cause)
		return err
	}, func(ctx context.Context) (time.Time, error) { return w.until(ctx, harness.Patience, c.effect, c.done) })
	if err != nil {
		return 0, fmt.Errorf("%s: %w", c.name, err)
	}
	used := b.usage().Since(usage)
	profiled()
	b.Step("%s: done after %s (the last request was answered after %s)", c.name, harness.Seconds(took), harness.Seconds(caused))
	b.Detail("CPU: %s", used)
	return took, b.reportRequests(place)
}

// both waits for the effect in the watches while it runs the cause; the time starts before the cause.
func both(ctx context.Context, cause func(context.Context) error, effect func(context.Context) (time.Time, error)) (time.Duration, error) {
	begin := time.Now()
	var end time.Time
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return cause(ctx) })
	group.Go(func() (err error) {
		end, err = effect(ctx)
		return err
	})
	err := group.Wait()
	return end.Sub(begin), err
}

// converge measures from the first request that creates a set until the last set is applied.
func (b *bench) converge(ctx context.Context, f *figures) error {
	data, err := b.secretsData(dataBefore)
	if err != nil {
		return err
	}
	done := map[string]bool{}
	f.converge, err = b.measureChange(ctx, change{
		name: "converge", effect: "all sets to be applied", profile: f.createFloors()[0],
		subjects: []subject{{resource: managedResources, full: true}},
		cause:    func(ctx context.Context, set int) error { return b.createSet(ctx, set, data[set]) },
		done: func(e event) bool {
			if applied(e.content()) != "" {
				done[e.object.GetName()] = true
			}
			return len(done) == b.sets
		},
	})
	if err != nil {
		return fmt.Errorf("%w; %d of %d sets are applied", err, len(done), b.sets)
	}
	return b.requireObjects(ctx)
}

// secretsData renders the Secret of each set.
func (b *bench) secretsData(data string) (all [][]byte, err error) {
	all = make([][]byte, b.sets)
	for set := range all {
		if all[set], err = secretData(itemsOf(oursRun, set, b.objects, data)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (b *bench) createSet(ctx context.Context, set int, data []byte) error {
	secret, managedResource := setOf(set, data)
	if err := create(ctx, b.source.bare, item{secrets, secret}); err != nil {
		return err
	}
	return create(ctx, b.source.bare, item{managedResources, managedResource})
}

// requireObjects checks that the sets have created all their objects.
func (b *bench) requireObjects(ctx context.Context) error {
	found := 0
	for _, resource := range managedKinds() {
		list, err := b.target.metadata.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: runLabel + "=" + oursRun})
		if err != nil {
			return fmt.Errorf("list %s: %w", resource.Resource, err)
		}
		found += len(list.Items)
	}
	if found != b.total() {
		return fmt.Errorf("all sets are applied by their status, but %d of their %d objects exist", found, b.total())
	}
	return nil
}

// drift changes objects, one after the other: every second one is edited (a ConfigMap), the others are deleted.
func (b *bench) drift(ctx context.Context, f *figures) error {
	if err := b.settle(ctx); err != nil {
		return err
	}
	all := subjects(oursRun)
	for i := range all {
		all[i].full = all[i].resource == configMaps
	}
	w, err := b.follow(ctx, all...)
	if err != nil {
		return err
	}
	defer w.stop()
	edited, deleted := driftingObjects(b.size, b.repairs)
	place, err := b.mark()
	if err != nil {
		return err
	}
	profiled := b.profile(ctx, "drift", 5*time.Second)
	for i := range 2 * min(len(edited), len(deleted)) {
		repair, object := b.repairEdited, edited[i/2]
		if i%2 == 1 {
			repair, object = b.repairDeleted, deleted[i/2]
		}
		took, err := repair(ctx, w, object)
		err = errors.Join(err, local.Pause(ctx, repairPause))
		if err != nil {
			return fmt.Errorf("repair drift: %w", err)
		}
		f.repairs = append(f.repairs, took)
	}
	profiled()
	median, longest := harness.Median(f.repairs), harness.Longest(f.repairs)
	b.Step("drift: %d repairs, median %s, max %s", len(f.repairs), harness.Seconds(median), harness.Seconds(longest))
	return b.reportRequests(place)
}

// driftingObjects returns different objects to edit and to delete, half of the number each.
func driftingObjects(s size, repairs int) (edited, deleted []item) {
	half := (repairs + 1) / 2
	for i := range shuffled(s) {
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

// shuffled iterates over all objects of the sets in a pseudo-random order that is the same in every run.
func shuffled(s size) iter.Seq[item] {
	return func(yield func(item) bool) {
		for _, index := range rand.New(rand.NewPCG(uint64(s.sets), uint64(s.objects))).Perm(s.total()) {
			if !yield(itemOf(oursRun, index/s.objects, index%s.objects, dataBefore)) {
				return
			}
		}
	}
}

// otherManager is the field manager that changes objects.
const otherManager = "another-client"

// repairEdited measures from the response to the edit until a watch shows the former data.
func (b *bench) repairEdited(ctx context.Context, w *follower, i item) (time.Duration, error) {
	const driftedData = "drifted"
	patch := fmt.Appendf(nil, `{"data":{%q:%q}}`, dataKey, driftedData)
	objects := b.target.objects.Resource(i.resource).Namespace(i.object.GetNamespace())
	_, err := objects.Patch(ctx, i.object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: otherManager})
	if err != nil {
		return 0, fmt.Errorf("edit %s: %w", describe(i.object), err)
	}
	begin, drifted := time.Now(), false
	end, err := w.until(ctx, time.Minute, "the edited "+describe(i.object)+" to be restored", func(e event) bool {
		if e.key() != i.key() {
			return false
		}
		says := textOf(e.content(), "data", dataKey)
		restored := drifted && says == dataBefore
		drifted = drifted || says == driftedData
		return restored
	})
	return max(0, end.Sub(begin)), err
}

// repairDeleted measures from the response to the deletion until a watch shows another object of that name.
func (b *bench) repairDeleted(ctx context.Context, w *follower, i item) (time.Duration, error) {
	objects := b.target.objects.Resource(i.resource).Namespace(i.object.GetNamespace())
	before, err := objects.Get(ctx, i.object.GetName(), metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", describe(i.object), err)
	}
	background := metav1.DeletePropagationBackground
	err = remove(ctx, b.target.objects, i, metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	end, err := w.until(ctx, time.Minute, "the deleted "+describe(i.object)+" to be restored", func(e event) bool {
		return e.key() == i.key() && !e.deleted && e.object.GetUID() != before.GetUID()
	})
	return max(0, end.Sub(begin)), err
}

// bareSets is the namespace of the sets in which the bare client changes an object; bareSetClass excludes them from the controller.
const bareSets, bareSetClass = "bench-bare-sets", "bench-floor"

// bareChecksum is the checksum that the bare client writes into the status.
const bareChecksum = "changed by the bare client"

// changeFloor measures the minimum cost, for any controller, of a change of one object in every set: the Secret is changed in the same way,
// and then the bare client reads it, reads and replaces the ConfigMap, and writes the status of a set. The status is as large as those of
// the controller's sets, and the same watches and profiles run, since both cost the API server time.
func (b *bench) changeFloor(ctx context.Context, f *figures) error {
	before, errBefore := b.secretsData(dataBefore)
	after, errAfter := b.secretsData(dataAfter)
	if err := errors.Join(errBefore, errAfter); err != nil {
		return err
	}
	statuses, err := b.statuses(ctx)
	if err != nil {
		return err
	}
	create := func(ctx context.Context, set int) error {
		return b.createBareSet(ctx, set, before[set], statuses[setName(set)])
	}
	if err = harness.Parallel(ctx, b.sets, workers, create); err != nil {
		return fmt.Errorf("prepare change of bare client: %w", err)
	}
	changed := map[string]bool{}
	took, err := b.measureChange(ctx, change{
		name: "update-floor", effect: "the bare client to have changed one object in every set", profile: time.Second,
		subjects: []subject{{resource: managedResources, full: true}, {resource: configMaps, selector: runLabel + "=" + floorRun, full: true}},
		cause:    func(ctx context.Context, set int) error { return b.changeBareSet(ctx, set, after[set]) },
		done: func(e event) bool {
			if e.object.GetNamespace() == bareSets && textOf(e.content(), "status", "secretsDataChecksum") == bareChecksum {
				changed[e.object.GetName()] = true
			}
			return len(changed) == b.sets
		},
	})
	if err != nil {
		return err
	}
	f.updateFloors = append(f.updateFloors, took)
	return harness.Parallel(ctx, b.sets, workers, func(ctx context.Context, set int) error {
		secret, managedResource := bareSetOf(set, nil)
		return errors.Join(
			remove(ctx, b.target.bare, itemOf(floorRun, set, changingConfigMap, ""), metav1.DeleteOptions{}),
			remove(ctx, b.source.bare, managedResource, metav1.DeleteOptions{}),
			remove(ctx, b.source.bare, secret, metav1.DeleteOptions{}),
		)
	})
}

// statuses returns the status of every set of the controller, by name.
func (b *bench) statuses(ctx context.Context) (map[string]any, error) {
	list, err := b.source.objects.Resource(managedResources).Namespace(sourceNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list ManagedResources: %w", err)
	}
	all := make(map[string]any, len(list.Items))
	for _, each := range list.Items {
		all[each.GetName()] = each.Object["status"]
	}
	return all, nil
}

func bareSetOf(set int, data []byte) (secret, managedResource item) {
	s, m := setOf(set, data)
	s.SetNamespace(bareSets)
	m.SetNamespace(bareSets)
	_ = unstructured.SetNestedField(m.Object, bareSetClass, "spec", "class") // spec is a map
	return item{secrets, s}, item{managedResources, m}
}

// createBareSet creates, of its objects, only the one that is changed.
func (b *bench) createBareSet(ctx context.Context, set int, data []byte, status any) error {
	secret, managedResource := bareSetOf(set, data)
	if err := errors.Join(
		create(ctx, b.source.bare, secret), create(ctx, b.source.bare, managedResource),
		create(ctx, b.target.bare, itemOf(floorRun, set, changingConfigMap, dataBefore)),
	); err != nil {
		return err
	}
	return b.patchBareStatus(ctx, set, status)
}

func (b *bench) patchBareStatus(ctx context.Context, set int, status any) error {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	_, err = b.source.bare.Resource(managedResources).Namespace(bareSets).
		Patch(ctx, setName(set), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

func (b *bench) changeBareSet(ctx context.Context, set int, data []byte) error {
	if err := b.patchSecret(ctx, bareSets, set, data); err != nil {
		return err
	}
	if _, err := b.source.bare.Resource(secrets).Namespace(bareSets).Get(ctx, setName(set), metav1.GetOptions{}); err != nil {
		return err
	}
	wanted := itemOf(floorRun, set, changingConfigMap, dataAfter).object
	c := b.target.bare.Resource(configMaps).Namespace(wanted.GetNamespace())
	live, err := c.Get(ctx, wanted.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	live.Object["data"] = wanted.Object["data"]
	if _, err = c.Update(ctx, live, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return b.patchBareStatus(ctx, set, map[string]any{"secretsDataChecksum": bareChecksum})
}

// update changes one ConfigMap in the Secret of every set, and measures until all are seen with the new data and all sets are applied with
// another checksum.
func (b *bench) update(ctx context.Context, f *figures) error {
	data, err := b.secretsData(dataAfter)
	if err != nil {
		return err
	}
	list, err := b.source.objects.Resource(managedResources).Namespace(sourceNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list ManagedResources: %w", err)
	}
	checksums := map[string]string{}
	for _, set := range list.Items {
		checksums[set.GetName()] = applied(set.Object)
	}
	sent := make([]time.Time, b.sets)
	t := newUpdateTracker(b.sets, checksums)
	f.updateTotal, err = b.measureChange(ctx, change{
		name: "update", effect: "the change to be applied in all sets", profile: time.Second, done: t.see,
		subjects: []subject{{resource: managedResources, full: true}, {resource: configMaps, selector: runLabel + "=" + oursRun, full: true}},
		cause: func(ctx context.Context, set int) error {
			sent[set] = time.Now()
			return b.patchSecret(ctx, sourceNamespace, set, data[set])
		},
	})
	if err != nil {
		return err
	}
	for set, begin := range sent {
		f.updates = append(f.updates, t.done[setName(set)].Sub(begin))
	}
	b.Detail("median of a set: %s", harness.Seconds(harness.Median(f.updates)))
	return nil
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
	before        map[string]string
	configMap     map[string]bool
	applied       map[string]bool
	done          map[string]time.Time
	numberMissing int
}

func newUpdateTracker(sets int, before map[string]string) *updateTracker {
	return &updateTracker{before, map[string]bool{}, map[string]bool{}, map[string]time.Time{}, sets}
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
		t.numberMissing--
	}
	return t.numberMissing == 0
}

// remove deletes all sets and measures until the last set and the last object are gone.
func (b *bench) remove(ctx context.Context, f *figures) (err error) {
	f.remove, err = b.measureChange(ctx, change{
		name: "delete", effect: "all sets and their objects to be gone", profile: f.floors[len(f.floors)-1].remove,
		subjects: append(subjects(oursRun), subject{resource: managedResources}), done: untilGone(b.sets + b.total()),
		cause: func(ctx context.Context, set int) error {
			_, managedResource := setOf(set, nil)
			return remove(ctx, b.source.bare, item{managedResources, managedResource}, metav1.DeleteOptions{})
		},
	})
	return err
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

func (b *bench) atRest(ctx context.Context, f *figures) error {
	if err := harness.InOrder(ctx, b.settle, b.quiet); err != nil {
		return err
	}
	b.Step("at rest: a window of %s begins", b.rest)
	place, err := b.mark()
	if err != nil {
		return err
	}
	before, begin := b.controller.Usage(), time.Now()
	err = local.Pause(ctx, b.rest)
	if err != nil {
		return err
	}
	r := restFigures{window: time.Since(begin), cpu: b.controller.Usage().Since(before).Total()}
	requests, err := b.requests(place, binaryName)
	if err != nil {
		return err
	}
	if r.memory, _, err = harness.Memory(b.controller.PID()); err != nil {
		return err
	}
	counted := requests.Only(harness.Request.Counts)
	r.managed = len(counted.Only(isManaged))
	r.other = len(counted) - r.managed
	f.rest = r
	b.Step("at rest: %.1f requests a minute to managed objects, %.1f others, CPU %.2f s a minute, %s",
		r.perMinute(float64(r.managed)), r.perMinute(float64(r.other)), r.perMinute(r.cpu.Seconds()), harness.Mebibytes(r.memory))
	b.listRequests(requests)
	b.profile(ctx, "rest", min(time.Minute, b.rest))()
	return nil
}

// quiet waits until the controller has sent no counted request for five calm intervals, at most two minutes.
func (b *bench) quiet(ctx context.Context) error {
	const limit = 2 * time.Minute
	begin := time.Now()
	for {
		place, err := b.mark()
		if err != nil {
			return err
		}
		err = local.Pause(ctx, 5*b.calm)
		if err != nil {
			return err
		}
		requests, err := b.requests(place, binaryName)
		counted := requests.Only(harness.Request.Counts)
		if err != nil || len(counted) == 0 {
			return err
		}
		if time.Since(begin) > limit {
			b.Detail("not quiet after %s: %s within %s", limit, counted, 5*b.calm)
			return nil
		}
	}
}

// restart measures from the start of a new process until it has determined that everything is in sync, and counts its reads.
func (b *bench) restart(ctx context.Context, f *figures) error {
	if err := b.settle(ctx); err != nil {
		return err
	}
	begin := time.Now()
	if err := b.controller.Stop(); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	stopped := time.Since(begin)
	place, err := b.mark()
	if err != nil {
		return err
	}
	err = b.controller.Start()
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	profiled := b.profile(ctx, "restart", 3*time.Second)
	err = b.inSync(ctx)
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	f.restart = time.Since(b.controller.Started)
	used := b.controller.Usage()
	err = local.Pause(ctx, 2*time.Second) // later requests also belong to the restart
	if err != nil {
		return err
	}
	profiled()
	requests, err := b.requests(place, binaryName)
	if err != nil {
		return err
	}
	managed := requests.Only(isManaged)
	f.restartReads = len(managed.Only(func(q harness.Request) bool { return q.Verb == "get" }))
	f.restartWrites = len(managed.Only(harness.Request.IsWrite))
	b.Step("restart: stopped within %s, in sync %s after its start; CPU: %s", harness.Seconds(stopped), harness.Seconds(f.restart), used)
	b.listRequests(requests)
	return nil
}

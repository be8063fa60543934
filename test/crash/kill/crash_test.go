package kill_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/crash/harness"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

const (
	// patience is how long a new process may take until everything is right, on a busy machine.
	patience = 3 * time.Minute
	// poll is how often the sets are checked. Each check costs time of the API server and of this process.
	poll = 200 * time.Millisecond
	// settled is the time without writes after which no further write is expected.
	settled = 5 * time.Second
	// stillness is how long nothing may change at the end: longer than the controller's syncPeriod.
	stillness = 17 * time.Second
)

// phase is the kind of work during which the controller is killed.
type phase string

const (
	// converging: sets are created.
	converging phase = "converge"
	// updating: the Secret of every set is replaced.
	updating phase = "update"
	// deleting: a random half of the sets is deleted.
	deleting phase = "delete"
	// changing: like updating, and after the kill, sets change again or are deleted.
	changing phase = "update, then change while down"
)

// scenario is a namespace with sets, and their expected state.
type scenario struct {
	*managedresourcetest.Env
	random     *rand.Rand
	controller *controller
	names      []string

	// sets are the existing sets. checksums are the checksums that their status must have.
	sets      map[string]set
	checksums map[string]string
	// earlier are the sets at the start of the round.
	earlier map[string]set
	// kept are the objects that deleted sets have left on purpose.
	kept map[key]expectation
	// stays are the objects that must not be deleted in this round, not even to be created again.
	stays map[key]types.UID
	// adopted are the objects that a set may have taken over in this round from an earlier set of the same name. A killed process may have
	// done so or not.
	adopted map[key]bool
	// bystanders are the objects that belong to no set and that the controller must not write, with their version.
	bystanders map[key]string
	revision   int

	// typical is the known duration of the work on one set, by phase.
	typical map[phase]time.Duration
	report  report
}

// report counts the results. It is printed at the end of the test.
type report struct {
	kills, midway map[phase]int
	again         int
	longest       time.Duration
}

func TestCrashKillsLeaveNothingBehindAndTakeNothingAway(t *testing.T) {
	kills, seed, sets := harness.Number(t, "CRASH_KILLS", 6), harness.Number(t, "CRASH_SEED", int(time.Now().UnixNano()%1_000_000)),
		harness.Number(t, "CRASH_SETS", 20)
	t.Logf("CRASH_SEED=%d repeats the choices of this run", seed)
	s := newScenario(t, uint64(seed), sets)
	s.measure()

	var deck []phase
	for round := range kills {
		if len(deck) == 0 {
			deck = []phase{converging, updating, deleting, changing}
			s.random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		next := max(0, slices.IndexFunc(deck, s.feasible))
		if !s.feasible(deck[next]) {
			s.prepare(deck[next])
		}
		s.round(round+1, deck[next])
		deck = slices.Delete(deck, next, next+1)
	}
	s.restUndisturbed()
	s.removeAll()
	t.Logf("Events: %v", s.eventReasons())
	s.Expect(s.controller.complaints()).To(BeEmpty())
	s.Expect(s.eventReasons()).NotTo(HaveKey("DriftRepaired"), "no other client changes anything")

	for _, each := range []phase{converging, updating, deleting, changing} {
		t.Logf("%s: %d kills, %d of them with work left", each, s.report.kills[each], s.report.midway[each])
	}
	t.Logf("%d starts, %d processes killed again soon after their start, at most %v from a start until all sets had converged",
		s.controller.starts, s.report.again, s.report.longest.Round(time.Millisecond))
	t.Logf("crash: %d kills, all converged", kills)
}

func setName(number int) string { return fmt.Sprintf("set-%02d", number) }

func newScenario(t *testing.T, seed uint64, sets int) *scenario {
	t.Helper()
	servers, err := local.ForTests()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	env := managedresourcetest.New(t, managedresourcetest.Options{Stopped: true})
	s := &scenario{
		Env: env, random: rand.New(rand.NewPCG(seed, 0)), controller: newController(t, servers.Source.Config, env.Namespace),
		sets: map[string]set{}, checksums: map[string]string{}, kept: map[key]expectation{},
		stays: map[key]types.UID{}, adopted: map[key]bool{}, typical: map[phase]time.Duration{},
		report: report{kills: map[phase]int{}, midway: map[phase]int{}},
	}
	for i := range sets {
		s.names = append(s.names, setName(i))
	}
	t.Cleanup(s.clear)
	s.plantBystanders()
	s.controller.start()
	return s
}

// measure runs the phases converging, updating and deleting once, undisturbed, and records how long the work on one set takes.
func (s *scenario) measure() {
	s.T.Helper()
	for _, each := range []phase{converging, updating, deleting} {
		changes := s.begin(each)
		start := time.Now()
		s.write(changes)
		s.converge("measuring "+string(each), start)
		took := time.Since(start)
		s.typical[each] = took / time.Duration(len(changes))
		s.T.Logf("%s of %d sets takes %v undisturbed", each, len(changes), took.Round(time.Millisecond))
		s.check("measuring " + string(each))
	}
	s.typical[changing] = s.typical[updating]
	s.report.longest = 0
}

// feasible reports whether there are enough sets to create, or enough existing sets, for a phase.
func (s *scenario) feasible(p phase) bool {
	if p == converging {
		return len(s.sets) <= len(s.names)*3/4
	}
	return len(s.sets) >= len(s.names)*2/5
}

// prepare makes a phase feasible: it creates or deletes sets while the controller is not killed.
func (s *scenario) prepare(p phase) {
	s.T.Helper()
	other := converging
	if p == converging {
		other = deleting
	}
	start := time.Now()
	s.write(s.begin(other))
	s.converge("preparing "+string(p), start)
	s.check("preparing " + string(p))
}

// round kills the controller once in a phase and requires that a new one reaches the expected state.
func (s *scenario) round(number int, p phase) {
	s.T.Helper()
	changes := s.begin(p)
	delay := time.Duration(s.random.Float64() * float64(s.typical[p]) * float64(len(changes)))
	what := fmt.Sprintf("round %d, killed %v into %s", number, delay.Round(time.Millisecond), p)
	begin := time.Now()
	killed := s.controller.kill(delay)
	s.write(changes)
	s.learn(p, len(changes), begin, delay)
	s.Expect(<-killed).To(Succeed(), what)
	open := len(s.unfinished())
	s.report.kills[p]++
	if open > 0 {
		s.report.midway[p]++
	}
	if p == changing {
		s.write(s.changeWhileDown())
	}
	s.controller.start()
	if s.random.IntN(3) == 0 {
		after := time.Duration(s.random.Int64N(int64(1500 * time.Millisecond)))
		what += fmt.Sprintf(", and again %v after the next start", after.Round(time.Millisecond))
		s.Expect(<-s.controller.kill(after)).To(Succeed(), what)
		s.report.again++
		s.controller.start()
	}
	start := time.Now()
	s.converge(what, start)
	s.T.Logf("%s: %d of %d sets had work left, all had converged %v after the last start", what, open, len(changes),
		time.Since(start).Round(time.Millisecond))
	s.check(what)
}

// learn adapts the typical duration of the phase to the load of the machine: it becomes the real duration if the work was done before the
// kill, otherwise longer.
func (s *scenario) learn(p phase, changes int, begin time.Time, delay time.Duration) {
	s.T.Helper()
	for time.Since(begin)+poll < delay {
		if len(s.unfinished()) == 0 {
			s.typical[p] = time.Since(begin) / time.Duration(changes)
			return
		}
		time.Sleep(poll)
	}
	s.typical[p] += s.typical[p] / 8
}

// begin chooses the changes of a phase, records the new expected state, and returns functions that make the changes.
func (s *scenario) begin(p phase) []func() error {
	s.T.Helper()
	s.adopted, s.earlier = map[key]bool{}, maps.Clone(s.sets)
	var changes []func() error
	existing := slices.Sorted(maps.Keys(s.sets))
	switch p {
	case converging:
		for i, name := range s.names {
			if _, exists := s.sets[name]; !exists {
				s.revision++
				fresh := set{namespace: s.Namespace, name: name, keep: i%4 == 0}
				changes = append(changes, s.create(s.become(fresh.filled(s.random, s.revision))))
			}
		}
	case updating, changing:
		for _, name := range existing {
			changes = append(changes, s.update(s.sets[name]))
		}
	case deleting:
		s.random.Shuffle(len(existing), func(i, j int) { existing[i], existing[j] = existing[j], existing[i] })
		for _, name := range existing[:(len(existing)+1)/2] {
			changes = append(changes, s.delete(name))
		}
	}
	return changes
}

// changeWhileDown returns functions that change some sets again, revert others, and delete some, while no controller runs.
func (s *scenario) changeWhileDown() []func() error {
	s.T.Helper()
	var changes []func() error
	for _, name := range slices.Sorted(maps.Keys(s.sets)) {
		each := s.sets[name]
		switch choice := s.random.IntN(10); {
		case choice < 6:
			changes = append(changes, s.update(each))
		case choice < 7 && !each.keep: // otherwise it would not be certain which objects the controller must keep
			changes = append(changes, s.delete(name))
		case choice < 8 && !each.keep:
			changes = append(changes, s.replace(s.become(s.earlier[name])))
		}
	}
	return changes
}

func (s *scenario) update(each set) func() error {
	s.T.Helper()
	s.revision++
	return s.replace(s.become(each.updated(s.random, s.revision, func(k key) bool { return s.adopted[k] })))
}

// become records the new state of a set.
func (s *scenario) become(next set) set {
	s.T.Helper()
	var err error
	s.checksums[next.name], err = next.checksum()
	s.Expect(err).NotTo(HaveOccurred())
	before := s.sets[next.name]
	for place := range before.revisions {
		if _, still := next.revisions[place]; !still {
			delete(s.stays, next.key(place))
		}
	}
	for place := range next.revisions {
		if _, found := s.kept[next.key(place)]; found {
			delete(s.kept, next.key(place))
			s.adopted[next.key(place)] = true
		}
	}
	delete(s.stays, next.key(immutablePlace)) // it can only be replaced, not updated
	s.sets[next.name] = next
	return next
}

// delete records the deletion of a set, whose objects are deleted too or kept, and returns the function that deletes it.
func (s *scenario) delete(name string) func() error {
	gone := s.sets[name]
	for place := range gone.revisions {
		if gone.keep {
			s.kept[gone.key(place)] = expectation{gone.expected(place), true}
		} else {
			delete(s.stays, gone.key(place))
		}
	}
	delete(s.sets, name)
	delete(s.checksums, name)
	return s.remove(name)
}

// converge waits until the status of the sets reports the expected state.
func (s *scenario) converge(what string, start time.Time) {
	s.T.Helper()
	for deadline := start.Add(patience); ; time.Sleep(poll) {
		open := s.unfinished()
		if len(open) == 0 {
			break
		}
		s.Expect(s.controller.process.Failure()).NotTo(HaveOccurred(), what)
		if time.Now().After(deadline) {
			s.T.Fatalf("%s: %v later there still is:\n%s\nThe end of the controller's log:\n%s", what, patience, shortened(open),
				child.Tail(s.controller.file("log")))
		}
	}
	s.report.longest = max(s.report.longest, time.Since(start))
}

// check requires that the status of the sets is true, without waiting.
func (s *scenario) check(what string) {
	s.T.Helper()
	live := s.managed()
	maps.DeleteFunc(live, func(_ key, object *unstructured.Unstructured) bool {
		return object.GetLabels()[prefix+"bystander"] != ""
	})
	findings := wrongObjects(s.expected(), live, s.stays)
	findings = append(findings, s.wrongStatus()...)
	now := versions(s.listBystanders())
	for identity, before := range s.bystanders {
		if now[identity] != before {
			findings = append(findings,
				fmt.Sprintf("bystander %s %s: UID and resourceVersion were %s, are %s", identity.kind, identity.name, before, now[identity]))
		}
	}
	if len(findings) > 0 {
		s.T.Fatalf("%s: %d findings:\n%s\nThe end of the controller's log:\n%s", what, len(findings), shortened(findings),
			child.Tail(s.controller.file("log")))
	}
	s.stays = make(map[key]types.UID, len(live))
	for identity, object := range live {
		s.stays[identity] = object.GetUID()
	}
}

// expected returns all objects that must exist.
func (s *scenario) expected() map[key]expectation {
	want := maps.Clone(s.kept)
	for _, each := range s.sets {
		for place := range each.revisions {
			want[each.key(place)] = expectation{each.expected(place), each.keep}
		}
	}
	return want
}

func shortened(findings []string) string {
	const most = 25
	if len(findings) > most {
		findings = append(slices.Clone(findings[:most]), fmt.Sprintf("and %d more", len(findings)-most))
	}
	return strings.Join(findings, "\n")
}

// restUndisturbed requires that no object is written without a reason.
func (s *scenario) restUndisturbed() {
	s.T.Helper()
	s.settleVersions(s.managed)
	before := versions(s.managed())
	time.Sleep(stillness)
	s.Expect(versions(s.managed())).To(Equal(before), "nothing is written at rest")
	s.check("at rest")
}

// removeAll deletes all sets: only kept objects remain.
func (s *scenario) removeAll() {
	s.T.Helper()
	changes := make([]func() error, 0, len(s.sets))
	for _, name := range slices.Sorted(maps.Keys(s.sets)) {
		changes = append(changes, s.delete(name))
	}
	start := time.Now()
	s.write(changes)
	s.converge("removing all sets", start)
	s.check("removing all sets")
	s.Expect(s.controller.process.Stop(10 * time.Second)).To(Succeed())
}

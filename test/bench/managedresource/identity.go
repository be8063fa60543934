package managedresource

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/local"
)

// identity measures the cost of applying every set as a ServiceAccount. One control plane serves all rounds. In each round, the controller
// runs once with its own rights and once with those of the ServiceAccount, in alternating order. In the first rounds it also runs once with
// lockdown, with which each namespace has watches of its own.
type identity struct {
	workload

	rounds int
}

// teamAccount is the ServiceAccount of all sets.
const teamAccount = "team"

const (
	ownRights, teamRights = "", `espalier: {managedResource: {serviceAccounts: {default: ` + teamAccount + `}}}
`
	lockedRights = `espalier: {managedResource: {serviceAccounts: {lockdown: true, default: ` + teamAccount + `}}}
`
	lockedRounds = 2
)

// modes are the names of configurations in the table.
var modes = map[string]string{teamRights: "identity on", lockedRights: "lockdown"}

// identityFigures are the costs of all rounds with one configuration.
type identityFigures struct{ converge, update, remove []phaseCost }

// phaseCost is the time that a phase takes, and the processor time of the controller and the control plane for it. requests is how many
// requests the controller sends, except watches and those for its lease.
type phaseCost struct {
	took, processor time.Duration
	requests        int
}

func (i identity) measure(r *harness.Run) {
	costs := map[string]*identityFigures{ownRights: {}, teamRights: {}, lockedRights: {}}
	rested := map[string]*figures{teamRights: {}, lockedRights: {}}
	defer func() {
		own, team, locked := costs[ownRights], costs[teamRights], costs[lockedRights]
		rows := slices.Concat(
			compared("converge", team.converge, own.converge),
			compared("one object changed in every set", team.update, own.update),
			compared("delete all sets", team.remove, own.remove),
		)
		for _, rights := range []string{teamRights, lockedRights} {
			rest := rested[rights].rest
			rows = append(rows, harness.Exactly("requests at rest, to managed objects, "+modes[rights], rest.managed, 0).If(rest.window > 0))
		}
		rows = append(rows,
			lockdownCompared("converge", locked.converge, own.converge),
			lockdownCompared("one object changed in every set", locked.update, own.update),
			lockdownCompared("delete all sets", locked.remove, own.remove),
		)
		r.Add(harness.On(i.workload.String(), rows...))
	}()
	b := open(r, setup{parts: local.Options{ControllerManager: true}}, i.workload)
	b.source.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: sourceNamespace, Name: teamAccount}})
	b.target.Create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bench:team"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: sourceNamespace, Name: teamAccount}},
	})
	b.createNamespaces()
	for round := range i.rounds {
		r.Step("identity %s: round %d of %d", i.workload, round+1, i.rounds)
		order := []string{ownRights, teamRights}
		if round%2 == 1 {
			slices.Reverse(order)
		}
		if round < lockedRounds {
			order = append(order, lockedRights)
		}
		for _, rights := range order {
			rests := rights == teamRights && round == i.rounds-1 || rights == lockedRights && round == min(lockedRounds, i.rounds)-1
			b.withRights(rights, rests, rested[rights], costs[rights])
		}
	}
}

// withRights runs the controller with a part of its configuration, and measures the life of all sets. If rests is true, it also measures a
// window at rest, and records the result. It adds the costs to those of earlier rounds.
func (b *bench) withRights(rights string, rests bool, rested *figures, costs *identityFigures) {
	var f figures
	b.configure(rights)
	b.startController()
	defer b.controller.Stop()
	converged := b.cost(func() time.Duration { b.converge(&f); return f.converge })
	if rests {
		b.atRest(rested)
	}
	updated := b.cost(func() time.Duration { b.update(&f); return f.updateTotal })
	removed := b.cost(func() time.Duration { b.remove(&f); return f.remove })
	b.Parallel(b.sets, workers, func(set int) { // the next round creates them again
		secret, _ := setOf(sourceNamespace, set, nil)
		b.Check(b.source.bare.Delete(b.Ctx, secret))
	})
	costs.converge = append(costs.converge, converged)
	costs.update = append(costs.update, updated)
	costs.remove = append(costs.remove, removed)
}

// cost measures a phase, which returns the time that it took. The processor time includes the work that the phase leaves behind.
func (b *bench) cost(phase func() time.Duration) phaseCost {
	b.settle()
	place, before := b.mark(), b.processorTime()
	took := phase()
	b.settle()
	return phaseCost{took, b.processorTime() - before, len(b.requests(place).Only(harness.Request.Counts))}
}

// compared returns the rows that compare a phase with and without a ServiceAccount.
func compared(phase string, team, own []phaseCost) []harness.Row {
	each := func(costs []phaseCost, of func(phaseCost) time.Duration) (values []time.Duration) {
		for _, c := range costs {
			values = append(values, of(c))
		}
		return values
	}
	took, processor := func(c phaseCost) time.Duration { return c.took }, func(c phaseCost) time.Duration { return c.processor }
	return []harness.Row{
		harness.Paired(phase+", processor time, identity on ÷ off", 1.05, each(team, processor), each(own, processor)),
		harness.Paired(phase+", time, identity on ÷ off", 1.05, each(team, took), each(own, took)),
		requestsCompared(phase, team, own),
	}
}

// lockdownCompared returns the row that tells the time of a phase with lockdown. It has no target: there are as many watches as namespaces.
func lockdownCompared(phase string, locked, own []phaseCost) harness.Row {
	var with, without time.Duration
	own = own[:min(len(own), len(locked))]
	for i := range own {
		with, without = with+locked[i].took, without+own[i].took
	}
	return harness.Inform(phase+", time, lockdown ÷ off", "%.2f", float64(with)/float64(max(without, 1))).If(len(own) > 0)
}

// requestsCompared returns the row that compares the requests of the controller in a phase, in all rounds together.
func requestsCompared(phase string, team, own []phaseCost) harness.Row {
	sum := func(costs []phaseCost) (requests int) {
		for _, c := range costs {
			requests += c.requests
		}
		return requests
	}
	on, off := sum(team), sum(own)
	return harness.AtMost(phase+", requests, identity on ÷ off", "%.2f", float64(on)/float64(max(off, 1)), 1.05).
		WithNote("%d ÷ %d", on, off).If(len(team) > 0 && len(team) == len(own))
}

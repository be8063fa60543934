package managedresource

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/local"
)

// identity measures the cost of applying every set as a ServiceAccount. One control plane serves all rounds. In each round, the controller
// runs once with its own rights and once with those of the ServiceAccount, in alternating order.
type identity struct {
	workload

	rounds int
}

// teamAccount is the ServiceAccount of all sets.
const teamAccount = "team"

const ownRights, teamRights = "", `espalier: {managedResource: {serviceAccounts: {lockdown: true, default: ` + teamAccount + `}}}
`

// identityFigures are the times of all rounds with one configuration.
type identityFigures struct{ converge, update, remove []time.Duration }

func (i identity) measure(r *harness.Run) {
	var own, team identityFigures
	var rested figures
	defer func() {
		rows := []harness.Row{
			harness.Ratio("converge, identity on ÷ off", 1.05, harness.Mean(team.converge), own.converge...),
			harness.Ratio("one object changed in every set, identity on ÷ off", 1.05, harness.Mean(team.update), own.update...),
			harness.Ratio("delete all sets, identity on ÷ off", 1.05, harness.Mean(team.remove), own.remove...),
			harness.Exactly("requests at rest, to managed objects, identity on", rested.rest.managed, 0).If(rested.rest.window > 0),
		}
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
		first, second := ownRights, teamRights
		if round%2 == 1 {
			first, second = second, first
		}
		for _, rights := range []string{first, second} {
			f := &own
			if rights == teamRights {
				f = &team
			}
			last := round == i.rounds-1 && rights == teamRights
			f.add(b.withRights(rights, last, &rested))
		}
	}
}

// withRights runs the controller with a part of its configuration, and measures the life of all sets. If rests is true, it also measures a
// window at rest, and records the result.
func (b *bench) withRights(rights string, rests bool, rested *figures) (f figures) {
	b.configure(rights)
	b.startController()
	defer b.controller.Stop()
	b.converge(&f)
	if rests {
		b.atRest(rested)
	}
	b.update(&f)
	b.remove(&f)
	b.Parallel(b.sets, workers, func(set int) { // the next round creates them again
		secret, _ := setOf(sourceNamespace, set, nil)
		b.Check(b.source.bare.Delete(b.Ctx, secret))
	})
	return f
}

func (f *identityFigures) add(of figures) {
	f.converge, f.update, f.remove = append(f.converge, of.converge), append(f.update, of.updateTotal), append(f.remove, of.remove)
}

package applier

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/observe"
)

// maxNamed is how many objects of a set, created once and not labelled, have watches of their own; more are looked at
// in each sync period.
const maxNamed = 20

// needs lists what has to be observed for a set: its objects, and those that its status still names.
func (r *Reconciler) needs(p *pass) []observe.Need {
	var needs []observe.Need
	position := map[schema.GroupKind]int{}
	add := func(kind schema.GroupVersionKind, namespace string) {
		resource, err := r.Target.Resource(kind)
		if err != nil {
			return
		}
		at, found := position[kind.GroupKind()]
		if !found {
			at = len(needs)
			position[kind.GroupKind()] = at
			needs = append(needs, observe.Need{Resource: resource.Resource, Kind: kind.GroupKind(), Namespaced: resource.Namespaced, Whole: r.whole(p, kind)})
		}
		if resource.Namespaced && !slices.Contains(needs[at].Namespaces, namespace) {
			needs[at].Namespaces = append(needs[at].Namespaces, namespace)
		}
	}
	for _, each := range p.set.items {
		if !each.unlabelled {
			add(each.kind, each.key.Namespace)
		}
	}
	for _, ref := range p.mr.Status.Resources {
		add(refKind(ref), inventory.RefKey(ref).Namespace)
	}
	named := 0
	for _, each := range p.set.items {
		if resource, err := r.Target.Resource(each.kind); err == nil && each.unlabelled && named < maxNamed {
			named++
			needs = append(needs, observe.Need{
				Resource: resource.Resource, Kind: each.kind.GroupKind(), Namespaced: resource.Namespaced, Namespaces: []string{each.namespace}, Name: each.key.Name,
				Whole: r.whole(p, each.kind),
			})
		}
	}
	return needs
}

// whole tells whether objects of a kind are judged by their status, although it has no rule of its own.
func (r *Reconciler) whole(p *pass, kind schema.GroupVersionKind) bool {
	return p.set.kstatus && !r.Registered(kind)
}

package applier

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/observe"
)

// maxNamed is how many unlabelled objects of a set have watches of their own. Further ones are read in each sync period.
const maxNamed = 20

// needs lists what must be observed for a set: its objects, and those that its status still lists.
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
			needs = append(needs, observe.Need{
				Resource: resource.Resource, Kind: kind.GroupKind(), Namespaced: resource.Namespaced, Whole: r.needsWholeObject(p, kind),
			})
		}
		if resource.Namespaced && !slices.Contains(needs[at].Namespaces, namespace) {
			needs[at].Namespaces = append(needs[at].Namespaces, namespace)
		}
	}
	for _, each := range p.set.Objects {
		if !each.Unlabelled {
			add(each.Kind, each.Key.Namespace)
		}
	}
	for _, ref := range p.mr.Status.Resources {
		add(refKind(ref), inventory.RefKey(ref).Namespace)
	}
	named := 0
	for _, each := range p.set.Objects {
		if resource, err := r.Target.Resource(each.Kind); err == nil && each.Unlabelled && named < maxNamed {
			named++
			needs = append(needs, observe.Need{
				Resource: resource.Resource, Kind: each.Kind.GroupKind(), Namespaced: resource.Namespaced, Namespaces: []string{each.Namespace},
				Name:  each.Key.Name,
				Whole: r.needsWholeObject(p, each.Kind),
			})
		}
	}
	return needs
}

// needsWholeObject reports whether the health of objects of a kind depends on their status although the kind has no health rule.
func (r *Reconciler) needsWholeObject(p *pass, kind schema.GroupVersionKind) bool {
	return p.set.Kstatus && !r.Registered(kind)
}

package controller

import (
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/networkpolicy/desired"
)

// The actions on a policy, as in metrics and messages.
const (
	actionCreate = "create"
	actionUpdate = "update"
	actionDelete = "delete"
)

// existing is an existing policy of the Service.
type existing struct {
	fingerprint string
	uid         types.UID
	// version is empty if the controller has just written the policy and the cache does not have it yet.
	version string
}

// change is an action on one policy.
type change struct {
	action string
	policy types.NamespacedName
	want   *networkingv1.NetworkPolicy // nil for a deletion
	have   existing                    // empty for a creation
}

// fingerprint returns the fingerprint of the policy after the change.
func (c change) fingerprint() string {
	if c.want == nil {
		return gone
	}
	return desired.Fingerprint(c.want)
}

// plan returns the changes that lead to the desired policies: first creations and updates in the order of want, then deletions in the order
// of their names. Policies in keep are neither changed nor deleted.
func plan(want []*networkingv1.NetworkPolicy, have map[types.NamespacedName]existing, keep map[types.NamespacedName]bool) []change {
	var changes []change
	wanted := map[types.NamespacedName]bool{}
	for _, policy := range want {
		key := client.ObjectKeyFromObject(policy)
		wanted[key] = true
		known, exists := have[key]
		switch {
		case keep[key]:
		case !exists:
			changes = append(changes, change{action: actionCreate, policy: key, want: policy})
		case known.fingerprint != desired.Fingerprint(policy):
			changes = append(changes, change{action: actionUpdate, policy: key, want: policy, have: known})
		}
	}
	var deletions []change
	for key, known := range have {
		if !wanted[key] && !keep[key] {
			deletions = append(deletions, change{action: actionDelete, policy: key, have: known})
		}
	}
	slices.SortFunc(deletions, func(a, b change) int { return strings.Compare(a.policy.String(), b.policy.String()) })
	return append(changes, deletions...)
}

// count counts changes by action.
func count(changes []change) map[string]int {
	counts := map[string]int{}
	for _, each := range changes {
		counts[each.action]++
	}
	return counts
}

// describeChanges describes the changes in a sentence.
func describeChanges(changes []change) string {
	counts := count(changes)
	names := make([]string, 0, len(changes))
	for _, each := range changes {
		names = append(names, each.action+" "+each.policy.String())
	}
	return fmt.Sprintf("Would create %d, update %d and delete %d NetworkPolicies, but the controller only observes: %s",
		counts[actionCreate], counts[actionUpdate], counts[actionDelete], few(names))
}

// fewest is how many names a message lists.
const fewest = 8

// few returns the first names and the number of the others.
func few(names []string) string {
	if len(names) <= fewest {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:fewest], ", "), len(names)-fewest)
}

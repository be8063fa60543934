package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// mostDryRuns is the maximum number of undisturbed runs of a scenario. Among them, the required number must agree. On a busy machine, a
// watch can be so late that a request is sent twice.
const mostDryRuns = 6

// Dry runs a scenario undisturbed until the given number of runs agree, and requires the result that the scenario declares. It fails if two
// runs have different results, or if no number of requests occurs often enough.
func Dry(ctx context.Context, env *managedresourcetest.Env, scenario Scenario, times int) (*Reference, error) {
	var references []*Reference
	var different error
	for len(references) < mostDryRuns {
		outcome, err := Run(ctx, env, scenario, Plan{}, nil)
		if err == nil {
			err = promised(scenario, outcome)
		}
		if err != nil {
			return nil, fmt.Errorf("run undisturbed: %w", err)
		}
		next := newReference(outcome)
		alike := 1
		for _, each := range references {
			if text := cmp.Diff(each.End, next.End); text != "" {
				return nil, fmt.Errorf("two undisturbed runs end differently, so nothing can be compared with them:\n%s", text)
			}
			if len(each.Requests) == len(next.Requests) {
				alike++
				continue
			}
			different = fmt.Errorf("two undisturbed runs send %d and %d requests that count, so the number of a request does not say which one "+
				"it is; something in the scenario depends on timing:\n%s", len(each.Requests), len(next.Requests),
				cmp.Diff(each.Requests, next.Requests))
		}
		if alike >= times {
			return next, nil
		}
		references = append(references, next)
	}
	return nil, different
}

func newReference(outcome Outcome) *Reference {
	r := &Reference{Requests: outcome.Requests, End: outcome.end.Snapshot, deletions: outcome.deletions}
	for key := range outcome.before.uids {
		if outcome.stayed(key) {
			r.stays = append(r.stays, key)
		}
	}
	return r
}

// promised checks that the result of an undisturbed run is as the scenario declares in Stays, Goes and Kept.
func promised(scenario Scenario, outcome Outcome) error {
	var findings []string
	if len(outcome.Requests) == 0 {
		findings = append(findings, "the controller sent nothing at which it could be cut off")
	}
	for _, key := range scenario.Stays {
		if !outcome.stayed(key) {
			findings = append(findings, key+" did not stay")
		}
	}
	for _, key := range scenario.Goes {
		if outcome.before.uids[key] == "" || outcome.stayed(key) {
			findings = append(findings, key+" did not go")
		}
	}
	if len(findings) > 0 {
		return errors.New(strings.Join(findings, "; "))
	}
	return orphans(scenario, outcome)
}

// orphans returns an error unless the objects with the origin of a set whose status does not list them are exactly the objects in Kept.
func orphans(scenario Scenario, outcome Outcome) error {
	kept := slices.Sorted(slices.Values(scenario.Kept))
	if !slices.Equal(outcome.end.orphans, kept) {
		return fmt.Errorf("of the objects that bear the origin of a set these are not in its status: %v, and these should be: %v",
			outcome.end.orphans, kept)
	}
	return nil
}

// Try runs a scenario as planned and requires the same result as the reference: all objects and sets are equal, nothing was deleted that is
// not deleted undisturbed, and nothing is orphaned.
func Try(ctx context.Context, env *managedresourcetest.Env, scenario Scenario, plan Plan, reference *Reference) (Outcome, error) {
	outcome, err := Run(ctx, env, scenario, plan, reference)
	if err != nil {
		return outcome, err
	}
	var findings []string
	for _, key := range reference.stays {
		if !outcome.stayed(key) {
			findings = append(findings, key+" was deleted and created anew")
		}
	}
	for _, each := range outcome.deletions {
		if !slices.Contains(reference.deletions, each) {
			findings = append(findings, "undisturbed there is no "+each)
		}
	}
	slices.Sort(findings)
	if len(findings) > 0 {
		return outcome, errors.New(strings.Join(slices.Compact(findings), "; "))
	}
	return outcome, orphans(scenario, outcome)
}

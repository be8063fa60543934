// Package skew refuses a version of the operator, or of Kubernetes in the virtual cluster, that must not follow the current version. Verify
// reads which version of the operator acted last on the Garden, before anything else runs. Check and CheckKubernetes only compare versions
// that the caller passes. The package writes nothing.
package skew

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// maxMinors is the largest number of minor versions that the operator may be ahead of the operator that acted last.
const maxMinors = 1

// Check returns an error unless an operator of the version own may act on the Gardens. It may act if there is no Garden, or only one
// Garden. The status of this Garden must name no version, or a version that is not later than own and at most one minor version earlier. A
// pre-release counts as its release.
func Check(gardens []operatorv1alpha1.Garden, own string) error {
	if len(gardens) > 1 {
		return fmt.Errorf("expected at most one Garden but got %d", len(gardens))
	}
	if len(gardens) == 0 || gardens[0].Status.Gardener == nil {
		return nil
	}
	old := gardens[0].Status.Gardener.Version
	oldVersion, err := version.ParseGeneric(old)
	if err != nil {
		return fmt.Errorf("failed parsing old Garden version %q: %w", old, err)
	}
	ownVersion, err := version.ParseGeneric(own)
	if err != nil {
		return fmt.Errorf("failed comparing versions for downgrade check: %w", err)
	}
	if ownVersion.LessThan(oldVersion) {
		return fmt.Errorf(
			"downgrading Gardener is not supported (old version was %s, my version is %s), start a version that is not earlier", old, own,
		)
	}
	if tooNew := version.MajorMinor(oldVersion.Major(), oldVersion.Minor()+maxMinors+1); ownVersion.AtLeast(tooNew) {
		return fmt.Errorf(
			"skipping Gardener versions is unsupported (old version was %s, my version is %s), upgrade one minor version at a time", old, own,
		)
	}
	return nil
}

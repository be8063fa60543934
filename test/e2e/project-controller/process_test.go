//go:build e2e

package projectcontroller_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

var _ = Describe("its own Pods", func() {
	cluster.Process{
		Binary: binary, Lease: "gardener-controller-manager-leader-election-project-controller",
		Metric: "espalier_project_",
	}.Specs(&c)
})

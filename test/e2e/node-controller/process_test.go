//go:build e2e

package nodecontroller_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

var _ = Describe("its own Pods", func() {
	cluster.Process{Binary: binary, Lease: "gardener-resource-manager-node-controller", Metric: "espalier_node_"}.Specs(&c)
})

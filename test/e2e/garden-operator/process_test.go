//go:build e2e

package gardenoperator_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

var _ = Describe("its own Pods", func() {
	cluster.Process{Binary: binary, Lease: "gardener-operator-leader-election", Metric: "espalier_webhook_"}.Specs(&c)
})

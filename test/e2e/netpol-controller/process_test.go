//go:build e2e

package netpolcontroller_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

var _ = Describe("its own Pods", func() {
	cluster.Process{Binary: binary, Lease: "gardener-resource-manager-netpol-controller", Metric: "espalier_networkpolicy_"}.Specs(&c)
})

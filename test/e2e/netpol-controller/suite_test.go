//go:build e2e

// Package netpolcontroller_test checks netpol-controller from outside, in a real cluster: the policies that it makes for Services, and that
// they are enforced where something enforces policies.
package netpolcontroller_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

const binary = "netpol-controller"

// c is the cluster under test, from the beginning of the suite on.
var c *cluster.Cluster

func TestE2E(t *testing.T) { cluster.Run(t, binary) }

var _ = BeforeSuite(func(ctx SpecContext) { c = cluster.Deployed(ctx, binary) }, NodeTimeout(5*time.Minute))

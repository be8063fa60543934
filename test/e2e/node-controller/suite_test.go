//go:build e2e

// Package nodecontroller_test checks node-controller from outside, in a real cluster: when it frees Nodes, with a kubelet and without.
package nodecontroller_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

const binary = "node-controller"

// c is the cluster under test, from the beginning of the suite on.
var c *cluster.Cluster

func TestE2E(t *testing.T) { cluster.Run(t, binary) }

var _ = BeforeSuite(func(ctx SpecContext) { c = cluster.Deployed(ctx, binary) }, NodeTimeout(5*time.Minute))

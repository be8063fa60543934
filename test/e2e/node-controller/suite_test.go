//go:build e2e

// Package nodecontroller_test tests node-controller in a real cluster: when it removes the taint of Nodes, with and without a kubelet.
package nodecontroller_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

const binary = "node-controller"

// c is the cluster under test. The suite sets it before the specs.
var c *cluster.Cluster

func TestE2E(t *testing.T) { cluster.Run(t, binary) }

var _ = BeforeSuite(func(ctx SpecContext) { c = cluster.Deployed(ctx, binary) }, NodeTimeout(5*time.Minute))

//go:build e2e

// Package tokencontrollers_test checks token-controllers from outside, in a real cluster: tokens are mounted by a kubelet and
// used from inside of Pods.
package tokencontrollers_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

const binary = "token-controllers"

// c is the cluster under test, from the beginning of the suite on.
var c *cluster.Cluster

func TestE2E(t *testing.T) { cluster.Run(t, binary) }

var _ = BeforeSuite(func(ctx SpecContext) { c = cluster.Deployed(ctx, binary) })

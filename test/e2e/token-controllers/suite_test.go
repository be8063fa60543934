//go:build e2e

// Package tokencontrollers_test tests token-controllers in a real cluster: a kubelet mounts the tokens, and programs in Pods use them.
package tokencontrollers_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

const binary = "token-controllers"

// c is the cluster under test. The suite sets it before the specs.
var c *cluster.Cluster

func TestE2E(t *testing.T) { cluster.Run(t, binary) }

var _ = BeforeSuite(func(ctx SpecContext) { c = cluster.Deployed(ctx, binary) })

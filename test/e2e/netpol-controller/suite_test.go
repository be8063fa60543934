//go:build e2e

// Package netpolcontroller_test tests netpol-controller in a real cluster: the policies that it creates for Services, and their enforcement
// if the cluster has a policy engine.
package netpolcontroller_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

const binary = "netpol-controller"

// c is the cluster under test. The suite sets it before the specs.
var c *cluster.Cluster

func TestE2E(t *testing.T) { cluster.Run(t, binary) }

var _ = BeforeSuite(func(ctx SpecContext) { c = cluster.Deployed(ctx, binary) }, NodeTimeout(5*time.Minute))

//go:build e2e

// Package csrapprover_test tests csr-approver in a real cluster: its decisions about requests of kubelets, real and forged, and that
// kubectl can connect to a kubelet afterwards.
package csrapprover_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

const (
	binary = "csr-approver"
	lease  = "gardener-resource-manager-csr-approver"
)

// c is the cluster under test. The suite sets it before the specs.
var c *cluster.Cluster

func TestE2E(t *testing.T) { cluster.Run(t, binary) }

var _ = BeforeSuite(func(ctx SpecContext) { c = cluster.Deployed(ctx, binary) }, NodeTimeout(5*time.Minute))

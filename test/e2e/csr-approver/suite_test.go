//go:build e2e

// Package csrapprover_test checks csr-approver from outside, in a real cluster: what it decides about requests of kubelets, real and forged,
// and that kubectl reaches a kubelet thereafter.
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

// c is the cluster under test, from the beginning of the suite on.
var c *cluster.Cluster

func TestE2E(t *testing.T) { cluster.Run(t, binary) }

var _ = BeforeSuite(func(ctx SpecContext) { c = cluster.Deployed(ctx, binary) }, NodeTimeout(5*time.Minute))

//go:build e2e

// Package projectcontroller_test tests project-controller in a real cluster: the rights that Projects give their members, and the lifetime
// of Projects.
package projectcontroller_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

const binary = "project-controller"

// c is the cluster under test. The suite sets it before the specs.
var c *cluster.Cluster

func TestE2E(t *testing.T) { cluster.Run(t, binary) }

var _ = BeforeSuite(func(ctx SpecContext) {
	c = cluster.Deployed(ctx, binary)
	DeferCleanup(func(ctx SpecContext) { Eventually(ctx, dismissed).WithTimeout(2 * time.Minute).Should(BeEmpty()) },
		NodeTimeout(3*time.Minute))
}, NodeTimeout(5*time.Minute))

//go:build e2e

// Package webhookserver_test checks webhook-server from outside, in a real cluster: what it makes of Pods, workloads and
// EndpointSlices that then really run, and how the cluster fares while its replicas come and go.
package webhookserver_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

const binary = "webhook-server"

// c is the cluster under test, from the beginning of the suite on.
var c *cluster.Cluster

func TestE2E(t *testing.T) { cluster.Run(t, binary) }

var _ = BeforeSuite(func(ctx SpecContext) { c = cluster.Deployed(ctx, binary) }, NodeTimeout(5*time.Minute))

//go:build e2e

// Package webhookserver_test tests webhook-server in a real cluster: how it changes Pods, workloads and EndpointSlices, which the cluster
// then runs, and that the cluster works while its replicas stop and start.
package webhookserver_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

const binary = "webhook-server"

// c is the cluster under test. The suite sets it before the specs.
var c *cluster.Cluster

func TestE2E(t *testing.T) { cluster.Run(t, binary) }

var _ = BeforeSuite(func(ctx SpecContext) { c = cluster.Deployed(ctx, binary) }, NodeTimeout(5*time.Minute))

//go:build e2e

package webhookserver_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

var _ = Describe("its own Pods", func() {
	cluster.Process{Binary: binary, Metric: "espalier_webhook_"}.Specs(&c)
})

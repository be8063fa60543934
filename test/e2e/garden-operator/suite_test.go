//go:build e2e

// Package gardenoperator_test tests garden-operator in a real cluster: the objects of a Garden, the resource manager that it deploys,
// refused requests, and that a deleted Garden leaves no objects.
package gardenoperator_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

const binary = "garden-operator"

// c is the cluster under test. The suite sets it before the specs.
var c *cluster.Cluster

func TestE2E(t *testing.T) { cluster.Run(t, binary) }

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	c, err = cluster.Connect()
	Expect(err).NotTo(HaveOccurred())
	if isLocalGarden(ctx) {
		return // `make up-garden` has deployed the operator, with lists of images
	}
	Expect(c.Ensure(ctx, binary)).To(Succeed())
	if c.Repository == cluster.DefaultRepository {
		return
	}
	// The configuration contains the names of the resource manager's images, which kustomize does not replace.
	shipped, _ := deployable.Named(binary)
	config := strings.Replace(shipped.Config, "repository: "+cluster.DefaultRepository, "repository: "+c.Repository, 1)
	Expect(config).NotTo(Equal(shipped.Config), "the shipped configuration names the repository")
	Expect(c.Configure(ctx, binary, config)).To(Succeed())
}, NodeTimeout(10*time.Minute))

package criticalcomponents_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/node"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/test/binary"
)

func TestMissingRightsAreToldAtStart(t *testing.T) {
	s := newScene(t, binary.Options{Stopped: true})
	kubeconfig, err := binary.Identity(s.Ctx, s.Target, s.Servers.Target.Config, "nobody", s.Namespace)
	s.Expect(err).NotTo(HaveOccurred())
	s.Config.TargetClientConnection.Kubeconfig = s.write(kubeconfig)
	needs, err := node.Needs(s.Config)
	s.Expect(err).NotTo(HaveOccurred())
	setup := &process.Setup{Program: process.Program{Name: "node-controller"}, Config: s.Config.Process()}
	_, err = setup.Connect(s.Ctx, needs)
	s.Expect(err).To(MatchError(And(
		HavePrefix("target cluster at https://"),
		ContainSubstring("not allowed to list, watch, patch nodes in all namespaces: grant it, for example with the roles in deploy/node-controller; "+
			"not allowed to list, watch pods in all namespaces: grant it"),
		HaveSuffix("not allowed to get, list, watch csinodes.storage.k8s.io in all namespaces: grant it, for example with the roles in deploy/node-controller"))))
}

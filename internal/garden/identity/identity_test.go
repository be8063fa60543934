package identity_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/identity"
)

func TestContainersAreIdentifiedByTheirID(t *testing.T) {
	id, other := strings.Repeat("0a", 32), strings.Repeat("1b", 32)
	for name, cgroup := range map[string]string{
		"version 2":                           "0::/kubepods/burstable/pod1/" + id + "\n",
		"version 2 of docker with systemd":    "0::/system.slice/docker-" + id + ".scope\n",
		"version 2 of containerd":             "0::/kubepods.slice/cri-containerd-" + id + ".scope",
		"version 1":                           "12:cpuset:/x\n1:name=systemd:/kubepods/pod1/" + id + "\n",
		"version 2 is preferred to version 1": "1:name=systemd:/docker/" + other + "\n0::/docker/" + id + "\n",
		"version 2 without an ID":             "1:name=systemd:/docker/" + id + "\n0::/\n",
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(identity.New("host", "v1.2.3", []byte(cgroup), nil)).
				To(Equal(operatorv1alpha1.OperatorIdentity{ID: id, Name: "host", Version: "v1.2.3"}))
		})
	}
}

func TestProcessesWithoutContainerIDGetARandomID(t *testing.T) {
	for name, cgroup := range map[string]string{
		"no file":           "",
		"no container":      "0::/user.slice/session-2.scope\n",
		"another hierarchy": "4:memory:/docker/" + strings.Repeat("0a", 32) + "\n",
		"capital letters":   "0::/docker/" + strings.Repeat("0A", 32) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			random := rand.New(rand.NewPCG(1, 2))
			first, second := identity.New("host", "v1.2.3", []byte(cgroup), random), identity.New("host", "v1.2.3", []byte(cgroup), random)
			g.Expect(first.ID).To(MatchRegexp("^[a-z0-9]{64}$"))
			g.Expect(second.ID).To(MatchRegexp("^[a-z0-9]{64}$"))
			g.Expect(first.ID).NotTo(Equal(second.ID))
		})
	}
}

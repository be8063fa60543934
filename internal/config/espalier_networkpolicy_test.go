package config

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
)

func TestEspalierNetworkPolicyDefaults(t *testing.T) {
	g, c := NewWithT(t), load(t, minimal).Espalier.NetworkPolicy
	g.Expect(c).To(BeComparableTo(EspalierNetworkPolicy{}))
	g.Expect(c.Requests()).To(Equal(32))
}

func TestEspalierNetworkPolicyIsRead(t *testing.T) {
	c := load(t, minimal+"espalier: {networkPolicy: {observeOnly: true, maxConcurrentRequests: 4}}")
	NewWithT(t).Expect(c.Espalier.NetworkPolicy).To(BeComparableTo(EspalierNetworkPolicy{ObserveOnly: ptr.To(true), MaxConcurrentRequests: ptr.To(4)}))
}

func TestEspalierNetworkPolicyMistakes(t *testing.T) {
	NewWithT(t).Expect(validate(t, minimal+"leaderElection: {leaderElect: false}\nespalier: {networkPolicy: {maxConcurrentRequests: 0}}")).To(ContainElement(
		"espalier.networkPolicy.maxConcurrentRequests: Invalid value: 0: must be at least 1"))
}

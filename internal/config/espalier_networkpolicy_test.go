package config

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestEspalierNetworkPolicyDefaults(t *testing.T) {
	g, c := NewWithT(t), load(t, minimal).Espalier.NetworkPolicy
	g.Expect(c).To(BeComparableTo(EspalierNetworkPolicy{}))
	g.Expect(c.Requests()).To(Equal(32))
}

func TestEspalierNetworkPolicyIsRead(t *testing.T) {
	c := load(t, minimal+"espalier: {networkPolicy: {observeOnly: true, maxConcurrentRequests: 4}}")
	NewWithT(t).Expect(c.Espalier.NetworkPolicy).
		To(BeComparableTo(EspalierNetworkPolicy{ObserveOnly: ptr.To(true), MaxConcurrentRequests: ptr.To(4)}))
}

func TestAnEmptyListOfClientNamespaceSelectorsIsNotAbsent(t *testing.T) {
	g := NewWithT(t)
	empty := load(t, minimal+"espalier: {networkPolicy: {clientNamespaceSelectors: []}}").Espalier.NetworkPolicy.ClientNamespaceSelectors
	g.Expect(empty).To(HaveValue(BeEmpty()))
	one := load(t, minimal+"espalier: {networkPolicy: {clientNamespaceSelectors: [{matchLabels: "+
		"{team: shop}}]}}").Espalier.NetworkPolicy.ClientNamespaceSelectors
	g.Expect(one).To(HaveValue(Equal([]metav1.LabelSelector{{MatchLabels: map[string]string{"team": "shop"}}})))
}

func TestEspalierNetworkPolicyMistakes(t *testing.T) {
	NewWithT(t).Expect(validate(t, minimal+"leaderElection: {leaderElect: false}\nespalier: {networkPolicy: {maxConcurrentRequests: 0}}")).
		To(ContainElement(
			"espalier.networkPolicy.maxConcurrentRequests: Invalid value: 0: must be at least 1"))
	NewWithT(t).Expect(validate(t,
		minimal+"leaderElection: {leaderElect: false}\nespalier: {networkPolicy: {clientNamespaceSelectors: [{matchExpressions: [{key: a, "+
			"operator: Near}]}]}}")).To(ContainElement(
		`espalier.networkPolicy.clientNamespaceSelectors[0].matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator`))
}

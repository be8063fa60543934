package main

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/espalier-dev/espalier/internal/config"
)

// section is a section of Gardener's file that no child serves.
type section struct {
	fields []string
	// effect is the consequence of an enabled section that no child serves, for users.
	effect string
}

func (s section) path() string { return s.fields[0] + "." + s.fields[1] }

// sectionsNotServed returns the sections in alphabetical order.
func sectionsNotServed() []section {
	return []section{
		{
			[]string{"controllers", "istioClusterConfiguration"},
			"Istio gets no ServiceEntries and DestinationRules for load balancing of API servers on layer 7",
		},
		{
			[]string{"controllers", "networkPolicy"},
			"no NetworkPolicies are derived from Services: run netpol-controller",
		},
		{
			[]string{"controllers", "nodeAgentReconciliationDelay"},
			"all gardener-node-agents of a Shoot apply a new operating system configuration at the same time",
		},
		{
			[]string{"webhooks", "nodeAgentAuthorizer"},
			"the API server denies the requests of gardener-node-agents, so the Shoot must have no workers",
		},
		{
			[]string{"webhooks", "podKubeAPIServerLoadBalancing"},
			"Pods do not use the load balancing of API servers on layer 7",
		},
		{
			[]string{"webhooks", "vpaInPlaceUpdates"},
			"the API server refuses VerticalPodAutoscalers in kube-system and kubernetes-dashboard, if the Shoot serves that kind",
		},
	}
}

// explain replaces the warnings about sections that no child serves. It returns one warning, with the consequence, for each of these
// sections that is enabled. A section that is disabled needs none.
func explain(file map[string]any, warnings []config.Warning) []config.Warning {
	known, explained := sets.New[string](), []config.Warning(nil)
	for _, each := range sectionsNotServed() {
		known.Insert(each.path())
		if enabled, _, _ := unstructured.NestedBool(file, append(each.fields, "enabled")...); enabled {
			explained = append(explained, config.Warning{Path: each.path(), Message: "not supported: " + each.effect, Mistake: true})
		}
	}
	others := slices.DeleteFunc(warnings, func(w config.Warning) bool { return known.Has(w.Path) })
	return append(others, explained...)
}

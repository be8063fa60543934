package controller_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const mayBeClient = "test.espalier.dev/may-be-client"

// A Service selects every namespace. Policies are created only in namespaces that the configuration allows as clients.
func TestServicesCannotSelectNamespacesThatAreNotAllowedAsClients(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{stopped: true})
	s.Config.Espalier.NetworkPolicy.ClientNamespaceSelectors = &[]metav1.LabelSelector{{MatchLabels: map[string]string{mayBeClient: "true"}}}
	s.Start()
	b := s.namespace("b", nil)
	s.namespace("c", map[string]string{mayBeClient: "true"})
	s.service(map[string]string{selectors: "[{}]"})
	s.awaits(own(), across("c"))

	s.label(b, mayBeClient, "true")
	s.awaits(own(), across("b"), across("c"))

	s.label(b, mayBeClient, "")
	s.awaits(own(), across("c"))
}

func TestAnEmptyListOfClientNamespaceSelectorsAllowsNoOtherNamespace(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{stopped: true})
	s.Config.Espalier.NetworkPolicy.ClientNamespaceSelectors = ptr.To([]metav1.LabelSelector{})
	s.Start()
	s.namespace("b", nil)
	s.service(map[string]string{selectors: "[{}]"})
	s.awaits(own())
	s.settled()
	s.awaits(own())
}

package apiserver_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
)

func TestEachAPIServerEncryptsWhatItServes(t *testing.T) {
	g := NewWithT(t)
	all := []string{"secrets", "shootstates.core.gardener.cloud", "terminals.dashboard.gardener.cloud", "deployments.apps"}
	g.Expect(apiserver.OfGardener(all)).To(Equal([]string{"shootstates.core.gardener.cloud"}))
	g.Expect(apiserver.OfKubernetes(all)).To(Equal([]string{"secrets", "terminals.dashboard.gardener.cloud", "deployments.apps"}))
}

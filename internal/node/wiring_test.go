package node

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/config"
)

func TestNothingToDoIsSaid(t *testing.T) {
	err := Check(&config.ResourceManagerConfiguration{})
	NewWithT(t).Expect(err).To(MatchError("there is nothing to do: set controllers.node.enabled to true, or do not run node-controller"))
}

func TestNamespacesAreThoseOfTheTarget(t *testing.T) {
	source := config.ClientConnection{Namespaces: []string{"source"}}
	for name, tc := range map[string]struct {
		cfg  config.ResourceManagerConfiguration
		want []string
	}{
		"no restriction": {want: []string{""}},
		"one cluster":    {cfg: config.ResourceManagerConfiguration{SourceClientConnection: source}, want: []string{"source"}},
		"a target that is not restricted": {
			cfg:  config.ResourceManagerConfiguration{SourceClientConnection: source, TargetClientConnection: &config.ClientConnection{}},
			want: []string{""},
		},
		"a target that is restricted": {
			cfg: config.ResourceManagerConfiguration{
				SourceClientConnection: source, TargetClientConnection: &config.ClientConnection{Namespaces: []string{"a", "b"}},
			},
			want: []string{"a", "b"},
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(namespaces(&tc.cfg)).To(Equal(tc.want)) })
	}
}

func TestRequiredDaemonSetsMustBeSeen(t *testing.T) {
	g := NewWithT(t)
	cfg := &config.ResourceManagerConfiguration{TargetClientConnection: &config.ClientConnection{Namespaces: []string{"kube-system"}}}
	cfg.Espalier.Node.RequiredDaemonSets = []string{"kube-system/a", "other/b"}
	_, err := Needs(cfg)
	g.Expect(err).To(MatchError(`espalier.node.requiredDaemonSets[1]: DaemonSet other/b could never be seen, and no Node would lose its ` +
		`taint: add namespace "other" to targetClientConnection.namespaces`))

	cfg.TargetClientConnection.Namespaces = append(cfg.TargetClientConnection.Namespaces, "other")
	_, err = Needs(cfg)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cfg.Espalier.Node.Required()).
		To(Equal([]types.NamespacedName{{Namespace: "kube-system", Name: "a"}, {Namespace: "other", Name: "b"}}))
}

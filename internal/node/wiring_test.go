package node

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

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
	g.Expect(required(cfg)).To(Equal([]types.NamespacedName{{Namespace: "kube-system", Name: "a"}, {Namespace: "other", Name: "b"}}))
}

func TestBackoff(t *testing.T) {
	for name, tc := range map[string]struct {
		configured *metav1.Duration
		want       time.Duration
	}{
		"as configured":             {configured: &metav1.Duration{Duration: time.Minute}, want: time.Minute},
		"none":                      {want: 10 * time.Second},
		"one that would never look": {configured: ptr.To(metav1.Duration{}), want: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(backoff(config.NodeController{Backoff: tc.configured})).To(Equal(tc.want))
		})
	}
}

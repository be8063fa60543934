package config

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestValidateEspalierNode(t *testing.T) {
	for name, tc := range map[string]struct {
		required []string
		want     []string
	}{
		"nothing is required by default": {},
		"names of DaemonSets":            {required: []string{"kube-system/calico-node", "kube-system/csi.driver"}},
		"a name without namespace": {
			required: []string{"calico-node"},
			want:     []string{`espalier.node.requiredDaemonSets[0]: Invalid value: "calico-node": must be <namespace>/<name>`},
		},
		"names that nothing can have, and one twice": {
			required: []string{"Kube/a", "kube-system/", "a/b/c", "a/b", "a/b"},
			want: []string{
				`espalier.node.requiredDaemonSets[0]: Invalid value: "Kube/a": is not in a namespace that can exist: a lowercase RFC 1123 label`,
				`espalier.node.requiredDaemonSets[1]: Invalid value: "kube-system/": is not a name: a lowercase RFC 1123 subdomain`,
				`espalier.node.requiredDaemonSets[2]: Invalid value: "a/b/c": is not a name: a lowercase RFC 1123 subdomain`,
				`espalier.node.requiredDaemonSets[4]: Duplicate value: "a/b"`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			errs := validateEspalierNode(EspalierNode{RequiredDaemonSets: tc.required}, field.NewPath("espalier", "node"))
			g.Expect(errs).To(HaveLen(len(tc.want)))
			for i, err := range errs {
				g.Expect(err.Error()).To(HavePrefix(tc.want[i]))
			}
		})
	}
}

func TestEspalierNodeIsRead(t *testing.T) {
	g := NewWithT(t)
	cfg, warnings, err := ResourceManager([]byte(`apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
espalier: {node: {requiredDaemonSets: [kube-system/calico-node]}}
`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(warnings).To(BeEmpty())
	g.Expect(cfg.Espalier.Node).To(BeComparableTo(EspalierNode{RequiredDaemonSets: []string{"kube-system/calico-node"}}))
}

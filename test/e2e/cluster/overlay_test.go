package cluster

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestKustomization(t *testing.T) {
	for name, tc := range map[string]struct {
		overlay overlay
		want    string
	}{
		"images of another repository": {
			overlay: overlay{binary: "b", repository: "r.example.com/e", version: "v1", base: "../deploy/b"},
			want: `apiVersion: kustomize.config.k8s.io/v1beta1
images:
- name: espalier.local/b
  newName: r.example.com/e/b
  newTag: v1
kind: Kustomization
resources:
- ../deploy/b
`,
		},
		"another configuration, of which the Pods hear": {
			overlay: overlay{binary: "b", repository: "espalier.local", version: "v1", base: "../deploy/b", config: "kind: Config\n"},
			want: `apiVersion: kustomize.config.k8s.io/v1beta1
images:
- name: espalier.local/b
  newName: espalier.local/b
  newTag: v1
kind: Kustomization
patches:
- patch: |
    apiVersion: v1
    data:
      config.yaml: |
        kind: Config
    kind: ConfigMap
    metadata:
      name: espalier-b
      namespace: espalier-system
- patch: |
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: espalier-b
      namespace: espalier-system
    spec:
      template:
        metadata:
          annotations:
            espalier.dev/config-checksum: c457ecd56e077ef1
resources:
- ../deploy/b
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			content, err := tc.overlay.kustomization()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(content)).To(Equal(tc.want))
		})
	}
}

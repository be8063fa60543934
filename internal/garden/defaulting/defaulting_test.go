package defaulting_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/defaulting"
)

func read(t *testing.T, manifest string) *operatorv1alpha1.Garden {
	t.Helper()
	garden := &operatorv1alpha1.Garden{}
	NewWithT(t).Expect(yaml.UnmarshalStrict([]byte(manifest), garden)).To(Succeed())
	return garden
}

func TestDefaults(t *testing.T) {
	const (
		runtime = `
    ingress: {controller: {kind: ""}}
    networking: {ipFamilies: [IPv4]}
    provider: {}
    settings: {verticalPodAutoscaler: {enabled: true}}
`
		gardener = `
    gardener: {clusterIdentity: "", gardenerAPIServer: {encryptionConfig: {provider: {type: aescbc}}}}
`
	)
	for sentence, tc := range map[string]struct{ given, want string }{
		"an empty Garden of a version without enableAnonymousAuthentication": {
			given: `{spec: {virtualCluster: {kubernetes: {version: 1.36.1}}}}`,
			want: `
spec:
  runtimeCluster:` + runtime + `
  virtualCluster:` + gardener + `
    kubernetes:
      version: 1.36.1
      kubeAPIServer:
        requests: {maxNonMutatingInflight: 400, maxMutatingInflight: 200}
        eventTTL: 1h
        logging: {verbosity: 2}
        encryptionConfig: {provider: {type: aescbc}}
      kubeControllerManager: {}
`,
		},
		"an empty Garden of a version with enableAnonymousAuthentication": {
			given: `{spec: {virtualCluster: {kubernetes: {version: 1.34.1, kubeAPIServer: {}}}}}`,
			want: `
spec:
  runtimeCluster:` + runtime + `
  virtualCluster:` + gardener + `
    kubernetes:
      version: 1.34.1
      kubeAPIServer:
        requests: {maxNonMutatingInflight: 400, maxMutatingInflight: 200}
        enableAnonymousAuthentication: false
        eventTTL: 1h
        logging: {verbosity: 2}
        encryptionConfig: {provider: {type: aescbc}}
      kubeControllerManager: {}
`,
		},
		"a stored default that the version forbids": {
			given: `{spec: {virtualCluster: {kubernetes: {version: 1.35.0, kubeAPIServer: {enableAnonymousAuthentication: false}}}}}`,
			want: `
spec:
  runtimeCluster:` + runtime + `
  virtualCluster:` + gardener + `
    kubernetes:
      version: 1.35.0
      kubeAPIServer:
        requests: {maxNonMutatingInflight: 400, maxMutatingInflight: 200}
        eventTTL: 1h
        logging: {verbosity: 2}
        encryptionConfig: {provider: {type: aescbc}}
      kubeControllerManager: {}
`,
		},
		"values that are set": {
			given: `
spec:
  runtimeCluster:
    networking: {ipFamilies: [IPv6]}
    settings: {verticalPodAutoscaler: {enabled: false}}
  virtualCluster:
    kubernetes:
      version: 1.36.1
      kubeAPIServer:
        requests: {maxNonMutatingInflight: 0, maxMutatingInflight: 1}
        enableAnonymousAuthentication: true
        eventTTL: 0s
        logging: {verbosity: 0}
        encryptionConfig: {resources: [configmaps], provider: {type: secretbox}}
      kubeControllerManager: {certificateSigningDuration: 24h}
`,
			want: `
spec:
  runtimeCluster:
    networking: {ipFamilies: [IPv6]}
    settings: {verticalPodAutoscaler: {enabled: false}}
  virtualCluster:
    gardener: {gardenerAPIServer: {encryptionConfig: {provider: {type: secretbox}}}}
    kubernetes:
      version: 1.36.1
      kubeAPIServer:
        requests: {maxNonMutatingInflight: 0, maxMutatingInflight: 1}
        enableAnonymousAuthentication: true
        eventTTL: 0s
        logging: {verbosity: 0}
        encryptionConfig: {resources: [configmaps], provider: {type: secretbox}}
      kubeControllerManager: {certificateSigningDuration: 24h}
`,
		},
		"parts of objects, and a version that is none": {
			given: `
spec:
  runtimeCluster:
    settings: {topologyAwareRouting: {enabled: true}, verticalPodAutoscaler: {featureGates: {InPlace: true}}}
  virtualCluster:
    gardener: {gardenerAPIServer: {encryptionConfig: {provider: {type: aesgcm}}}}
    kubernetes:
      version: one
      kubeAPIServer: {requests: {maxMutatingInflight: 1}, logging: {httpAccessVerbosity: 3}, encryptionConfig: {provider: {type: ""}}}
`,
			want: `
spec:
  runtimeCluster:
    networking: {ipFamilies: [IPv4]}
    settings: {topologyAwareRouting: {enabled: true}, verticalPodAutoscaler: {enabled: true, featureGates: {InPlace: true}}}
  virtualCluster:
    gardener: {gardenerAPIServer: {encryptionConfig: {provider: {type: aesgcm}}}}
    kubernetes:
      version: one
      kubeAPIServer:
        requests: {maxNonMutatingInflight: 400, maxMutatingInflight: 1}
        eventTTL: 1h
        logging: {verbosity: 2, httpAccessVerbosity: 3}
        encryptionConfig: {provider: {type: aescbc}}
      kubeControllerManager: {}
`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			garden, want := read(t, tc.given), read(t, tc.want)
			defaulting.Garden(garden)
			g.Expect(garden).To(BeComparableTo(want))
			defaulting.Garden(garden)
			g.Expect(garden).To(BeComparableTo(want), "the second call")
		})
	}
}

// Defaulting changes neither metadata, nor status, nor fields that a manifest sets.
func TestDefaultingKeepsManifestsOfEveryRelease(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob("../../../api/operator/v1alpha1/testdata/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).To(HaveLen(5))
	for _, file := range files {
		content, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		before, after := read(t, string(content)), read(t, string(content))
		defaulting.Garden(after)
		g.Expect(after.ObjectMeta).To(BeComparableTo(before.ObjectMeta), file)
		g.Expect(after.Status).To(BeComparableTo(before.Status), file)
		g.Expect(after.Spec.RuntimeCluster.Ingress).To(BeComparableTo(before.Spec.RuntimeCluster.Ingress), file)
		g.Expect(after.Spec.VirtualCluster.DNS).To(BeComparableTo(before.Spec.VirtualCluster.DNS), file)
	}
}

package validation_test

import (
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// valid is a Garden without findings.
const valid = `
apiVersion: operator.gardener.cloud/v1alpha1
kind: Garden
metadata: {name: garden}
spec:
  runtimeCluster:
    ingress: {domains: [{name: ingress.example.com}], controller: {kind: nginx}}
    networking: {nodes: [10.1.0.0/16], pods: [10.2.0.0/16], services: [10.3.0.0/16]}
    provider: {zones: [a, b]}
  virtualCluster:
    dns: {domains: [{name: example.com}, {name: example.org}]}
    gardener: {clusterIdentity: garden-1}
    kubernetes: {version: 1.33.1}
    maintenance: {timeWindow: {begin: 220000+0100, end: 230000+0100}}
    networking: {services: [100.64.0.0/13]}
`

// garden returns the valid Garden with changes, each of which is a merge patch in YAML. In their keys, R, V, K and G stand for the paths
// of the runtime cluster, the virtual cluster, kube-apiserver and Gardener.
func garden(t *testing.T, changes ...string) *operatorv1alpha1.Garden {
	t.Helper()
	g := NewWithT(t)
	object, err := yaml.YAMLToJSON([]byte(valid))
	g.Expect(err).NotTo(HaveOccurred())
	for _, change := range changes {
		patch, err := yaml.YAMLToJSON([]byte(expand(change)))
		g.Expect(err).NotTo(HaveOccurred(), change)
		object, err = jsonpatch.MergePatch(object, patch)
		g.Expect(err).NotTo(HaveOccurred(), change)
	}
	result := &operatorv1alpha1.Garden{}
	g.Expect(yaml.UnmarshalStrict(object, result)).To(Succeed(), string(object))
	return result
}

// expand writes "R: {…}" and so on as a patch of a Garden. Other texts are patches already.
func expand(change string) string {
	prefix, rest, _ := strings.Cut(change, ": ")
	switch prefix {
	case "R":
		return "{spec: {runtimeCluster: " + rest + "}}"
	case "V":
		return "{spec: {virtualCluster: " + rest + "}}"
	case "K":
		return "{spec: {virtualCluster: {kubernetes: {kubeAPIServer: " + rest + "}}}}"
	case "G":
		return "{spec: {virtualCluster: {gardener: " + rest + "}}}"
	case "S":
		return "{status: " + rest + "}"
	case "A":
		return "{metadata: {annotations: {gardener.cloud/operation: " + rest + "}}}"
	case "abort":
		return "{metadata: {annotations: {espalier.dev/abort-rotation: " + rest + "}}}"
	case "version":
		return "{spec: {virtualCluster: {kubernetes: {version: " + rest + "}}}}"
	}
	return change
}

// texts writes errors as "<type> <field>: <detail>", with the short forms of paths.
func texts(errors field.ErrorList) []string {
	short := strings.NewReplacer(
		"spec.virtualCluster.kubernetes.kubeAPIServer", "K", "spec.virtualCluster.gardener", "G",
		"spec.runtimeCluster", "R", "spec.virtualCluster", "V", "metadata.annotations[gardener.cloud/operation]", "A",
		"metadata.annotations[espalier.dev/abort-rotation]", "abort",
	)
	all := []string{}
	for _, each := range errors {
		kind := strings.TrimPrefix(string(each.Type), "FieldValue")
		all = append(all, kind+" "+short.Replace(each.Field)+": "+each.Detail)
	}
	return all
}

// dns is a patch with a DNS provider for the domains of the virtual cluster.
const dns = "{spec: {dns: {providers: [{name: p, type: local, secretRef: {name: a}}]}, " +
	"virtualCluster: {dns: {domains: [{name: example.com, provider: p}]}}}}"

// local returns an Extension that offers backups of type local, extensions of type a for Gardens, and extensions of type b for Shoots.
func local(t *testing.T) []operatorv1alpha1.Extension {
	t.Helper()
	var e operatorv1alpha1.Extension
	NewWithT(t).Expect(yaml.UnmarshalStrict([]byte(`{spec: {resources: [{kind: BackupBucket, type: local}, {kind: BackupEntry, type: local},
		{kind: Extension, type: a, clusterCompatibility: [garden]}, {kind: Extension, type: b, clusterCompatibility: [shoot]}]}}`,
	), &e)).To(Succeed())
	return []operatorv1alpha1.Extension{e}
}

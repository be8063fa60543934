package v1alpha1_test

import (
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// The values are the contract with everyone who registers Nodes and deploys critical components.
func TestNodeNames(t *testing.T) {
	for want, got := range map[string]string{
		"node.gardener.cloud/critical-components-not-ready": resourcesv1alpha1.CriticalComponentsNotReady,
		"node.gardener.cloud/critical-component":            resourcesv1alpha1.CriticalComponent,
		"true":                                              resourcesv1alpha1.CriticalComponentValue,
		"node.gardener.cloud/wait-for-csi-node-":            resourcesv1alpha1.WaitForCSINodePrefix,
	} {
		NewWithT(t).Expect(got).To(Equal(want))
	}
}

package installation

import corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"

// GardenNamespace is the namespace of the ManagedResources in the Seed's cluster, and of the Secrets for charts in the garden.
const GardenNamespace = "garden"

const (
	accessSecret      = "garden-access-extension"
	genericKubeconfig = "generic-garden-kubeconfig"
	// predecessor is the field manager of gardenlet, whose objects this program takes over.
	predecessor = "gardenlet"

	labelRole            = "gardener.cloud/role"
	roleExtension        = "extension"
	roleResource         = "resource-reference"
	labelConsiderHA      = "high-availability-config.resources.gardener.cloud/consider"
	annotationZones      = "high-availability-config.resources.gardener.cloud/zones"
	labelPodSecurity     = "pod-security.kubernetes.io/enforce"
	labelTargetAPIServer = "networking.gardener.cloud/access-target-apiserver"
)

// namespaceOf returns the name of the namespace of an installation, which is the name of its ServiceAccount in the garden, too.
func namespaceOf(installation string) string {
	return corev1beta1.InstallationNamespacePrefix + installation
}

package gardenaccess

import resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"

// Environment variables that containers with access to the garden get. Extensions read them.
const (
	// EnvKubeconfig is the path of the kubeconfig for the garden. A workload in which a container or init container sets it, to whatever
	// value, keeps its own way to the garden: Inject gives it neither the kubeconfig nor the token.
	EnvKubeconfig = "GARDEN_KUBECONFIG"
	// EnvSeedName is the name of the Seed whose cluster the container runs in, so that an extension can restrict its watches in the garden.
	EnvSeedName = "SEED_NAME"
)

// LabelInject is a label on workloads. Authors of charts set it. "true" or missing: the workload gets access to the garden. Any other
// value, usually "false": it gets no access. Source: Gardener since 1.115; clusters with an older release ignore it.
const LabelInject = "extensions.gardener.cloud/inject-garden-kubeconfig"

// VolumeName is the name of the volume with the kubeconfig and the token.
const VolumeName = "garden-kubeconfig"

// Folders in which containers have the files kubeconfig and token. The kubeconfig in the Secret names the token by its path in this folder.
const (
	// SeedMountPath is the folder in the containers of an extension that runs in the cluster of a Seed.
	SeedMountPath = "/var/run/secrets/gardener.cloud/garden/generic-kubeconfig"
	// RuntimeMountPath is the folder in the containers that run in the cluster of the garden itself: the parts of the control plane of the
	// garden, and the admission controllers of extensions.
	RuntimeMountPath = "/var/run/secrets/gardener.cloud/shoot/generic-kubeconfig"
)

// Names of the files in the folder, which are the keys of the Secrets too.
const (
	kubeconfigFile = resourcesv1alpha1.DataKeyKubeconfig
	tokenFile      = resourcesv1alpha1.DataKeyToken
)

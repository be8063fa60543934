package extensionvalidation

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type workerSpec struct {
	DefaultSpec                  `json:",inline"`
	InfrastructureProviderStatus *opaqueExtension `json:"infrastructureProviderStatus,omitempty"`
	Region                       string           `json:"region"`
	SecretRef                    secretReference  `json:"secretRef"`
	SSHPublicKey                 opaqueBytes      `json:"sshPublicKey,omitempty"`
	Pools                        []workerPool     `json:"pools"`
}

type workerPool struct {
	MachineType                      string             `json:"machineType"`
	Maximum                          int32              `json:"maximum"`
	MaxSurge                         intstr.IntOrString `json:"maxSurge"`
	MaxUnavailable                   intstr.IntOrString `json:"maxUnavailable"`
	Annotations                      map[string]string  `json:"annotations,omitempty"`
	Labels                           map[string]string  `json:"labels,omitempty"`
	Taints                           []corev1.Taint     `json:"taints,omitempty"`
	MachineImage                     machineImage       `json:"machineImage"`
	Minimum                          int32              `json:"minimum"`
	Name                             string             `json:"name"`
	UserData                         opaqueBytes        `json:"userData,omitempty"`
	Volume                           *volume            `json:"volume,omitempty"`
	DataVolumes                      []dataVolume       `json:"dataVolumes,omitempty"`
	KubeletDataVolumeName            *string            `json:"kubeletDataVolumeName,omitempty"`
	Zones                            []string           `json:"zones,omitempty"`
	MachineControllerManagerSettings *machineSettings   `json:"machineControllerManager,omitempty"`
	ProviderConfig                   *opaqueExtension   `json:"providerConfig,omitempty"`
	KubernetesVersion                *string            `json:"kubernetesVersion,omitempty"`
	NodeTemplate                     *nodeTemplate      `json:"nodeTemplate,omitempty"`
	Architecture                     *string            `json:"architecture,omitempty"`
}

type machineImage struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type volume struct {
	Name      *string `json:"name,omitempty"`
	Type      *string `json:"type,omitempty"`
	Size      string  `json:"size"`
	Encrypted *bool   `json:"encrypted,omitempty"`
}

type dataVolume struct {
	Name      string  `json:"name"`
	Type      *string `json:"type,omitempty"`
	Size      string  `json:"size"`
	Encrypted *bool   `json:"encrypted,omitempty"`
}

type machineSettings struct {
	MachineDrainTimeout    *metav1.Duration `json:"machineDrainTimeout,omitempty"`
	MachineHealthTimeout   *metav1.Duration `json:"machineHealthTimeout,omitempty"`
	MachineCreationTimeout *metav1.Duration `json:"machineCreationTimeout,omitempty"`
	MaxEvictRetries        *int32           `json:"maxEvictRetries,omitempty"`
	NodeConditions         []string         `json:"nodeConditions,omitempty"`
}

type nodeTemplate struct {
	Capacity resourceList `json:"capacity"`
}

func checkWorker(worker *object[workerSpec, unread], found *findings) {
	for i := range worker.Spec.Pools {
		if found.full() {
			return
		}
		found.pool(specPath("pools").Index(i), &worker.Spec.Pools[i])
	}
}

func (f *findings) pool(path *field.Path, pool *workerPool) {
	f.require(path.Child("machineType"), pool.MachineType)
	f.require(path.Child("machineImage", "name"), pool.MachineImage.Name)
	f.require(path.Child("machineImage", "version"), pool.MachineImage.Version)
	f.require(path.Child("name"), pool.Name)
	f.requireIf(pool.UserData == nil, path.Child("userData")) // extensions may leave the value empty
	if pool.Architecture != nil {
		f.oneOf(path.Child("architecture"), *pool.Architecture, "amd64", "arm64")
	}
	if pool.NodeTemplate != nil {
		for _, name := range slices.Sorted(maps.Keys(pool.NodeTemplate.Capacity)) {
			if f.full() {
				return
			}
			f.capacity(path.Child("nodeTemplate", "capacity", string(name)), name, pool.NodeTemplate.Capacity[name].Quantity)
		}
	}
}

func (f *findings) capacity(path *field.Path, name corev1.ResourceName, quantity resource.Quantity) {
	if quantity.Sign() < 0 {
		f.add(field.Invalid(path, quantity.String(), apivalidation.IsNegativeErrorMsg))
	}
	if whole := quantity.DeepCopy(); isInteger(name) && !whole.RoundUp(0) {
		f.add(field.Invalid(path, quantity.String(), "must be an integer"))
	}
}

// isInteger reports whether a resource is counted in whole numbers. Such resources are numbers of objects, and devices: the name of a
// device has a domain other than kubernetes.io.
func isInteger(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers, corev1.ResourceSecrets,
		corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers:
		return true
	default:
		return isExtended(string(name))
	}
}

func isExtended(name string) bool {
	return strings.Contains(name, "/") && !strings.Contains(name, corev1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+name)) == 0
}

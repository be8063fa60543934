// Package values turns a Garden and the configuration of the operator into one immutable value, from which components are built. It is
// pure.
package values

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
)

// Operator are the settings of the operator for components.
type Operator struct {
	// Namespace is the garden namespace in the runtime cluster.
	Namespace string
	// Image returns the image of one of Espalier's binaries, such as managedresource-controller.
	Image func(binary string) string
	// LogLevel and LogFormat are handed to Espalier's binaries. Empty: their defaults.
	LogLevel, LogFormat string
	// NotReadySeconds and UnreachableSeconds are how long Pods tolerate a node that is not ready or not reachable. Nil: the default of the
	// runtime cluster.
	NotReadySeconds, UnreachableSeconds *int64
	// NetworkPolicyWorkers is the number of workers of netpol-controller. 0: its default.
	NetworkPolicyWorkers int
	// NamespaceSelectors select namespaces whose Services get NetworkPolicies, in addition to the namespaces of the Garden.
	NamespaceSelectors []metav1.LabelSelector
	// DefaultSeccompProfile is the feature gate DefaultSeccompProfile.
	DefaultSeccompProfile bool
	// ProjectController is true if project-controller reconciles Projects in place of gardener-controller-manager.
	ProjectController bool
	// BackupMetadataService is true if backups of the main etcd need the metadata service of the cloud.
	BackupMetadataService bool
	// DisableNginxIngress is the feature gate DisableNginxIngressInGarden.
	DisableNginxIngress bool
	// SkipComponents are the names of components that the operator does not deploy.
	SkipComponents []string
	// OpenTelemetryCollector, VictoriaLogs and RemoveVali are the feature gates for logs.
	OpenTelemetryCollector, VictoriaLogs, RemoveVali bool
	// PrometheusHealthChecks is true if the operator asks the instances of Prometheus whether they are healthy.
	PrometheusHealthChecks bool
	// Perses is true if the operator deploys perses-operator.
	Perses bool
	// Images are the images of other projects' programs.
	Images images.List
	// ComponentImages are lists of images in YAML, by the names of components that deploy further images, such as etcd-druid. The component
	// itself reads its list.
	ComponentImages map[string]string
	// RuntimeKubernetes is the version of the runtime cluster. Nil: unknown, which counts as old.
	RuntimeKubernetes *version.Version
	// Architecture is the architecture of the nodes of the runtime cluster.
	Architecture string
	// BackupEntry is the feature gate BackupEntryForGarden.
	BackupEntry bool
	// ETCDConfig configures etcd-druid and backups.
	ETCDConfig config.ETCDConfig
}

// Values are the inputs from which components are built. Nothing changes them.
type Values struct {
	Operator
	// Kubernetes is the version of the virtual cluster.
	Kubernetes *version.Version
	// Region is the region of the runtime cluster, empty if the Garden does not name one.
	Region string
	// Zones are the availability zones of the runtime cluster.
	Zones []string
	// Domains are the domains of the virtual cluster. There is at least one.
	Domains []string
	// DNS are the providers and domains of the DNS records that the operator maintains. Nil: the user maintains them.
	DNS *DNS
	// Extensions are the extensions that the Garden activates in the runtime cluster.
	Extensions []operatorv1alpha1.GardenExtension
	// Networks are networks of the runtime cluster.
	Networks Networks
	// PodsHaveIPv6 is true if one of the networks of Pods of the runtime cluster is an IPv6 network.
	PodsHaveIPv6 bool
	// DualStack is true if the runtime cluster has both families of IP addresses.
	DualStack bool
	// APIServerPorts are the ports of the API server of the runtime cluster, of its Service and of its Pods, sorted. WithFacts sets them,
	// because they are not in the Garden.
	APIServerPorts []int32
	// WildcardCertificate is the name of the Secret with the wildcard certificate, empty if there is none. WithFacts sets it.
	WildcardCertificate string
	// VerticalPodAutoscaler is true if the operator deploys the vertical pod autoscaler.
	VerticalPodAutoscaler bool
	// MinimumVolumeSize is the minimum size of the volumes of observability components. A component that needs a smaller volume gets a volume
	// of this size. Nil: there is no minimum size.
	MinimumVolumeSize *resource.Quantity
	// TopologyAwareRouting is true if Services prefer endpoints in the zone of the client.
	TopologyAwareRouting bool
	// Autoscaling are settings for the vertical pod autoscaler.
	Autoscaling operatorv1alpha1.VerticalPodAutoscaler
	// HighAvailability is true if the Garden asks for a highly available control plane of the virtual cluster, which has more replicas.
	HighAvailability bool
	// LoadBalancers are settings for Services of type LoadBalancer.
	LoadBalancers operatorv1alpha1.LoadBalancerServices
	// Ingress is how the runtime cluster publishes its endpoints.
	Ingress Ingress
	// ETCDMain and ETCDEvents are settings for the etcds of the virtual cluster.
	ETCDMain   operatorv1alpha1.ETCDMain
	ETCDEvents operatorv1alpha1.ETCDEvents
	// Maintenance is when disruptive work may happen.
	Maintenance Maintenance
	// KubeControllerManager are settings for kube-controller-manager.
	KubeControllerManager operatorv1alpha1.KubeControllerManager
	// TargetNamespaces are namespaces of the virtual cluster that the resource manager works in besides the usual ones.
	TargetNamespaces []string
	// GardenUID and GardenCreated identify the Garden.
	GardenUID     types.UID
	GardenCreated time.Time
	// ServiceNetworks are the networks of Services of the virtual cluster.
	ServiceNetworks []netip.Prefix
	// KubeAPIServer are settings for kube-apiserver.
	KubeAPIServer operatorv1alpha1.KubeAPIServer
	// ClusterIdentity is the identity of the garden.
	ClusterIdentity string
	// GardenerAPIServer, GardenerAdmissionController, GardenerControllerManager and GardenerScheduler are settings for the programs of
	// Gardener.
	GardenerAPIServer           operatorv1alpha1.GardenerAPIServer
	GardenerAdmissionController operatorv1alpha1.GardenerAdmissionController
	GardenerControllerManager   operatorv1alpha1.GardenerControllerManager
	GardenerScheduler           operatorv1alpha1.GardenerScheduler
	// EncryptedResources are the resources of both API servers that are encrypted in etcd besides the resources that are always encrypted, as
	// of the last reconciliation.
	EncryptedResources []string
	// EncryptedProvider is the provider with which EncryptedResources are encrypted, as of the last reconciliation. It is empty if the
	// provider is not known.
	EncryptedProvider operatorv1alpha1.EncryptionProviderType
	// Phases are the phases of the rotations of credentials.
	Phases rotation.Phases
	// RotatedBefore are the credentials of which the status shows that an earlier rotation has completed.
	RotatedBefore sets.Set[rotation.Credential]
	// Aborting are the credentials whose rotations lead back to the former credential.
	Aborting sets.Set[rotation.Credential]
}

// Skips reports whether the configuration of the operator skips a component.
func (v Values) Skips(name string) bool { return slices.Contains(v.SkipComponents, name) }

// WithFacts returns the values with facts of the runtime cluster that are not in the Garden.
func (v Values) WithFacts(wildcardCertificate string, apiServerPorts []int32) Values {
	v.WildcardCertificate, v.APIServerPorts = wildcardCertificate, slices.Compact(slices.Sorted(slices.Values(apiServerPorts)))
	return v
}

// WithEncryption returns the values of a Garden that records its encrypted resources now for the first time.
func (v Values) WithEncryption(resources []string, provider operatorv1alpha1.EncryptionProviderType) Values {
	v.EncryptedResources, v.EncryptedProvider = resources, provider
	return v
}

// WithPhase returns the values with another phase of a rotation.
func (v Values) WithPhase(of rotation.Credential, phase operatorv1alpha1.RotationPhase) Values {
	v.Phases = v.Phases.With(of, phase)
	return v
}

// ExternalImage returns the image of a program of another project.
func (v Values) ExternalImage(name string) (string, error) {
	cluster := images.Cluster{Runtime: v.RuntimeKubernetes, Target: v.Kubernetes, Architecture: v.Architecture}
	return v.Images.Find(name, cluster)
}

// DNS are the providers and domains of the DNS records that the operator maintains.
type DNS struct {
	// Providers are the DNS providers.
	Providers []operatorv1alpha1.DNSProvider
	// Virtual and Ingress are the domains of the virtual cluster and of the ingress of the runtime cluster.
	Virtual, Ingress []operatorv1alpha1.Domain
}

// Networks are networks of the runtime cluster.
type Networks struct {
	// Cluster are the networks of nodes, Pods and Services.
	Cluster []netip.Prefix
	// Blocked are networks that the NetworkPolicies to-public-networks and to-private-networks leave out.
	Blocked []netip.Prefix
}

// Ingress is how the runtime cluster publishes its endpoints.
type Ingress struct {
	// Domains are the domains below which endpoints are published.
	Domains []string
	// Settings are the settings of the ingress controller that differ from the defaults.
	Settings map[string]string
}

// New returns the values of a Garden. The error names the field of the Garden that is wrong.
func New(garden *operatorv1alpha1.Garden, operator Operator) (Values, error) {
	kubernetes, err := KubernetesVersion(garden)
	if err != nil {
		return Values{}, err
	}
	spec := garden.Spec.DeepCopy() // so that the values share no memory with the Garden
	runtime, cluster := spec.RuntimeCluster, spec.VirtualCluster
	v := Values{
		Operator: operator, Kubernetes: kubernetes, Zones: runtime.Provider.Zones, VerticalPodAutoscaler: verticalPodAutoscaler(garden),
		GardenUID: garden.UID, GardenCreated: garden.CreationTimestamp.Time, Region: ptr.Deref(runtime.Provider.Region, ""),
		Extensions: spec.Extensions, MinimumVolumeSize: ptr.Deref(runtime.Volume, operatorv1alpha1.Volume{}).MinimumSize,
	}
	for _, domain := range cluster.DNS.Domains {
		v.Domains = append(v.Domains, domain.Name)
	}
	if len(v.Domains) == 0 {
		return Values{}, errors.New("spec.virtualCluster.dns.domains must have at least one domain")
	}
	if spec.DNS != nil {
		v.DNS = &DNS{Providers: spec.DNS.Providers, Virtual: cluster.DNS.Domains, Ingress: runtime.Ingress.AllDomains()}
	}
	networking := runtime.Networking
	v.PodsHaveIPv6 = podsHaveIPv6(garden)
	v.DualStack = len(networking.IPFamilies) > 1
	if v.Networks.Cluster, err = networks(slices.Concat(networking.Nodes, networking.Pods, networking.Services)); err != nil {
		return Values{}, fmt.Errorf("spec.runtimeCluster.networking: %w", err)
	}
	if v.Networks.Blocked, err = networks(networking.BlockCIDRs); err != nil {
		return Values{}, fmt.Errorf("spec.runtimeCluster.networking.blockCIDRs: %w", err)
	}
	v.setSettings(ptr.Deref(runtime.Settings, operatorv1alpha1.Settings{}))
	if v.Ingress, err = ingress(runtime.Ingress); err != nil {
		return Values{}, fmt.Errorf("spec.runtimeCluster.ingress.controller.providerConfig: %w", err)
	}
	if v.Maintenance, err = NewMaintenance(cluster.Maintenance.TimeWindow); err != nil {
		return Values{}, fmt.Errorf("spec.virtualCluster.maintenance.timeWindow: %w", err)
	}
	v.setControlPlane(cluster)
	v.setGardener(cluster.Gardener)
	if v.ServiceNetworks, err = networks(cluster.Networking.Services); err != nil {
		return Values{}, fmt.Errorf("spec.virtualCluster.networking.services: %w", err)
	}
	v.EncryptedResources = slices.Clone(garden.Status.EncryptionAtRest().Resources)
	if c := garden.Status.Credentials; c != nil && c.EncryptionAtRest != nil && c.EncryptionAtRest.Provider != nil {
		v.EncryptedProvider = c.EncryptionAtRest.Provider.Type
	}
	v.Phases, v.RotatedBefore, v.Aborting = rotation.PhasesOf(garden), rotation.Completed(garden), rotation.Aborting(garden)
	return v, nil
}

func (v *Values) setSettings(settings operatorv1alpha1.Settings) {
	v.TopologyAwareRouting = ptr.Deref(settings.TopologyAwareRouting, operatorv1alpha1.TopologyAwareRouting{}).Enabled
	v.LoadBalancers = ptr.Deref(settings.LoadBalancerServices, operatorv1alpha1.LoadBalancerServices{})
	v.Autoscaling = ptr.Deref(settings.VerticalPodAutoscaler, operatorv1alpha1.VerticalPodAutoscaler{})
}

func (v *Values) setControlPlane(cluster operatorv1alpha1.VirtualCluster) {
	v.HighAvailability = cluster.ControlPlane != nil && cluster.ControlPlane.HighAvailability != nil
	etcd := ptr.Deref(cluster.ETCD, operatorv1alpha1.ETCD{})
	v.ETCDMain = ptr.Deref(etcd.Main, operatorv1alpha1.ETCDMain{})
	v.ETCDEvents = ptr.Deref(etcd.Events, operatorv1alpha1.ETCDEvents{})
	v.KubeAPIServer = ptr.Deref(cluster.Kubernetes.KubeAPIServer, operatorv1alpha1.KubeAPIServer{})
	v.KubeControllerManager = ptr.Deref(cluster.Kubernetes.KubeControllerManager, operatorv1alpha1.KubeControllerManager{})
}

// setGardener sets the settings of the Garden for the programs of Gardener.
func (v *Values) setGardener(settings operatorv1alpha1.Gardener) {
	v.ClusterIdentity = settings.ClusterIdentity
	v.GardenerAPIServer = ptr.Deref(settings.APIServer, operatorv1alpha1.GardenerAPIServer{})
	v.GardenerAdmissionController = ptr.Deref(settings.AdmissionController, operatorv1alpha1.GardenerAdmissionController{})
	v.GardenerControllerManager = ptr.Deref(settings.ControllerManager, operatorv1alpha1.GardenerControllerManager{})
	v.GardenerScheduler = ptr.Deref(settings.Scheduler, operatorv1alpha1.GardenerScheduler{})
	v.TargetNamespaces = ptr.Deref(settings.ResourceManager, operatorv1alpha1.GardenerResourceManager{}).AdditionalTargetNamespaces
}

// ingress returns the settings as texts, because they become data of a ConfigMap.
func ingress(from operatorv1alpha1.Ingress) (Ingress, error) {
	var in Ingress
	for _, each := range from.AllDomains() {
		in.Domains = append(in.Domains, each.Name)
	}
	if from.Controller.ProviderConfig == nil {
		return in, nil
	}
	settings := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(from.Controller.ProviderConfig.Raw))
	decoder.UseNumber() // 1000000 must not become 1e+06
	if err := decoder.Decode(&settings); err != nil {
		return Ingress{}, fmt.Errorf("decode settings: %w", err)
	}
	in.Settings = map[string]string{}
	for key, value := range settings {
		in.Settings[key] = fmt.Sprint(value)
	}
	return in, nil
}

func networks(texts []string) ([]netip.Prefix, error) {
	all := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		parsed, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("parse network: %w", err)
		}
		all = append(all, parsed)
	}
	return all, nil
}

// KubernetesVersion returns the version of the virtual cluster.
func KubernetesVersion(garden *operatorv1alpha1.Garden) (*version.Version, error) {
	text := garden.Spec.VirtualCluster.Kubernetes.Version
	parsed, err := version.ParseSemantic(text)
	if err != nil {
		return nil, fmt.Errorf("failed parsing version %q for virtual cluster: %w", text, err)
	}
	return parsed, nil
}

// OfAny returns the values that decide which components a Garden wants, of any Garden, even of one that New refuses.
func OfAny(garden *operatorv1alpha1.Garden, operator Operator) Values {
	return Values{Operator: operator, VerticalPodAutoscaler: verticalPodAutoscaler(garden), PodsHaveIPv6: podsHaveIPv6(garden)}
}

func podsHaveIPv6(garden *operatorv1alpha1.Garden) bool {
	return slices.ContainsFunc(garden.Spec.RuntimeCluster.Networking.Pods, func(network string) bool { return strings.Contains(network, ":") })
}

// WithoutVPA returns why the operator does not deploy the vertical pod autoscaler, or "".
func (v Values) WithoutVPA() string {
	if v.VerticalPodAutoscaler {
		return ""
	}
	return "The Garden does not enable the vertical pod autoscaler."
}

// verticalPodAutoscaler reports whether the operator deploys the vertical pod autoscaler. If the Garden has no settings for it, the
// operator does not deploy it: the webhook for defaults sets these settings, so such a Garden was stored without the webhook.
func verticalPodAutoscaler(garden *operatorv1alpha1.Garden) bool {
	settings := garden.Spec.RuntimeCluster.Settings
	return settings != nil && settings.VerticalPodAutoscaler != nil && ptr.Deref(settings.VerticalPodAutoscaler.Enabled, true)
}

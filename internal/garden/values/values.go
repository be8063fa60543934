// Package values turns a Garden and the configuration of the operator into one immutable value, from which components are built. It is pure.
package values

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// Operator is what the configuration of the operator decides about components.
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
	// NamespaceSelectors select namespaces whose Services get NetworkPolicies, in addition to those of the Garden.
	NamespaceSelectors []metav1.LabelSelector
	// DefaultSeccompProfile is the feature gate of that name.
	DefaultSeccompProfile bool
}

// Values is what components are built from. Nothing changes it.
type Values struct {
	Operator
	// Kubernetes is the version of the virtual cluster.
	Kubernetes *version.Version
	// Zones are the availability zones of the runtime cluster.
	Zones []string
	// Domains are the domains of the virtual cluster. There is at least one.
	Domains []string
	// Networks are networks of the runtime cluster.
	Networks Networks
	// APIServerPorts are the ports of the API server of the runtime cluster, of its Service and of its Pods. New does not set them, because
	// they are not in the Garden.
	APIServerPorts []int32
	// VerticalPodAutoscaler is true if the operator deploys the vertical pod autoscaler.
	VerticalPodAutoscaler bool
	// TopologyAwareRouting is true if Services prefer endpoints in the zone of the client.
	TopologyAwareRouting bool
	// AuthorityPhase is the phase of the rotation of the certificate authorities.
	AuthorityPhase operatorv1alpha1.RotationPhase
}

// Networks are networks of the runtime cluster.
type Networks struct {
	// Cluster are the networks of nodes, Pods and Services.
	Cluster []netip.Prefix
	// Blocked are networks that the NetworkPolicies to-public-networks and to-private-networks leave out.
	Blocked []netip.Prefix
}

// New returns the values of a Garden. The error says what is wrong with the Garden.
func New(garden *operatorv1alpha1.Garden, operator Operator) (Values, error) {
	kubernetes, err := KubernetesVersion(garden)
	if err != nil {
		return Values{}, err
	}
	v := Values{
		Operator: operator, Kubernetes: kubernetes, Zones: slices.Clone(garden.Spec.RuntimeCluster.Provider.Zones),
		VerticalPodAutoscaler: VerticalPodAutoscaler(garden),
	}
	for _, domain := range garden.Spec.VirtualCluster.DNS.Domains {
		v.Domains = append(v.Domains, domain.Name)
	}
	if len(v.Domains) == 0 {
		return Values{}, errors.New("spec.virtualCluster.dns.domains must have at least one domain")
	}
	networking := garden.Spec.RuntimeCluster.Networking
	if v.Networks.Cluster, err = networks(slices.Concat(networking.Nodes, networking.Pods, networking.Services)); err != nil {
		return Values{}, fmt.Errorf("spec.runtimeCluster.networking: %w", err)
	}
	if v.Networks.Blocked, err = networks(networking.BlockCIDRs); err != nil {
		return Values{}, fmt.Errorf("spec.runtimeCluster.networking.blockCIDRs: %w", err)
	}
	if settings := garden.Spec.RuntimeCluster.Settings; settings != nil && settings.TopologyAwareRouting != nil {
		v.TopologyAwareRouting = settings.TopologyAwareRouting.Enabled
	}
	if c := garden.Status.Credentials; c != nil && c.Rotation != nil && c.Rotation.CertificateAuthorities != nil {
		v.AuthorityPhase = c.Rotation.CertificateAuthorities.Phase
	}
	return v, nil
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

// VerticalPodAutoscaler reports whether the operator deploys the vertical pod autoscaler. A Garden without settings for it brings its own:
// the defaulting webhook sets them.
func VerticalPodAutoscaler(garden *operatorv1alpha1.Garden) bool {
	settings := garden.Spec.RuntimeCluster.Settings
	return settings != nil && settings.VerticalPodAutoscaler != nil && ptr.Deref(settings.VerticalPodAutoscaler.Enabled, true)
}

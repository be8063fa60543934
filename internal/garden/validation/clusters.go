package validation

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

func runtimeCluster(path *field.Path, g *operatorv1alpha1.Garden) field.ErrorList {
	cluster := g.Spec.RuntimeCluster
	found := ingress(path.Child("ingress"), cluster.Ingress, g.Spec.DNS)
	found = append(found, runtimeNetworking(path.Child("networking"), cluster.Networking)...)
	if cluster.Settings == nil {
		return found
	}
	found = append(found, verticalPodAutoscaler(path.Child("settings", "verticalPodAutoscaler"), cluster.Settings.VerticalPodAutoscaler)...)
	return append(found, topologyAwareRouting(path.Child("settings", "topologyAwareRouting", "enabled"), g)...)
}

func ingress(path *field.Path, ingress operatorv1alpha1.Ingress, dns *operatorv1alpha1.DNSManagement) field.ErrorList {
	found := domains(path.Child("domains"), ingress.AllDomains(), dns)
	if domain := oldIngressDomain(ingress); domain != nil && len(ingress.Domains) > 0 && *domain != ingress.Domains[0].Name {
		found = append(found, field.Invalid(path.Child("domain"), *domain, "must be the name of the first entry of domains, or not be set"))
	}
	return found
}

func domains(path *field.Path, list []operatorv1alpha1.Domain, dns *operatorv1alpha1.DNSManagement) field.ErrorList {
	if len(list) == 0 {
		return field.ErrorList{field.Required(path, "must provide at least one domain")}
	}
	var found field.ErrorList
	seen := map[string]bool{}
	for i, domain := range list {
		at := path.Index(i).Child("name")
		for _, message := range utilvalidation.IsDNS1123Subdomain(domain.Name) {
			found = append(found, field.Invalid(at, domain.Name, message))
		}
		if seen[domain.Name] {
			found = append(found, field.Duplicate(at, domain.Name))
		}
		seen[domain.Name] = true
		found = append(found, providerOfDomain(path.Index(i).Child("provider"), domain, dns)...)
	}
	return found
}

func verticalPodAutoscaler(path *field.Path, settings *operatorv1alpha1.VerticalPodAutoscaler) field.ErrorList {
	if settings == nil {
		return nil
	}
	var found field.ErrorList
	for _, name := range sortedKeys(settings.FeatureGates) {
		if !versions.VPAFeatureGate(name) && !versions.RetiredVPAFeatureGate(name) {
			found = append(found, field.Forbidden(path.Child("featureGates", name), "not supported by the vertical pod autoscaler"))
		}
	}
	return append(found, computeResources(path.Child("maxAllowed"), settings.MaxAllowed, nil)...)
}

// computeResources judges amounts of CPU and memory, which must be neither negative nor below the amounts in least.
func computeResources(path *field.Path, amounts, least corev1.ResourceList) field.ErrorList {
	var found field.ErrorList
	for _, name := range sortedKeys(amounts) {
		at, amount := path.Key(string(name)), amounts[name]
		switch bound, isBound := least[name]; {
		case name != corev1.ResourceCPU && name != corev1.ResourceMemory:
			found = append(found, field.NotSupported(at, name, []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}))
		case amount.Sign() < 0:
			found = append(found, field.Invalid(at, amount.String(), "value must not be negative"))
		case isBound && amount.Cmp(bound) < 0:
			found = append(found, field.Invalid(at, amount.String(), "must be at least "+bound.String()))
		}
	}
	return found
}

func autoscaling(path *field.Path, settings *operatorv1alpha1.Autoscaling, least corev1.ResourceList) field.ErrorList {
	if settings == nil {
		return nil
	}
	path = path.Child("minAllowed")
	if len(settings.MinAllowed) == 0 {
		return field.ErrorList{field.Required(path, "must provide cpu or memory")}
	}
	return computeResources(path, settings.MinAllowed, least)
}

func topologyAwareRouting(path *field.Path, g *operatorv1alpha1.Garden) field.ErrorList {
	settings := g.Spec.RuntimeCluster.Settings.TopologyAwareRouting
	if settings == nil || !settings.Enabled {
		return nil
	}
	var found field.ErrorList
	if len(g.Spec.RuntimeCluster.Provider.Zones) <= 1 {
		found = append(found, field.Forbidden(path, "topology-aware routing can only be enabled on multi-zone garden runtime cluster "+
			"(with at least two zones in spec.provider.zones)"))
	}
	if !highlyAvailable(g) {
		found = append(found, field.Forbidden(path,
			"topology-aware routing can only be enabled when virtual cluster's high-availability is enabled"))
	}
	return found
}

func highlyAvailable(g *operatorv1alpha1.Garden) bool {
	controlPlane := g.Spec.VirtualCluster.ControlPlane
	return controlPlane != nil && controlPlane.HighAvailability != nil
}

func virtualCluster(path *field.Path, g, old *operatorv1alpha1.Garden) field.ErrorList {
	cluster := g.Spec.VirtualCluster
	found := domains(path.Child("dns", "domains"), cluster.DNS.Domains, g.Spec.DNS)
	found = append(found, etcds(path.Child("etcd"), g)...)
	found = append(found, gardener(path.Child("gardener"), cluster, old.Spec.VirtualCluster)...)

	found = append(found, kubernetesVersion(path.Child("kubernetes", "version"), g)...)
	found = append(found, kubeAPIServer(path.Child("kubernetes", "kubeAPIServer"), g, old)...)
	found = append(found, kubeControllerManager(path.Child("kubernetes", "kubeControllerManager"), g)...)

	return append(found, virtualNetworking(path.Child("networking", "services"), cluster.Networking.Services,
		g.Spec.RuntimeCluster.Networking)...)
}

func etcds(path *field.Path, g *operatorv1alpha1.Garden) field.ErrorList {
	main, events := etcdSettings(g)
	found := autoscaling(path.Child("main", "autoscaling"), main.Autoscaling,
		corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("300M")})
	return append(found, autoscaling(path.Child("events", "autoscaling"), events.Autoscaling,
		corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("60M")})...)
}

func kubernetesVersion(path *field.Path, g *operatorv1alpha1.Garden) field.ErrorList {
	if kubernetesOf(g).Supported() {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, g.Spec.VirtualCluster.Kubernetes.Version, versions.SupportedKubernetes())}
}

func kubeControllerManager(path *field.Path, g *operatorv1alpha1.Garden) field.ErrorList {
	settings := g.Spec.VirtualCluster.Kubernetes.KubeControllerManager
	if settings == nil {
		return nil
	}
	var found field.ErrorList
	for _, each := range []struct {
		name string
		set  bool
	}{
		{"nodeCIDRMaskSize", settings.NodeCIDRMaskSize != nil},
		{"horizontalPodAutoscaler", settings.HorizontalPodAutoscaler != nil},
		{"podEvictionTimeout", settings.PodEvictionTimeout != nil},
		{"nodeMonitorGracePeriod", settings.NodeMonitorGracePeriod != nil},
	} {
		if each.set {
			found = append(found, field.Forbidden(path.Child(each.name), "this field should not be set for workerless Shoot clusters"))
		}
	}
	return append(found, kubernetesFeatureGates(path.Child("featureGates"), settings.FeatureGates, kubernetesOf(g))...)
}

// matchesPattern reports whether a domain matches a pattern of domains, where a leading "*." stands for one label.
func matchesPattern(pattern, domain string) bool {
	if parent, wildcard := strings.CutPrefix(pattern, "*."); wildcard {
		_, rest, found := strings.Cut(domain, ".")
		return found && rest == parent
	}
	return pattern == domain
}

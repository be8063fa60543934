// Package istio returns the objects of Istio 1.29 in the runtime cluster: istiod, and a gateway. By their server names, the gateway passes
// TLS connections through to the API server of the virtual cluster and to the ingress controller. For the hosts of web UIs, it ends the
// TLS connections itself. Each of istiod and the gateway has a ManagedResource in the namespace istio-system.
//
// In the namespaces of istiod and of the gateway, netpol-controller denies connections by default, and allows connections to DNS and to
// the API server of the runtime cluster.
//
// Some objects of Gardener are left out. There is no second Service of the gateway, istio-ingressgateway-internal, because no component
// connects to that Service. There is no VerticalPodAutoscaler of the gateway, because a HorizontalPodAutoscaler scales the gateway
// already. There are no EnvoyFilters for statistics (stats-filter and tcp-stats-filter): without them, the gateway has the metrics of
// Envoy, but no metrics by source and destination.
//
// Objects of Istio have no Go types in the modules that the product links.
package istio

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Namespaces of Istio.
const (
	// Namespace is the namespace of istiod and of the ManagedResources.
	Namespace = deployable.IstioNamespace
	// GatewayNamespace is the namespace of the gateway.
	GatewayNamespace = "virtual-garden-istio-ingress"
)

// Names of the ManagedResources.
const (
	ManagedResource        = "istio-system"
	GatewayManagedResource = "virtual-garden-istio"
)

// ExportTo is an annotation of Services. Value: the namespaces whose gateways may send connections to the Service, separated by commas.
// Missing: none, because that is the default of the mesh.
const ExportTo = "networking.istio.io/exportTo"

// GatewayNamespaceSelector is a JSON list of label selectors that selects the namespace of the gateway.
const GatewayNamespaceSelector = `[{"matchLabels":{"gardener.cloud/role":"istio-ingress"}}]`

// tokenExpiration is the lifetime of the tokens with which gateways authenticate at istiod, in seconds.
const tokenExpiration = 43200

// Namespaces returns the namespaces, which are deployed before the ManagedResources. The webhook that spreads Pods acts on the Pods of
// these namespaces. If there is a single zone, the webhook keeps the Pods of the gateway in that zone.
func Namespaces(v values.Values) []client.Object {
	system := namespace(v, Namespace, map[string]string{object.Role: "istio-system"})
	gateway := namespace(v, GatewayNamespace, map[string]string{object.Role: "istio-ingress", "istio": "ingressgateway"})
	if len(v.Zones) == 1 {
		gateway.Annotations["high-availability-config.resources.gardener.cloud/zone-pinning"] = "true"
	}
	return []client.Object{system, gateway}
}

// namespace returns the metadata alone, because the API server sets the specification.
func namespace(v values.Values, name string, labels map[string]string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: object.Type("v1", "Namespace"), ObjectMeta: metav1.ObjectMeta{
		Name: name,
		Labels: object.Union(labels, map[string]string{
			"istio-operator-managed": "Reconcile", "istio-injection": "disabled", "pod-security.kubernetes.io/enforce": "baseline",
			"high-availability-config.resources.gardener.cloud/consider": "true",
		}),
		Annotations: map[string]string{"high-availability-config.resources.gardener.cloud/zones": strings.Join(v.Zones, ",")},
	}}
}

// apart returns an affinity that prefers different nodes for Pods with these labels.
func apart(labels map[string]string) *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
			},
		}},
	}}
}

// restricted returns the security context of containers.
func restricted() *corev1.SecurityContext {
	c := pods.ContainerSecurityContext()
	c.RunAsNonRoot, c.RunAsUser, c.RunAsGroup = ptr.To(true), ptr.To[int64](1337), ptr.To[int64](1337)
	return c
}

func variable(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }

func emptyDir(medium corev1.StorageMedium) corev1.VolumeSource {
	return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}
}

// optional makes a volume with a ConfigMap or a Secret empty as long as the ConfigMap or the Secret does not exist.
func optional(source corev1.VolumeSource) corev1.VolumeSource {
	switch {
	case source.ConfigMap != nil:
		source.ConfigMap.Optional = ptr.To(true)
	case source.Secret != nil:
		source.Secret.Optional = ptr.To(true)
	}
	return source
}

func token() corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
		ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
			Audience: "istio-ca", ExpirationSeconds: ptr.To[int64](tokenExpiration), Path: "istio-token",
		},
	}}}}
}

// complete sets the common fields of the Deployments of istiod and the gateway. An annotation of the Pods contains a checksum of the
// configuration, so that a change of the configuration rolls out.
func complete(d *appsv1.Deployment, surge, unavailable intstr.IntOrString, name, configuration string) {
	d.Spec.RevisionHistoryLimit = ptr.To[int32](1)
	d.Spec.Strategy = appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge: &surge, MaxUnavailable: &unavailable,
		},
	}
	sum := sha256.Sum256([]byte(configuration))
	d.Spec.Template.Annotations = map[string]string{
		"sidecar.istio.io/inject": "false", "checksum/" + name: hex.EncodeToString(sum[:8]),
	}
}

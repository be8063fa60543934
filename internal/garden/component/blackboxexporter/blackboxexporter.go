// Package blackboxexporter returns the objects of blackbox_exporter 0.28, which sends requests to the API servers of the virtual cluster as
// their clients do. The Prometheus of the garden reads the results.
package blackboxexporter

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/component/prometheus"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// Name is the name of the component, of its ManagedResource and of its objects.
const Name = component.BlackboxExporter

const (
	port     = 9115
	portName = "probe"

	configFile   = "blackbox.yaml"
	configFolder = "/etc/blackbox_exporter"
	// accessFolder contains the token for the virtual cluster and the bundle of the authority of kube-apiserver. gardenerFolder contains the
	// bundle of the authority of gardener-apiserver.
	accessFolder   = "/var/run/secrets/blackbox_exporter/cluster-access"
	gardenerFolder = "/var/run/secrets/blackbox_exporter/gardener-ca"
	tokenKey       = "token"
)

// Modules of the configuration.
const (
	gardenerModule   = "http_gardener_apiserver"
	kubernetesModule = "http_kube_apiserver"
	// publicModule is for names for which kube-apiserver has a certificate of a public authority.
	publicModule = "http_kube_apiserver_root_cas"
)

// Authorities are the names of the Secrets with the bundles of the authorities of the API servers.
type Authorities struct{ Kubernetes, Gardener string }

// Objects returns the objects of the ManagedResource.
func Objects(v values.Values, authorities Authorities) ([]client.Object, error) {
	image, err := v.ExternalImage(Name)
	if err != nil {
		return nil, err
	}
	content, err := yaml.Marshal(map[string]any{"modules": modules()})
	if err != nil {
		return nil, fmt.Errorf("encode configuration of %s: %w", Name, err)
	}
	owner := object.Owner{Namespace: v.Namespace, Labels: map[string]string{
		"app": Name, object.Role: "monitoring", "origin": "gardener",
	}}
	config := owner.UniqueConfigMap(Name+"-config", map[string]string{configFile: string(content)})
	objects := []client.Object{
		config,
		owner.Service(Name, network.From(network.GardenScrapeTargets, port), object.ServicePort(portName, port, port)),
		deployment(owner, image, config.Name, authorities),
		owner.DisruptionBudget(Name),
		object.Autoscaler{Name: Name, Labels: owner.Labels, Container: Name, MinAllowed: pods.Memory("15M")}.Object(v, v.Namespace),
		probe(v, "gardener-apiserver", gardenerModule, "https://"+object.ServiceHost(v.Namespace, gardenerapiserver.Name)+"/healthz"),
		probe(v, "apiserver", kubernetesModule, "https://gardener."+v.Domains[0]+"/healthz"),
	}
	if names := publicNames(v); len(names) > 0 {
		objects = append(objects, probe(v, "apiserver-public", publicModule, names...))
	}
	return objects, nil
}

// publicNames returns the URLs of the health endpoint of kube-apiserver, one for each domain pattern in the field sni that begins with
// "api.". It leaves out other patterns, such as wildcards.
func publicNames(v values.Values) []string {
	if v.KubeAPIServer.SNI == nil {
		return nil
	}
	var all []string
	for _, each := range v.KubeAPIServer.SNI.DomainPatterns {
		if strings.HasPrefix(each, "api.") {
			all = append(all, "https://"+each+"/healthz")
		}
	}
	return all
}

func modules() map[string]any {
	of := func(authority string) map[string]any {
		tls := map[string]any{}
		if authority != "" {
			tls["ca_file"] = authority
		}
		return map[string]any{"prober": "http", "timeout": "10s", "http": map[string]any{
			"preferred_ip_protocol": "ip4", "bearer_token_file": accessFolder + "/" + tokenKey, "tls_config": tls,
		}}
	}
	return map[string]any{
		gardenerModule:   of(gardenerFolder + "/" + secretconfig.DataKeyCertificateBundle),
		kubernetesModule: of(accessFolder + "/" + secretconfig.DataKeyCertificateBundle),
		publicModule:     of(""),
	}
}

func deployment(owner object.Owner, image, config string, authorities Authorities) *appsv1.Deployment {
	var m pods.Mounts
	m.Add("config", configFolder, true, pods.ConfigMapSource(config))
	m.Add("cluster-access", accessFolder, true, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: ptr.To[int32](0o640), Sources: []corev1.VolumeProjection{
			pods.SecretProjection(authorities.Kubernetes, secretconfig.DataKeyCertificateBundle),
			pods.SecretProjection(prometheus.AccessSecret, tokenKey),
		},
	}})
	m.AddSecret("gardener-ca", gardenerFolder, authorities.Gardener, false)
	d := owner.WithLabels(map[string]string{object.AvailabilityType: object.Server}).Deployment(Name, 2, owner.Labels, object.Union(
		network.DNSClients(), network.Allowed(network.ToPublicNetworks, network.ToPrivateNetworks), network.ClientsOf(
			"all-istio-ingresses-istio-ingressgateway-tcp-9443",
			fmt.Sprintf("%s-tcp-%d", gardenerapiserver.Name, gardenerapiserver.Port),
		),
	), corev1.PodSpec{
		PriorityClassName: system.Class100, AutomountServiceAccountToken: ptr.To(false), Volumes: m.Volumes,
		// The default of 5 would make a request for each domain of the cluster, for names that are outside of it.
		DNSConfig: &corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: ptr.To("3")}}},
		Containers: []corev1.Container{{
			Name: Name, Image: image, Args: []string{"--config.file=" + configFolder + "/" + configFile, "--log.level=debug"},
			Ports: []corev1.ContainerPort{pods.ContainerPort(portName, port)}, VolumeMounts: m.Paths,
			Resources: corev1.ResourceRequirements{Requests: pods.Memory("15M")},
		}},
	})
	object.AnnotateReferences(d)
	return d
}

// probe returns the scrape configuration for probes of targets, whose addresses become the label instance.
func probe(v values.Values, name, module string, targets ...string) client.Object {
	addresses := make([]any, 0, len(targets))
	for _, each := range targets {
		addresses = append(addresses, each)
	}
	return observability.ScrapeConfig(v, observability.Garden, "blackbox-"+name, map[string]any{
		"metricsPath": "/probe", "params": map[string]any{"module": []any{module}},
		"staticConfigs": []any{map[string]any{"targets": addresses, "labels": map[string]any{"purpose": "availability"}}},
		"relabelings": []any{
			observability.Relabel("__address__", "(.+)", "__param_target"), observability.Relabel("__param_target", "(.+)", "instance"),
			observability.SetLabel("__address__", fmt.Sprintf("%s:%d", object.ServiceHost(v.Namespace, Name), port)),
			observability.SetLabel("job", "blackbox-"+strings.TrimSuffix(name, "-public")),
		},
		"metricRelabelings": []any{observability.Keep("probe_success|probe_http_status_code|probe_http_duration_seconds")},
	})
}

package gardener

import (
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/apply/manifest"
	"github.com/espalier-dev/espalier/internal/garden/component/flags"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/versions"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
)

// Program is a program that reads a configuration file, and serves its health by HTTP.
type Program struct {
	// Name is the name of all objects in the runtime cluster, and of the image.
	Name string
	// Role is the value of the label role.
	Role string
	// PriorityClass is the priority class of the Pods, and Availability the value of the label object.AvailabilityType.
	PriorityClass, Availability string
	// CPU and Memory are requested, and LeastMemory is the least memory that an autoscaler may set.
	CPU, Memory, LeastMemory string
	// ConfigMap is the name of the ConfigMap with the configuration file, without the checksum. File is the name of the file.
	ConfigMap, File string
	// Config is the content of the file besides feature gates and logs.
	Config map[string]any
	// FeatureGates are the feature gates of the Garden. The program gets only the gates with which it can start.
	FeatureGates map[string]bool
	// LogLevel is "info" if it is nil.
	LogLevel *string
	// HealthPort serves /healthz and /readyz, MetricsPort serves metrics, and WebhookPort, unless it is 0, serves webhooks for API servers.
	HealthPort, MetricsPort, WebhookPort int32
	// Volumes are mounted besides the configuration and the kubeconfig.
	Volumes pods.Mounts
}

// replicas is the number of replicas to which the webhook that spreads Pods sets the Deployment. With another number, each reconciliation
// would write the Deployment, because the webhook would have changed the number.
const replicas = 2

// Objects returns the objects in the runtime cluster. Kubeconfig is the name of the Secret with the generic token kubeconfig.
func (p Program) Objects(v values.Values, kubeconfig string) (Objects, error) {
	image, err := v.ExternalImage(p.Name)
	if err != nil {
		return Objects{}, err
	}
	file := maps.Clone(p.Config)
	if gates := flags.FeatureGates(p.FeatureGates, versions.Component(p.Name).TakesGate); len(gates) > 0 {
		file["featureGates"] = gates
	}
	file["logLevel"], file["logFormat"] = ptr.Deref(p.LogLevel, "info"), "json"
	text, err := manifest.Encode(file)
	if err != nil {
		return Objects{}, fmt.Errorf("render configuration of %s: %w", p.Name, err)
	}
	owner := Owner(v, p.Role)
	config := object.Owner{Namespace: v.Namespace}.UniqueConfigMap(p.ConfigMap, map[string]string{p.File: string(text)})
	return Objects{
		Direct: []client.Object{gardenaccess.Secret(v.Namespace, AccessPrefix+p.Name, p.Name), config},
		Set: []client.Object{
			owner.DisruptionBudget(p.Name), p.service(v, owner),
			object.Autoscaler{
				Name: p.Name + "-vpa", Target: p.Name, Labels: owner.Labels, Container: p.Name, MinAllowed: pods.Memory(p.LeastMemory),
			}.Object(v, v.Namespace),
			p.deployment(owner, image, kubeconfig, config.Name),
		},
	}, nil
}

func (p Program) service(v values.Values, owner object.Owner) *corev1.Service {
	metrics := object.ServicePort("metrics", p.MetricsPort, p.MetricsPort)
	annotations := network.From(network.GardenScrapeTargets, p.MetricsPort)
	if p.WebhookPort == 0 {
		return owner.Service(p.Name, annotations, metrics)
	}
	service := owner.Service(p.Name, annotations, object.ServicePort("https", 443, p.WebhookPort), metrics)
	CalledByServers(v, service, p.WebhookPort)
	return service
}

func (p Program) deployment(owner object.Owner, image, kubeconfig, config string) *appsv1.Deployment {
	folder := "/etc/" + p.Name + "/config"
	mounts, readiness := pods.Mounts{}, p.probe("/readyz")
	mounts.Add("config", folder, true, pods.ConfigMapSource(config))
	ports := []corev1.ContainerPort{pods.ContainerPort("healthz", p.HealthPort)}
	if p.WebhookPort != 0 {
		ports = append(ports, pods.ContainerPort("https", p.WebhookPort))
	}
	pod := corev1.PodSpec{
		PriorityClassName: p.PriorityClass, AutomountServiceAccountToken: ptr.To(false), SecurityContext: pods.PodSecurityContext(),
		Volumes: append(mounts.Volumes, p.Volumes.Volumes...),
		Containers: []corev1.Container{{
			Name: p.Name, Image: image, Args: []string{"--config=" + folder + "/" + p.File},
			Ports:         append(ports, pods.ContainerPort("metrics", p.MetricsPort)),
			StartupProbe:  pods.StartupProbe(readiness),
			LivenessProbe: p.probe("/healthz"), ReadinessProbe: readiness,
			Resources: pods.Requests(p.CPU, p.Memory), VolumeMounts: append(mounts.Paths, p.Volumes.Paths...),
		}},
	}
	gardenaccess.MountKubeconfig(&pod, kubeconfig, AccessPrefix+p.Name)
	d := owner.WithLabels(map[string]string{object.AvailabilityType: p.Availability}).
		Deployment(p.Name, replicas, owner.Labels, network.VirtualClients(), pod)
	object.AnnotateReferences(d)
	return d
}

func (p Program) probe(path string) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: pods.HTTPGet(path, p.HealthPort, corev1.URISchemeHTTP), TimeoutSeconds: 5}
}

// Connection returns the section of a configuration file about the connection to the virtual cluster.
func Connection() map[string]any {
	return map[string]any{"kubeconfig": gardenaccess.KubeconfigPath, "qps": 100, "burst": 130}
}

// Election returns the section of a configuration file about the election of a leader, in the virtual cluster.
func Election(program string) map[string]any {
	return map[string]any{
		"leaderElect": true, "resourceName": program + "-leader-election", "resourceNamespace": metav1.NamespaceSystem,
	}
}

// Ports returns the section of a configuration file with the ports for health and metrics.
func Ports(health, metrics int32) map[string]any {
	return map[string]any{"healthProbes": map[string]any{"port": health}, "metrics": map[string]any{"port": metrics}}
}

package gardener

import (
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/api/references"
	"github.com/espalier-dev/espalier/internal/garden/component/shared"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Program is a program that reads a configuration file, and serves its health by HTTP.
type Program struct {
	// Name is the name of all objects in the runtime cluster, and of the image.
	Name string
	// Role is the value of the label role.
	Role string
	// PriorityClass is that of the Pods, and Availability the value of the label shared.AvailabilityType.
	PriorityClass, Availability string
	// CPU and Memory are requested, and LeastMemory is the least memory that an autoscaler may set.
	CPU, Memory, LeastMemory string
	// ConfigMap is the name of the ConfigMap with the file, without the checksum.
	ConfigMap, File string
	// Config is the content of the file.
	Config map[string]any
	// Service is that of the Pods.
	Service *corev1.Service
	// Ports are those of the container, besides HealthPort.
	Ports []corev1.ContainerPort
	// HealthPort serves /healthz and /readyz, which are asked after LiveDelay and ReadyDelay seconds.
	HealthPort, LiveDelay, ReadyDelay int32
	// Volumes are mounted besides the configuration and the kubeconfig.
	Volumes shared.Mounts
}

// replicas are those that the webhook that spreads Pods sets. With another number, each reconciliation would write the Deployment.
const replicas = 2

// Objects returns the objects in the runtime cluster. Kubeconfig is the name of the Secret with the generic token kubeconfig.
func (p Program) Objects(v values.Values, kubeconfig string) (Objects, error) {
	image, err := v.ExternalImage(p.Name)
	if err != nil {
		return Objects{}, err
	}
	text, err := shared.YAML(p.Config)
	if err != nil {
		return Objects{}, fmt.Errorf("render configuration of %s: %w", p.Name, err)
	}
	config := shared.UniqueConfigMap(v.Namespace, p.ConfigMap, map[string]string{p.File: string(text)})
	d, err := p.deployment(v, image, kubeconfig, config.Name)
	if err != nil {
		return Objects{}, err
	}
	owner := Owner(v, p.Role)
	objects := Objects{}
	objects.Direct = append(objects.Direct, shared.AccessSecret(v.Namespace, AccessPrefix+p.Name, p.Name), config)
	objects.Set = append(objects.Set, DisruptionBudget(owner, p.Name), p.Service, shared.Autoscaler{
		Name: p.Name + "-vpa", Target: p.Name, Labels: owner.Labels, Container: p.Name, MinAllowed: shared.Memory(p.LeastMemory),
	}.Object(v, v.Namespace), d)
	return objects, nil
}

func (p Program) deployment(v values.Values, image, kubeconfig, config string) (*appsv1.Deployment, error) {
	owner := Owner(v, p.Role)
	folder := "/etc/" + p.Name + "/config"
	mounts := shared.Mounts{}
	mounts.Add("config", folder, true, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: config},
	}})
	d := &appsv1.Deployment{
		TypeMeta:   shared.Type(appsv1.SchemeGroupVersion.String(), "Deployment"),
		ObjectMeta: owner.WithLabels(map[string]string{shared.AvailabilityType: p.Availability}).Meta(p.Name),
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](replicas), RevisionHistoryLimit: ptr.To[int32](2),
			Selector: &metav1.LabelSelector{MatchLabels: maps.Clone(owner.Labels)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: shared.Union(owner.Labels, shared.VirtualClients())},
				Spec: corev1.PodSpec{
					PriorityClassName: p.PriorityClass, AutomountServiceAccountToken: ptr.To(false), SecurityContext: PodSecurityContext(),
					Volumes: append(mounts.Volumes, p.Volumes.Volumes...),
					Containers: []corev1.Container{{
						Name: p.Name, Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"--config=" + folder + "/" + p.File},
						Ports:         append([]corev1.ContainerPort{shared.ContainerPort("healthz", p.HealthPort)}, p.Ports...),
						LivenessProbe: p.probe("/healthz", p.LiveDelay), ReadinessProbe: p.probe("/readyz", p.ReadyDelay),
						Resources: shared.Requests(p.CPU, p.Memory), VolumeMounts: append(mounts.Paths, p.Volumes.Paths...),
						SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false)},
					}},
				},
			},
		},
	}
	shared.MountKubeconfig(&d.Spec.Template.Spec, kubeconfig, AccessPrefix+p.Name)
	if err := references.InjectAnnotations(d); err != nil {
		return nil, fmt.Errorf("annotate Deployment %s: %w", p.Name, err)
	}
	return d, nil
}

func (p Program) probe(path string, delay int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.FromInt32(p.HealthPort), Scheme: corev1.URISchemeHTTP,
		}},
		InitialDelaySeconds: delay, TimeoutSeconds: 5,
	}
}

// Connection returns the section of a configuration file about the connection to the virtual cluster.
func Connection() map[string]any {
	return map[string]any{"kubeconfig": shared.KubeconfigPath, "qps": 100, "burst": 130}
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

// SetLogs sets the fields of a configuration file about logs.
func SetLogs(config map[string]any, level *string) {
	config["logLevel"], config["logFormat"] = ptr.Deref(level, "info"), "json"
}

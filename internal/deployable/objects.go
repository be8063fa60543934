package deployable

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Replicas is the number of Pods of each binary in the shipped Deployments.
const Replicas = 2

const (
	// user is the ID of the user in the images.
	user = 65532
	// configKey is the key of the configuration file in the ConfigMap, and configPath the folder where it is mounted.
	configKey  = "config.yaml"
	configPath = "/etc/espalier"
	// targetPath is the folder where the credentials for the target are mounted.
	targetPath = "/var/run/espalier/target"
	// configChecksum is the annotation of Pods whose value changes with the configuration, so that the Deployment rolls out.
	configChecksum = "espalier.dev/config-checksum"
	// gracePeriod is longer than the binaries take to stop, in seconds.
	gracePeriod = 30
	// startupAttempts is the number of startup probes, one each second. It is longer than the binaries wait for API servers.
	startupAttempts = 100
	// unreadyAttempts is the number of failed readiness probes, one each second, until a Service no longer uses the Pod.
	unreadyAttempts = 15
)

// Names of ports.
const (
	portProbes   = "probes"
	portMetrics  = "metrics"
	portWebhooks = "webhooks"
)

// Objects returns the objects of a binary that runs from an image, for the case that source and target are one cluster. They are in the
// namespace of the Place of the binary, or else in Namespace. Exceptions are cluster-scoped objects, and bindings of roles in other
// namespaces.
func (b Binary) Objects(image string) []client.Object {
	objects := append([]client.Object{b.serviceAccount()}, b.bindings(func(Role) bool { return true })...)
	if b.Critical {
		objects = append(objects, priorityClass())
	}
	return append(objects, b.configMap(b.Config), b.service(), b.disruptionBudget(), b.deployment(image))
}

func (b Binary) object() string {
	return cmp.Or(b.place.Name, "espalier-"+b.Name)
}

func (b Binary) namespace() string {
	return cmp.Or(b.place.Namespace, Namespace)
}

func (b Binary) selector() map[string]string {
	if b.place.Selector != nil {
		return maps.Clone(b.place.Selector)
	}
	return map[string]string{"app.kubernetes.io/name": b.object()}
}

func (b Binary) labels() map[string]string {
	labels := b.selector()
	labels["app.kubernetes.io/part-of"] = "espalier"
	return labels
}

func (b Binary) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: b.namespace(), Name: b.object(), Labels: b.labels()}
}

func (b Binary) serviceAccount() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta: typeMeta("v1", "ServiceAccount"), ObjectMeta: b.meta(), AutomountServiceAccountToken: ptr.To(false),
	}
}

func (b Binary) bindings(wanted func(Role) bool) []client.Object {
	var bindings []client.Object
	for _, role := range b.Roles {
		if wanted(role) {
			bindings = append(bindings, b.binding(role))
		}
	}
	return bindings
}

// binding returns the binding of a role, with the name of the role. The name of the binding of cluster-admin also contains the name of the
// binary, because another binary may be bound to cluster-admin, too.
func (b Binary) binding(role Role) client.Object {
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: b.namespace(), Name: b.object()}}
	meta := metav1.ObjectMeta{Namespace: role.Namespace, Name: role.Name, Labels: b.labels()}
	if role.Name == ClusterAdmin {
		meta.Name = b.object() + "-" + ClusterAdmin
	}
	if role.Namespace == "" {
		return &rbacv1.ClusterRoleBinding{
			TypeMeta: typeMeta(rbacv1.SchemeGroupVersion.String(), "ClusterRoleBinding"), ObjectMeta: meta,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}, Subjects: subjects,
		}
	}
	return &rbacv1.RoleBinding{
		TypeMeta: typeMeta(rbacv1.SchemeGroupVersion.String(), "RoleBinding"), ObjectMeta: meta,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}, Subjects: subjects,
	}
}

func (b Binary) configMap(config string) *corev1.ConfigMap {
	return &corev1.ConfigMap{TypeMeta: typeMeta("v1", "ConfigMap"), ObjectMeta: b.meta(), Data: map[string]string{configKey: config}}
}

func (b Binary) service() *corev1.Service {
	ports := []corev1.ServicePort{{Name: portMetrics, Port: b.MetricsPort, TargetPort: intstr.FromString(portMetrics)}}
	if b.WebhookPort != 0 {
		ports = append(ports, corev1.ServicePort{Name: portWebhooks, Port: 443, TargetPort: intstr.FromString(portWebhooks)})
	}
	meta := b.meta()
	meta.Annotations = b.trafficAllowed()
	return &corev1.Service{
		TypeMeta: typeMeta("v1", "Service"), ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: b.selector(), Ports: ports},
	}
}

// trafficAllowed returns annotations of the Service for controllers that create NetworkPolicies from Services, such as netpol-controller.
// With these annotations, the policies admit Prometheus to the metrics, and all clients to the webhooks, because no selector matches API
// servers. Without these annotations, the policies for the Service would block the webhooks.
func (b Binary) trafficAllowed() map[string]string {
	allowed := map[string]string{"networking.resources.gardener.cloud/from-all-scrape-targets-allowed-ports": portList(b.MetricsPort)}
	if b.WebhookPort != 0 {
		allowed["networking.resources.gardener.cloud/from-world-to-ports"] = portList(b.WebhookPort)
	}
	return allowed
}

func portList(port int32) string { return fmt.Sprintf(`[{"protocol":"TCP","port":%d}]`, port) }

func (b Binary) disruptionBudget() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		TypeMeta: typeMeta(policyv1.SchemeGroupVersion.String(), "PodDisruptionBudget"), ObjectMeta: b.meta(),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: b.selector()},
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		},
	}
}

func priorityClass() *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{
		TypeMeta: typeMeta(schedulingv1.SchemeGroupVersion.String(), "PriorityClass"), ObjectMeta: metav1.ObjectMeta{Name: CriticalPriority},
		Description: "PriorityClass for Garden system components", GlobalDefault: false, Value: 999999550,
	}
}

func (b Binary) deployment(image string) *appsv1.Deployment {
	labels := b.labels()
	priority := ""
	if b.Critical {
		priority = CriticalPriority
	}
	// For clusters that deny traffic unless these labels allow it.
	labels["networking.gardener.cloud/to-dns"] = "allowed"
	labels["networking.gardener.cloud/to-runtime-apiserver"] = "allowed"
	if b.OtherCluster {
		labels["networking.gardener.cloud/to-public-networks"] = "allowed"
		labels["networking.gardener.cloud/to-private-networks"] = "allowed"
		labels["networking.resources.gardener.cloud/to-virtual-garden-kube-apiserver-tcp-443"] = "allowed"
	}
	return &appsv1.Deployment{
		TypeMeta: typeMeta(appsv1.SchemeGroupVersion.String(), "Deployment"), ObjectMeta: b.meta(),
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](Replicas), RevisionHistoryLimit: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: b.selector()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{configChecksum: checksum(b.Config)}},
				Spec: corev1.PodSpec{
					ServiceAccountName: b.object(), AutomountServiceAccountToken: ptr.To(true), TerminationGracePeriodSeconds: ptr.To[int64](gracePeriod),
					PriorityClassName: priority,
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](user), RunAsGroup: ptr.To[int64](user), FSGroup: ptr.To[int64](user),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
						LabelSelector: &metav1.LabelSelector{MatchLabels: b.selector()},
					}},
					Containers: []corev1.Container{b.container(image)},
					Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
						LocalObjectReference: corev1.LocalObjectReference{Name: b.object()},
					}}}},
				},
			},
		},
	}
}

// checksum returns the first 16 hexadecimal digits of the SHA-256.
func checksum(config string) string {
	sum := sha256.Sum256([]byte(config))
	return hex.EncodeToString(sum[:8])
}

func (b Binary) container(image string) corev1.Container {
	ports := []corev1.ContainerPort{{Name: portProbes, ContainerPort: b.ProbePort}, {Name: portMetrics, ContainerPort: b.MetricsPort}}
	if b.WebhookPort != 0 {
		ports = append(ports, corev1.ContainerPort{Name: portWebhooks, ContainerPort: b.WebhookPort})
	}
	// The probes run each second, so that a binary gets requests as soon as it can answer.
	startup, readiness := probe("/healthz/ping", 1), probe("/readyz", 1)
	startup.FailureThreshold, readiness.FailureThreshold = startupAttempts, unreadyAttempts
	readiness.TimeoutSeconds = 1 // so that unreadyAttempts means the same time if the binary does not answer at all
	return corev1.Container{
		Name: b.Name, Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"--config=" + configPath + "/" + configKey},
		Ports: ports,
		Env: append([]corev1.EnvVar{{
			Name: "POD_NAMESPACE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}},
		}}, b.tuning()...),
		// An outage of the API server must not restart the Pod: liveness only requires that the process answers. At its start, the process waits
		// for the API server, at most a minute, and does not answer meanwhile.
		StartupProbe:   startup,
		LivenessProbe:  probe("/healthz/ping", 10),
		ReadinessProbe: readiness,
		Resources: corev1.ResourceRequirements{ // without limits
			Requests: corev1.ResourceList{corev1.ResourceMemory: b.Memory, corev1.ResourceCPU: b.CPU},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: configPath, ReadOnly: true}},
	}
}

func probe(path string, seconds int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(portProbes)}},
		PeriodSeconds: seconds, TimeoutSeconds: 5,
	}
}

func typeMeta(apiVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
}

// GardenNamespaces returns the namespaces of a Garden's components, except for the namespace of the Istio gateway. The operator sets their
// labels.
func GardenNamespaces() []client.Object {
	namespace := func(name string) client.Object {
		return &corev1.Namespace{TypeMeta: typeMeta("v1", "Namespace"), ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	return []client.Object{namespace(GardenNamespace), namespace(IstioNamespace), namespace(RestoreDrillNamespace)}
}

// NamespaceObject returns the namespace of all binaries. It enforces the Pod security standard restricted.
func NamespaceObject() *corev1.Namespace {
	return &corev1.Namespace{TypeMeta: typeMeta("v1", "Namespace"), ObjectMeta: metav1.ObjectMeta{Name: Namespace, Labels: map[string]string{
		"app.kubernetes.io/part-of":                  "espalier",
		"pod-security.kubernetes.io/enforce":         "restricted",
		"pod-security.kubernetes.io/enforce-version": "latest",
	}}}
}

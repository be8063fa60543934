package gardenerapiserver

import (
	"fmt"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/api/references"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/shared"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

func deployment(v values.Values, in Input, image string, parts []apiserver.Part) (*appsv1.Deployment, error) {
	arguments, err := args(v, parts)
	if err != nil {
		return nil, err
	}
	meta, replicas := metadata(v)
	m := mounts(in, parts)
	labels := gardener.Labels(role)
	d := &appsv1.Deployment{
		TypeMeta: shared.Type(appsv1.SchemeGroupVersion.String(), "Deployment"), ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, MinReadySeconds: 30, RevisionHistoryLimit: ptr.To[int32](2),
			Selector: &metav1.LabelSelector{MatchLabels: maps.Clone(labels)},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge: ptr.To(intstr.FromString("100%")), MaxUnavailable: ptr.To(intstr.FromInt32(0)),
			}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: shared.Union(labels, clients())},
				Spec: corev1.PodSpec{
					PriorityClassName: system.Class500, AutomountServiceAccountToken: ptr.To(false),
					TerminationGracePeriodSeconds: ptr.To[int64](apiserver.ShutdownSeconds),
					SecurityContext:               gardener.PodSecurityContext(), Volumes: m.Volumes,
					Containers: []corev1.Container{{
						Name: Name, Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Args: arguments,
						Ports:         []corev1.ContainerPort{shared.ContainerPort("https", port)},
						LivenessProbe: probe("/livez"), ReadinessProbe: probe("/readyz"),
						Resources: shared.Requests("600m", "512Mi"), VolumeMounts: m.Paths,
						SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false)},
					}},
				},
			},
		},
	}
	shared.MountKubeconfig(&d.Spec.Template.Spec, in.Kubeconfig, AccessSecret)
	apiserver.SetMarks(v, d, in.Live, in.EncryptionKey)
	if err := references.InjectAnnotations(d); err != nil {
		return nil, fmt.Errorf("annotate Deployment %s: %w", Name, err)
	}
	return d, nil
}

// metadata returns the metadata and the replicas. The webhook that spreads Pods sets two replicas, unless an annotation has another number.
func metadata(v values.Values) (meta metav1.ObjectMeta, replicas int32) {
	meta = gardener.Owner(v, role).WithLabels(map[string]string{shared.AvailabilityType: shared.Server}).Meta(Name)
	if !v.HighAvailability {
		return meta, 2
	}
	const highlyAvailable = 3
	meta.Annotations = map[string]string{shared.AvailabilityReplicas: strconv.Itoa(highlyAvailable)}
	return meta, highlyAvailable
}

// clients returns the labels that allow connections: to etcd, to kube-apiserver and webhooks of the virtual cluster, and to the servers in
// kubeconfigs of the user.
func clients() map[string]string {
	return shared.Union(
		shared.VirtualClients(), shared.Allowed(shared.ToPublicNetworks, shared.ToPrivateNetworks),
		shared.ClientsOf(shared.WebhookTargets, etcd.Main.Name()+"-client-tcp-2379"),
	)
}

func probe(path string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.FromInt32(port), Scheme: corev1.URISchemeHTTPS,
		}},
		InitialDelaySeconds: 15, PeriodSeconds: 10, TimeoutSeconds: 15, FailureThreshold: 3, SuccessThreshold: 1,
	}
}

func mounts(in Input, parts []apiserver.Part) shared.Mounts {
	var m shared.Mounts
	m.Add("ca-etcd", apiserver.ETCDAuthorityFolder, true, apiserver.SecretSource(in.ETCDAuthority, false))
	m.Add("etcd-client", apiserver.ETCDClientFolder, true, apiserver.SecretSource(in.ETCDClient, true))
	m.Add("server", apiserver.ServerFolder, true, apiserver.SecretSource(in.Server, true))
	key := apiserver.SecretSource(in.WorkloadIdentityKey, true)
	key.Secret.Items = []corev1.KeyToPath{{Key: secretconfig.DataKeyRSAPrivateKey, Path: workloadIdentityFile}}
	m.Add("gardener-apiserver-workload-identity", workloadIdentityFolder, true, key)
	apiserver.Mount(&m, parts)
	return m
}

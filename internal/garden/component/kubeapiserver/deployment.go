package kubeapiserver

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/api/references"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/exposure"
	"github.com/espalier-dev/espalier/internal/garden/component/shared"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

const user = 65532

// selector returns the labels by which the Service and the Deployment select Pods.
func selector() map[string]string { return exposure.Labels() }

func owner(v values.Values) shared.Owner {
	return shared.Owner{Namespace: v.Namespace, Labels: selector()}
}

func deployment(v values.Values, in Input, image string, parts []apiserver.Part) (*appsv1.Deployment, error) {
	own := owner(v).WithLabels(map[string]string{
		shared.Role: "controlplane", "provider.extensions.gardener.cloud/mutated-by-controlplane-webhook": "true",
	})
	m := mounts(in.Secrets, parts)
	d := &appsv1.Deployment{
		TypeMeta:   shared.Type(appsv1.SchemeGroupVersion.String(), "Deployment"),
		ObjectMeta: own.WithLabels(map[string]string{shared.AvailabilityType: shared.Server}).Meta(Name),
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(replicas(v, in.Live)), MinReadySeconds: 30, RevisionHistoryLimit: ptr.To[int32](2),
			Selector: &metav1.LabelSelector{MatchLabels: selector()},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge: ptr.To(intstr.FromString("100%")), MaxUnavailable: ptr.To(intstr.FromInt32(0)),
			}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: shared.Union(selector(), map[string]string{shared.Role: "controlplane"}, clients())},
				Spec: corev1.PodSpec{
					PriorityClassName: system.Class500, AutomountServiceAccountToken: ptr.To(false),
					TerminationGracePeriodSeconds: ptr.To[int64](apiserver.ShutdownSeconds), SecurityContext: podSecurityContext(), Volumes: m.Volumes,
					Containers: []corev1.Container{{
						Name: Container, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
						Command: []string{"/usr/local/bin/kube-apiserver"}, Args: args(v, in.Secrets, parts),
						Ports:         []corev1.ContainerPort{shared.ContainerPort("https", exposure.Port)},
						LivenessProbe: probe("/livez", in.Secrets.HealthToken, 15), ReadinessProbe: probe("/readyz", in.Secrets.HealthToken, 10),
						Resources: resources(v, in.Live), VolumeMounts: m.Paths,
						SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false)},
					}},
				},
			},
		},
	}
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, operatorv1alpha1.AnnotationKubernetesVersion, v.Kubernetes.String())
	apiserver.SetMarks(v, d, in.Live, in.Secrets.EncryptionKey)
	if err := references.InjectAnnotations(d); err != nil {
		return nil, fmt.Errorf("annotate Deployment %s: %w", Name, err)
	}
	return d, nil
}

// clients returns the labels that allow connections: to etcds, to webhooks, and to the servers in kubeconfigs of the user.
func clients() map[string]string {
	const etcdClient = "-client-tcp-2379"
	return shared.Union(
		shared.DNSClients(), shared.Allowed(shared.ToPublicNetworks, shared.ToPrivateNetworks),
		shared.ClientsOf(
			shared.WebhookTargets, "extensions-all-webhook-targets", etcd.Main.Name()+etcdClient, etcd.Events.Name()+etcdClient,
		),
	)
}

// podSecurityContext returns the security context of the Pods. The sysctl allows ports below 1024; the capability that the file of the
// program has is without effect, because privileges cannot grow.
func podSecurityContext() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](user), RunAsGroup: ptr.To[int64](user), FSGroup: ptr.To[int64](user),
		Sysctls: []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}},
	}
}

// probe authenticates, because anonymous users may be refused.
func probe(path, token string, delay int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.FromInt32(exposure.Port), Scheme: corev1.URISchemeHTTPS,
			HTTPHeaders: []corev1.HTTPHeader{{Name: "Authorization", Value: "Bearer " + token}},
		}},
		InitialDelaySeconds: delay, PeriodSeconds: 10, TimeoutSeconds: 15, FailureThreshold: 3, SuccessThreshold: 1,
	}
}

func mounts(s Secrets, parts []apiserver.Part) shared.Mounts {
	var m shared.Mounts
	for _, each := range []struct {
		volume, folder, secret string
		private                bool
	}{
		{"ca", authorityFolder, s.Authority, false},
		{"ca-client", clientAuthorityFolder, s.ClientAuthority, false},
		{"ca-front-proxy", frontProxyAuthorityFolder, s.FrontProxyAuthority, false},
		{"service-account-key", serviceAccountKeyFolder, s.ServiceAccountKey, true},
		{"service-account-key-bundle", serviceAccountKeysFolder, s.ServiceAccountKeys, true},
		{"static-token", staticTokenFolder, s.StaticTokens, false},
		{"kube-aggregator", aggregatorFolder, s.Aggregator, true},
		{"ca-etcd", apiserver.ETCDAuthorityFolder, s.ETCDAuthority, false},
		{"etcd-client", apiserver.ETCDClientFolder, s.ETCDClient, true},
		{"server", apiserver.ServerFolder, s.Server, true},
	} {
		m.Add(each.volume, each.folder, true, apiserver.SecretSource(each.secret, each.private))
	}
	apiserver.Mount(&m, parts)
	return m
}

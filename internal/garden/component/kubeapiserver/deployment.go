package kubeapiserver

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/exposure"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func deployment(v values.Values, in Input, image string, parts []apiserver.Part) *appsv1.Deployment {
	own := exposure.Owner(v).WithLabels(map[string]string{
		object.Role: "controlplane", "provider.extensions.gardener.cloud/mutated-by-controlplane-webhook": "true",
	})
	token := in.Secrets.HealthToken
	if probesAreAnonymous(v, in.References) {
		token = ""
	}
	m, readiness := mounts(in.Secrets, parts), probe(readyPath, token)
	container := corev1.Container{
		Name: Container, Image: image, Command: []string{"/usr/local/bin/kube-apiserver"}, Args: args(v, in.Secrets, parts),
		Ports:         []corev1.ContainerPort{pods.ContainerPort("https", exposure.Port)},
		StartupProbe:  pods.StartupProbe(readiness),
		LivenessProbe: probe(livePath, token), ReadinessProbe: readiness,
		Resources: resources(v, in.Live), VolumeMounts: m.Paths, SecurityContext: containerSecurityContext(),
	}
	d := apiserver.Deployment(own, Name, replicas(v, in.Live), exposure.Labels(), clients(), corev1.PodSpec{
		SecurityContext: podSecurityContext(), Volumes: m.Volumes, Containers: []corev1.Container{container},
	})
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, operatorv1alpha1.AnnotationKubernetesVersion, v.Kubernetes.String())
	apiserver.SetMarks(v, d, in.Live, in.Secrets.EncryptionKey)
	object.AnnotateReferences(d)
	return d
}

// clients returns further labels of Pods. They allow connections: to etcds, to webhooks, and to the servers in kubeconfigs of the user.
func clients() map[string]string {
	const etcdClient = "-client-tcp-2379"
	return object.Union(
		map[string]string{object.Role: "controlplane"}, network.DNSClients(),
		network.Allowed(network.ToPublicNetworks, network.ToPrivateNetworks),
		network.ClientsOf(
			network.WebhookTargets, "extensions-all-webhook-targets", etcd.Main.Name()+etcdClient, etcd.Events.Name()+etcdClient,
		),
	)
}

// containerSecurityContext returns the security context of the container. The file of the program has the capability NET_BIND_SERVICE, and
// the kernel does not start it if the container may not have the capability. The program still does not get the capability, because
// allowPrivilegeEscalation is false.
func containerSecurityContext() *corev1.SecurityContext {
	c := pods.ContainerSecurityContext()
	c.Capabilities.Add = []corev1.Capability{"NET_BIND_SERVICE"}
	return c
}

// podSecurityContext returns the security context of the Pods. The sysctl allows ports below 1024.
func podSecurityContext() *corev1.PodSecurityContext {
	c := pods.PodSecurityContext()
	c.Sysctls = []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}}
	return c
}

// Paths of the probes.
const (
	livePath  = "/livez"
	readyPath = "/readyz"
)

// probe returns a probe that authenticates with a token, if there is one.
func probe(path, token string) *corev1.Probe {
	p := pods.ServerProbe(path, exposure.Port)
	if token != "" {
		p.HTTPGet.HTTPHeaders = []corev1.HTTPHeader{{Name: "Authorization", Value: "Bearer " + token}}
	}
	return p
}

func mounts(s Secrets, parts []apiserver.Part) pods.Mounts {
	var m pods.Mounts
	m.AddSecret("ca", authorityFolder, s.Authority, false)
	m.AddSecret("ca-client", clientAuthorityFolder, s.ClientAuthority, false)
	m.AddSecret("ca-front-proxy", frontProxyAuthorityFolder, s.FrontProxyAuthority, false)
	m.AddSecret("service-account-key", serviceAccountKeyFolder, s.ServiceAccountKey, true)
	m.AddSecret("service-account-key-bundle", serviceAccountKeysFolder, s.ServiceAccountKeys, true)
	m.AddSecret("static-token", staticTokenFolder, s.StaticTokens, false)
	m.AddSecret("kube-aggregator", aggregatorFolder, s.Aggregator, true)
	m.AddSecret("ca-etcd", apiserver.ETCDAuthorityFolder, s.ETCDAuthority, false)
	m.AddSecret("etcd-client", apiserver.ETCDClientFolder, s.ETCDClient, true)
	m.AddSecret("server", apiserver.ServerFolder, s.Server, true)
	apiserver.Mount(&m, parts)
	return m
}

// Package kubecontrollermanager returns the objects of kube-controller-manager of the virtual cluster, for Kubernetes 1.32 to 1.36. The
// virtual cluster has no nodes, so only the controllers that it needs run.
//
// The objects in the runtime cluster are deployed directly, the objects in the virtual cluster by a ManagedResource.
package kubecontrollermanager

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/flags"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/versions"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

const (
	// Name is the name of the Deployment, of its Service and of its PodDisruptionBudget.
	Name = "virtual-garden-kube-controller-manager"
	// AutoscalerName is the name of the VerticalPodAutoscaler.
	AutoscalerName = Name + "-vpa"
	// AccessSecret is the name of the Secret with the token for the virtual cluster.
	AccessSecret = "shoot-access-kube-controller-manager"
	// ManagedResource is the name of the ManagedResource with VirtualObjects. Its deletion keeps the objects.
	ManagedResource = "shoot-core-kube-controller-manager"
	// Authority is the certificate authority of the serving certificate.
	Authority = rotation.KubernetesAuthority
	// Container is the name of the container, of the image and of the ServiceAccount in the virtual cluster.
	Container = "kube-controller-manager"
)

const (
	port = 10257

	// serverCertificate is the logical name of the Secret of ServerCertificate.
	serverCertificate = Container + "-server"

	authorityPath         = "/srv/kubernetes/ca"
	clientAuthorityPath   = "/srv/kubernetes/ca-client"
	serviceAccountKeyPath = "/srv/kubernetes/service-account-key"
	serverPath            = "/var/lib/kube-controller-manager-server"

	// signingDuration is the validity of the certificates that are signed, unless the Garden sets another one.
	signingDuration = 720 * time.Hour
)

// Secrets are the names of the Secrets that the Pods mount.
type Secrets struct {
	// Authority contains the bundle of the certificate authority of kube-apiserver.
	Authority string
	// ClientAuthority contains the current certificate authority of clients with its key.
	ClientAuthority string
	// ServiceAccountKey contains the current key for tokens of ServiceAccounts.
	ServiceAccountKey string
	// Server contains the serving certificate.
	Server string
	// Kubeconfig contains the generic token kubeconfig.
	Kubeconfig string
}

// ServerCertificate returns the request for the serving certificate.
func ServerCertificate(v values.Values) secrets.Request {
	return secrets.Request{SignedBy: Authority, Config: secretconfig.Certificate{
		Name: serverCertificate, CommonName: Name, DNSNames: object.DNSNames(v.Namespace, Name), Type: secretconfig.Server,
		SkipPublishingCACertificate: true,
	}}
}

// Objects returns the objects in the runtime cluster, in the order in which they are deployed. The Deployment is the last one.
// RuntimeConfig lists the API versions that kube-apiserver of the virtual cluster switches on or off, including the versions that are off
// by default.
func Objects(v values.Values, names Secrets, runtimeConfig map[string]bool) ([]client.Object, error) {
	kubernetes := versions.KubernetesOf(v.Kubernetes)
	image, err := v.ExternalImage(Container)
	if err != nil {
		return nil, err
	}
	owner := object.Owner{Namespace: v.Namespace, Labels: map[string]string{"app": "kubernetes", "role": "controller-manager"}}
	service := owner.Service(Name, network.From(network.GardenScrapeTargets, port), object.ServicePort("metrics", port, port))
	service.Spec.ClusterIP = corev1.ClusterIPNone
	manager := deployment(owner, names, image, command(v, kubernetes, runtimeConfig))
	metav1.SetMetaDataAnnotation(&manager.ObjectMeta, operatorv1alpha1.AnnotationKubernetesVersion, v.Kubernetes.String())
	return []client.Object{
		gardenaccess.Secret(v.Namespace, AccessSecret, Container),
		service,
		owner.DisruptionBudget(Name),
		object.Autoscaler{Name: AutoscalerName, Target: Name, Container: Container}.Object(v, v.Namespace),
		manager,
	}, nil
}

// VirtualObjects returns the objects in the virtual cluster.
func VirtualObjects() []client.Object {
	accounts := object.Owner{Namespace: metav1.NamespaceSystem}
	return []client.Object{
		accounts.ClusterRoleBinding("gardener.cloud:target:"+Container, "system:"+Container, Container),
	}
}

func deployment(owner object.Owner, names Secrets, image string, command []string) *appsv1.Deployment {
	var m pods.Mounts
	m.AddSecret("ca", authorityPath, names.Authority, false)
	m.AddSecret("ca-client", clientAuthorityPath, names.ClientAuthority, true)
	m.AddSecret("service-account-key", serviceAccountKeyPath, names.ServiceAccountKey, true)
	m.AddSecret("server", serverPath, names.Server, true)
	liveness := pods.ServerProbe("/healthz", port)
	liveness.InitialDelaySeconds, liveness.FailureThreshold = 15, 2
	pod := corev1.PodSpec{
		PriorityClassName: system.Class300, AutomountServiceAccountToken: ptr.To(false),
		SecurityContext: pods.PodSecurityContext(), Volumes: m.Volumes,
		Containers: []corev1.Container{{
			Name: Container, Image: image, Command: command, Ports: []corev1.ContainerPort{pods.ContainerPort("metrics", port)},
			LivenessProbe: liveness, Resources: pods.Requests("10m", "30M"), VolumeMounts: m.Paths,
		}},
	}
	gardenaccess.MountKubeconfig(&pod, names.Kubeconfig, AccessSecret)
	// The webhook that spreads Pods sets the same number. With another one, each reconciliation would write the Deployment.
	const replicas = 2
	controlPlane := map[string]string{object.Role: "controlplane"}
	own := owner.WithLabels(controlPlane, map[string]string{
		object.AvailabilityType: object.Controller, "provider.extensions.gardener.cloud/mutated-by-controlplane-webhook": "true",
	})
	d := own.Deployment(Name, replicas, owner.Labels, object.Union(
		controlPlane, network.VirtualClients(), map[string]string{"maintenance.gardener.cloud/restart": "true"},
	), pod)
	d.Spec.RevisionHistoryLimit = ptr.To[int32](1)
	return d
}

// command returns the program and its arguments. It does not set --leader-elect: by default, the Pods elect a leader in the virtual
// cluster.
func command(v values.Values, kubernetes versions.Kubernetes, runtimeConfig map[string]bool) []string {
	own := v.KubeControllerManager
	signing := ptr.Deref(own.CertificateSigningDuration, metav1.Duration{Duration: signingDuration})
	args := []string{
		"/usr/local/bin/kube-controller-manager",
		"--authentication-kubeconfig=" + gardenaccess.KubeconfigPath,
		"--authorization-kubeconfig=" + gardenaccess.KubeconfigPath,
		"--kubeconfig=" + gardenaccess.KubeconfigPath,
		"--kube-api-qps=100",
		"--kube-api-burst=200",
		"--cluster-name=garden",
	}
	for _, signer := range []string{"kube-apiserver-client", "legacy-unknown"} {
		args = append(args,
			"--cluster-signing-"+signer+"-cert-file="+clientAuthorityPath+"/"+secretconfig.DataKeyCACertificate,
			"--cluster-signing-"+signer+"-key-file="+clientAuthorityPath+"/"+secretconfig.DataKeyCAPrivateKey,
		)
	}
	args = append(args,
		"--cluster-signing-duration="+signing.Duration.String(),
		"--concurrent-endpoint-syncs=15",
		"--concurrent-gc-syncs=250",
		"--concurrent-namespace-syncs=100",
		"--concurrent-resource-quota-syncs=100",
		"--concurrent-service-endpoint-syncs=15",
		"--controllers="+controllers(kubernetes.DisabledControllers(runtimeConfig)),
		"--resource-quota-sync-period=1m0s",
	)
	args = append(args, flags.GateArgs(own.FeatureGates, kubernetes.TakesGate)...)
	return append(args,
		"--root-ca-file="+authorityPath+"/"+secretconfig.DataKeyCertificateBundle,
		"--service-account-private-key-file="+serviceAccountKeyPath+"/"+secretconfig.DataKeyRSAPrivateKey,
		fmt.Sprintf("--secure-port=%d", port),
		"--service-cluster-ip-range="+flags.Networks(v.ServiceNetworks),
		"--profiling=false",
		"--tls-cert-file="+serverPath+"/"+secretconfig.DataKeyCertificate,
		"--tls-private-key-file="+serverPath+"/"+secretconfig.DataKeyPrivateKey,
		"--tls-cipher-suites="+flags.CipherSuites(),
		"--use-service-account-credentials=true",
		"--v=2",
	)
}

func controllers(disabled []string) string {
	return strings.Join(append([]string{"*,bootstrapsigner,tokencleaner"}, disabled...), ",-")
}

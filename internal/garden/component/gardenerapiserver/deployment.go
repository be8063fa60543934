package gardenerapiserver

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

func deployment(v values.Values, in Input, image string, parts []apiserver.Part) (*appsv1.Deployment, error) {
	arguments, err := args(v, parts)
	if err != nil {
		return nil, err
	}
	m, readiness := mounts(in, parts), pods.ServerProbe("/readyz", Port)
	pod := corev1.PodSpec{
		SecurityContext: pods.PodSecurityContext(), Volumes: m.Volumes,
		Containers: []corev1.Container{{
			Name: Name, Image: image, Args: arguments, Ports: []corev1.ContainerPort{pods.ContainerPort("https", Port)},
			StartupProbe:  pods.StartupProbe(readiness),
			LivenessProbe: pods.ServerProbe("/livez", Port), ReadinessProbe: readiness,
			Resources: pods.Requests("600m", "512Mi"), VolumeMounts: m.Paths,
		}},
	}
	gardenaccess.MountKubeconfig(&pod, in.Kubeconfig, AccessSecret)
	d := apiserver.Deployment(gardener.Owner(v, role), Name, 2, Labels(), clients(), pod)
	if v.HighAvailability {
		// The webhook that spreads Pods sets two replicas, unless an annotation has another number.
		const replicas = 3
		d.Spec.Replicas = ptr.To[int32](replicas)
		d.Annotations = map[string]string{object.AvailabilityReplicas: strconv.Itoa(replicas)}
	}
	apiserver.SetMarks(v, d, in.Live, in.EncryptionKey)
	object.AnnotateReferences(d)
	return d, nil
}

// clients returns the labels that allow connections: to etcd, to kube-apiserver and webhooks of the virtual cluster, and to the servers in
// kubeconfigs of the user.
func clients() map[string]string {
	return object.Union(
		network.VirtualClients(), network.Allowed(network.ToPublicNetworks, network.ToPrivateNetworks),
		network.ClientsOf(network.WebhookTargets, etcd.Main.Name()+"-client-tcp-2379"),
	)
}

func mounts(in Input, parts []apiserver.Part) pods.Mounts {
	var m pods.Mounts
	m.AddSecret("ca-etcd", apiserver.ETCDAuthorityFolder, in.ETCDAuthority, false)
	m.AddSecret("etcd-client", apiserver.ETCDClientFolder, in.ETCDClient, true)
	m.AddSecret("server", apiserver.ServerFolder, in.Server, true)
	key := pods.SecretSource(in.WorkloadIdentityKey, true)
	key.Secret.Items = []corev1.KeyToPath{{Key: secretconfig.DataKeyRSAPrivateKey, Path: workloadIdentityFile}}
	m.Add("gardener-apiserver-workload-identity", workloadIdentityFolder, true, key)
	apiserver.Mount(&m, parts)
	return m
}

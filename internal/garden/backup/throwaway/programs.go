package throwaway

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
)

// Programs contains the images of the programs that a restoration runs. The Garden runs the same programs. Programs also contains the
// settings with which these programs find and read the data of the Garden.
type Programs struct {
	// ETCD, BackupRestore and APIServer are the images.
	ETCD, BackupRestore, APIServer string
	// Store, Variables, Volumes and Mounts are the arguments, environment variables, volumes and mounts with which etcd-backup-restore reads
	// snapshots.
	Store     []string
	Variables []corev1.EnvVar
	Volumes   []corev1.Volume
	Mounts    []corev1.VolumeMount
	// Settings are the arguments of kube-apiserver that must fit the data: the feature gates, the API versions that are switched on or off,
	// and the range of the IP addresses of Services.
	Settings []string
}

// Names of containers and volumes in the StatefulSets that etcd-druid creates.
const (
	etcdContainer, sidecarContainer = "etcd", "backup-restore"
	storeSecretVolume               = "etcd-backup-secret"
	storeFolderVolume               = "local-backup"
)

// ProgramsOf returns the programs of the StatefulSet of the main etcd, and of the Deployment of kube-apiserver.
func ProgramsOf(etcd *appsv1.StatefulSet, server *appsv1.Deployment) (Programs, error) {
	pod := etcd.Spec.Template.Spec
	main, sidecar := container(pod, etcdContainer), container(pod, sidecarContainer)
	api := container(server.Spec.Template.Spec, kubeapiserver.Container)
	if main == nil || sidecar == nil {
		return Programs{}, fmt.Errorf("StatefulSet %s/%s lacks one of the containers %s and %s", etcd.Namespace, etcd.Name,
			etcdContainer, sidecarContainer)
	}
	if api == nil {
		return Programs{}, fmt.Errorf("the Deployment %s/%s has no container %s", server.Namespace, server.Name, kubeapiserver.Container)
	}
	p := Programs{
		ETCD: main.Image, BackupRestore: sidecar.Image, APIServer: api.Image,
		Store:    withPrefix(sidecar.Args, "--storage-provider=", "--store-prefix=", "--store-endpoint-override="),
		Settings: withPrefix(api.Args, "--feature-gates=", "--runtime-config=", "--service-cluster-ip-range="),
	}
	if len(p.Store) == 0 {
		return Programs{}, fmt.Errorf("StatefulSet %s/%s has no backups", etcd.Namespace, etcd.Name)
	}
	for _, each := range sidecar.Env {
		if !strings.HasPrefix(each.Name, "POD_") {
			p.Variables = append(p.Variables, each)
		}
	}
	for _, each := range pod.Volumes {
		if each.Name == storeSecretVolume || each.Name == storeFolderVolume {
			p.Volumes = append(p.Volumes, each)
		}
	}
	for _, each := range sidecar.VolumeMounts {
		if each.Name == storeSecretVolume || each.Name == storeFolderVolume {
			each.ReadOnly = true
			p.Mounts = append(p.Mounts, each)
		}
	}
	return p, nil
}

// secrets returns the names of the Secrets with the credentials for the snapshots.
func (p Programs) secrets() []string {
	var names []string
	for _, each := range p.Volumes {
		if each.Secret != nil {
			names = append(names, each.Secret.SecretName)
		}
	}
	for _, each := range p.Variables {
		if each.ValueFrom != nil && each.ValueFrom.SecretKeyRef != nil {
			names = append(names, each.ValueFrom.SecretKeyRef.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// readsFolder reports whether the snapshots are in a folder of the node.
func (p Programs) readsFolder() bool {
	return slices.ContainsFunc(p.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil })
}

func container(pod corev1.PodSpec, name string) *corev1.Container {
	i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &pod.Containers[i]
}

func withPrefix(args []string, prefixes ...string) []string {
	var found []string
	for _, each := range args {
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(each, prefix) }) {
			found = append(found, each)
		}
	}
	return found
}

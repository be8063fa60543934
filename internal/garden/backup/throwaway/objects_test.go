package throwaway_test

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/backup/throwaway"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
)

// workloads returns the StatefulSet of the main etcd, in the form in which etcd-druid makes it, and the Deployment of kube-apiserver.
func workloads(namespace string, change func(*corev1.PodSpec)) (*appsv1.StatefulSet, *appsv1.Deployment) {
	labels := map[string]string{"app": "a"}
	etcd := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "virtual-garden-etcd-main"},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{
					{Name: "etcd", Image: "registry/etcd-wrapper:v1"},
					{
						Name: "backup-restore", Image: "registry/etcdbrctl:v1",
						Args: []string{
							"server", "--storage-provider=S3", "--store-prefix=virtual-garden-etcd-main/etcd-main", "--schedule=0 0 * * *",
							"--garbage-collection-policy=Exponential",
						},
						Env: []corev1.EnvVar{
							{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
							{Name: "STORAGE_CONTAINER", Value: "bucket"},
							{Name: "AWS_APPLICATION_CREDENTIALS", Value: "/var/etcd-backup"},
						},
						VolumeMounts: []corev1.VolumeMount{
							{Name: "etcd-config-file", MountPath: "/var/etcd/config/"}, {Name: "etcd-backup-secret", MountPath: "/var/etcd-backup"},
						},
					},
				},
				Volumes: []corev1.Volume{
					{Name: "etcd-config-file", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
						LocalObjectReference: corev1.LocalObjectReference{Name: "etcd-config"},
					}}},
					{Name: "etcd-backup-secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "bucket"}}},
				},
			}},
		},
	}
	if change != nil {
		change(&etcd.Spec.Template.Spec)
	}
	server := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "virtual-garden-kube-apiserver"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "kube-apiserver", Image: "registry/kube-apiserver:v1.36.1",
				Args: []string{
					"--secure-port=443", "--runtime-config=apps/v1=false", "--enable-admission-plugins=NodeRestriction",
					"--service-cluster-ip-range=10.0.0.0/16",
				},
			}}}},
		},
	}
	return etcd, server
}

func inFolder(pod *corev1.PodSpec) {
	sidecar := &pod.Containers[1]
	sidecar.Args[1] = "--storage-provider=Local"
	sidecar.VolumeMounts[1] = corev1.VolumeMount{Name: "local-backup", MountPath: "/var/etcd-backups/bucket"}
	pod.Volumes[1] = corev1.Volume{Name: "local-backup", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/backups/bucket"},
	}}
}

func TestObjects(t *testing.T) {
	g := NewWithT(t)
	data := map[string][]byte{"ca.crt": []byte("authority"), "tls.crt": []byte("certificate"), "tls.key": []byte("key")}
	credentials := throwaway.Credentials{Authority: []byte("authority"), Server: data, Client: data}
	objects := func(metadataService bool, change func(*corev1.PodSpec)) []client.Object {
		t.Helper()
		programs, err := throwaway.ProgramsOf(workloads("garden", change))
		g.Expect(err).NotTo(HaveOccurred())
		var copied []corev1.Secret
		if change == nil {
			copied = []corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Name: "bucket"}, Data: map[string][]byte{"region": []byte("eu")}}}
		}
		all, err := throwaway.ETCDObjects(programs, credentials, copied, metadataService)
		g.Expect(err).NotTo(HaveOccurred())
		return append(all, throwaway.ServerObjects(programs, credentials, credentials, []byte("keys"), "10.0.0.7")...)
	}
	goldentest.Compare(t, "bucket", map[string][]client.Object{
		"bucket": objects(false, nil), "metadata-service": objects(true, nil), "folder": objects(false, inFolder),
	})
}

func TestEtcdWithoutBackupsIsNamed(t *testing.T) {
	etcd, server := workloads("garden", func(pod *corev1.PodSpec) { pod.Containers[1].Args = []string{"server"} })
	_, err := throwaway.ProgramsOf(etcd, server)
	NewWithT(t).Expect(err).To(MatchError("StatefulSet garden/virtual-garden-etcd-main has no backups"))
}

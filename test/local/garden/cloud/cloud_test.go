package cloud

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestVolumesFollowClaims(t *testing.T) {
	g := NewWithT(t)
	folder := t.TempDir()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "garden", Name: "main-0", UID: "1",
			Annotations: map[string]string{"volume.kubernetes.io/storage-provisioner": "espalier.dev/folder"},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("folder"),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	foreign := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "foreign", UID: "2"}}
	c := fake.NewClientBuilder().WithStatusSubresource(&corev1.PersistentVolume{}).Build()
	provider := &claims{client: c, folder: folder}
	for _, each := range []*corev1.PersistentVolumeClaim{claim, claim, foreign} {
		_, err := provider.Reconcile(t.Context(), each)
		g.Expect(err).NotTo(HaveOccurred())
	}
	list := &corev1.PersistentVolumeList{}
	g.Expect(c.List(t.Context(), list)).To(Succeed())
	g.Expect(list.Items).To(HaveLen(1))
	volume := &list.Items[0]
	path := filepath.Join(folder, "pvc-1")
	g.Expect(volume.Spec).To(Equal(corev1.PersistentVolumeSpec{
		AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests, StorageClassName: "folder",
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		ClaimRef:                      &corev1.ObjectReference{Namespace: "garden", Name: "main-0", UID: "1"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: path, Type: ptr.To(corev1.HostPathDirectory)},
		},
	}))
	info, err := os.Stat(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o777)))

	remover := &volumes{client: c, folder: folder}
	_, err = remover.Reconcile(t.Context(), volume)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(path).To(BeADirectory())
	volume.Status.Phase = corev1.VolumeReleased
	_, err = remover.Reconcile(t.Context(), volume)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(path).NotTo(BeADirectory())
	g.Expect(c.List(t.Context(), list)).To(Succeed())
	g.Expect(list.Items).To(BeEmpty())
}

func TestLoadBalancersGetAnAddress(t *testing.T) {
	for kind, want := range map[corev1.ServiceType][]corev1.LoadBalancerIngress{
		corev1.ServiceTypeLoadBalancer: {{IP: "10.252.7.9"}}, corev1.ServiceTypeClusterIP: nil,
	} {
		g := NewWithT(t)
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}, Spec: corev1.ServiceSpec{Type: kind, ClusterIP: "10.0.7.9"},
		}
		c := fake.NewClientBuilder().WithObjects(service).WithStatusSubresource(service).Build()
		_, err := (&services{client: c}).Reconcile(t.Context(), service)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(service), service)).To(Succeed())
		g.Expect(service.Status.LoadBalancer.Ingress).To(Equal(want), string(kind))
	}
	_, err := addressOf("None")
	NewWithT(t).Expect(err).To(HaveOccurred())
}

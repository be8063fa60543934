package cloud

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Provisioner is the name of this provisioner in StorageClasses.
	Provisioner = "espalier.dev/folder"
	// provisionedBy and wantedFrom are annotations of Kubernetes that contain the provisioner of a volume and of a claim.
	provisionedBy = "pv.kubernetes.io/provisioned-by"
	wantedFrom    = "volume.kubernetes.io/storage-provisioner"
)

type claims struct {
	client client.Client
	folder string
}

// Reconcile creates the volume for a claim. kube-controller-manager then binds the claim to it.
func (r *claims) Reconcile(ctx context.Context, claim *corev1.PersistentVolumeClaim) (ctrl.Result, error) {
	if claim.Annotations[wantedFrom] != Provisioner || claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	volume := volumeFor(claim, r.folder)
	path := volume.Spec.HostPath.Path
	// Programs of any user must be able to write to the folder: the kubelet does not change the owner of such a volume.
	if err := errors.Join(os.MkdirAll(path, 0o755), os.Chmod(path, 0o777)); err != nil {
		return ctrl.Result{}, fmt.Errorf("create folder: %w", err)
	}
	if err := r.client.Create(ctx, volume); err != nil && !apierrors.IsAlreadyExists(err) {
		return ctrl.Result{}, fmt.Errorf("create volume: %w", err)
	}
	return ctrl.Result{}, nil
}

func volumeFor(claim *corev1.PersistentVolumeClaim, folder string) *corev1.PersistentVolume {
	name := "pvc-" + string(claim.UID)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{provisionedBy: Provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests, VolumeMode: claim.Spec.VolumeMode,
			StorageClassName:              ptr.Deref(claim.Spec.StorageClassName, ""),
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef:                      &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: filepath.Join(folder, name), Type: ptr.To(corev1.HostPathDirectory),
			}},
		},
	}
}

// volumes deletes a volume, with its data, when its claim is deleted.
type volumes struct {
	client client.Client
	folder string
}

// Reconcile deletes a volume that is released.
func (r *volumes) Reconcile(ctx context.Context, volume *corev1.PersistentVolume) (ctrl.Result, error) {
	if volume.Annotations[provisionedBy] != Provisioner || volume.Status.Phase != corev1.VolumeReleased || volume.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	if err := os.RemoveAll(filepath.Join(r.folder, volume.Name)); err != nil {
		return ctrl.Result{}, fmt.Errorf("remove folder: %w", err)
	}
	if err := r.client.Delete(ctx, volume); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("delete volume: %w", err)
	}
	return ctrl.Result{}, nil
}

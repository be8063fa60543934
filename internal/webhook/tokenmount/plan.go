package tokenmount

import (
	"errors"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/admission/patch"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

const (
	// volumePrefix begins the names of volumes that hold a token already: the API server's own, and ours.
	volumePrefix = "kube-api-access-"
	volumeName   = volumePrefix + "gardener"
	mountPath    = "/var/run/secrets/kubernetes.io/serviceaccount"
	// fileMode is that of the files in the volume, the default of the API.
	fileMode = 0o644
)

// pod is what the handler reads of a Pod. Containers that are null stay so.
type pod struct {
	Metadata struct {
		Annotations struct {
			ExpirationSeconds *string `json:"projected-token-mount.resources.gardener.cloud/expiration-seconds"`
		} `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		ServiceAccountName string `json:"serviceAccountName"`
		Automount          *bool  `json:"automountServiceAccountToken"`
		Volumes            []struct {
			Name string `json:"name"`
		} `json:"volumes"`
		InitContainers []*container `json:"initContainers"`
		Containers     []*container `json:"containers"`
	} `json:"spec"`
}

type container struct {
	// VolumeMounts are only counted.
	VolumeMounts []struct{} `json:"volumeMounts"`
}

// account returns the name of the ServiceAccount on which the verdict depends, or "" if the Pod stays as it is in any case.
func account(found pod) string {
	if found.Spec.ServiceAccountName == "default" {
		return ""
	}
	return found.Spec.ServiceAccountName
}

// plan mounts a token whose lifetime in seconds is given, unless the Pod's annotation says another one, into a Pod whose
// ServiceAccount forbids that the API server does; automount is what that one says. The error is about the annotation.
func plan(found pod, automount *bool, expirationSeconds int64) (patch.Patch, error) {
	if ptr.Deref(automount, true) || !ptr.Deref(found.Spec.Automount, true) {
		return nil, nil
	}
	for _, volume := range found.Spec.Volumes {
		if strings.HasPrefix(volume.Name, volumePrefix) {
			return nil, nil
		}
	}
	if given := found.Metadata.Annotations.ExpirationSeconds; given != nil {
		var err error
		if expirationSeconds, err = parseSeconds(*given); err != nil {
			return nil, err
		}
	}
	changes := patch.Patch{}
	patch.Append(&changes, "/spec/volumes", len(found.Spec.Volumes), volume(expirationSeconds))
	mountAll(&changes, "initContainers", found.Spec.InitContainers)
	mountAll(&changes, "containers", found.Spec.Containers)
	return changes, nil
}

// parseSeconds takes numbers literally: it is the API server that judges negative and small ones.
func parseSeconds(text string) (int64, error) {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if wrong, ok := errors.AsType[*strconv.NumError](err); ok {
		wrong.Num = excerpt.Quoted(wrong.Num)
	}
	return seconds, err //nolint:wrapcheck // it is the text of the answer
}

func mountAll(changes *patch.Patch, list string, containers []*container) {
	for i, each := range containers {
		if len(*changes) > patch.MaxOperations { // which is refused
			return
		}
		if each != nil {
			patch.Append(changes, patch.Pointer("spec", list, i, "volumeMounts"), len(each.VolumeMounts),
				corev1.VolumeMount{Name: volumeName, MountPath: mountPath, ReadOnly: true})
		}
	}
}

// volume holds what the API server's own volume for tokens holds.
func volume(expirationSeconds int64) corev1.Volume {
	authority := corev1.ConfigMapProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
		Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
	}
	namespace := corev1.DownwardAPIVolumeFile{
		Path:     "namespace",
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
	}
	return corev1.Volume{Name: volumeName, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: ptr.To[int32](fileMode),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &expirationSeconds}},
			{ConfigMap: &authority},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{namespace}}},
		},
	}}}
}

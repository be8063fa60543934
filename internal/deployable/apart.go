package deployable

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TargetKey is the key of the kubeconfig in the Secret that TargetSecret names. The other keys of this Secret become files in the same
// folder: a kubeconfig may contain `tokenFile: token`.
const TargetKey = "kubeconfig"

// HasTarget reports whether source and target of the binary may be two clusters.
func (b Binary) HasTarget() bool { return b.ConfigApart != "" }

// TargetSecret returns the name of the Secret in the source that contains the credentials for the target. The user who installs the binary
// creates it.
func (b Binary) TargetSecret() string { return b.object() + "-target" }

// IsForTarget reports whether the binary needs a role in the target. It needs all other roles in the source.
func (b Binary) IsForTarget(role string) bool {
	return role == ClusterAdmin || strings.HasPrefix(role, b.object()+"-target")
}

// SourceObjects returns the objects that the binary needs in the source if the target is another cluster. Image is as in Objects.
func (b Binary) SourceObjects(image string) []client.Object {
	objects := append([]client.Object{b.serviceAccount()}, b.bindings(func(r Role) bool { return !b.IsForTarget(r.Name) })...)
	deployment := b.deployment(image)
	template := &deployment.Spec.Template
	template.Annotations[configChecksum] = checksum(b.ConfigApart)
	// For clusters that deny traffic unless these labels allow it. The target may have any address.
	template.Labels["networking.gardener.cloud/to-public-networks"] = "allowed"
	template.Labels["networking.gardener.cloud/to-private-networks"] = "allowed"
	container := &template.Spec.Containers[0]
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "target", MountPath: targetPath, ReadOnly: true})
	template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: "target", VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: b.TargetSecret()},
	}})
	return append(objects, b.configMap(b.ConfigApart), b.service(), b.disruptionBudget(), deployment)
}

// TargetObjects returns the objects that the binary needs in the target if the source is another cluster: a ServiceAccount, and bindings
// of the roles for the target to this ServiceAccount. The user puts a token of the ServiceAccount into the kubeconfig.
func (b Binary) TargetObjects() []client.Object {
	return append([]client.Object{b.serviceAccount()}, b.bindings(func(r Role) bool { return b.IsForTarget(r.Name) })...)
}

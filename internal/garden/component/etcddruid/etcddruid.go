// Package etcddruid has etcd-druid 0.38.1, which runs the etcds of the virtual cluster.
//
// Its webhook that protects the objects of etcds is not registered: it would deny each change of the scale of any StatefulSet of the
// runtime cluster while etcd-druid is not available.
package etcddruid

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/managedresources"
	"github.com/espalier-dev/espalier/api/references"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/shared"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// ManagedResource is the name of the ManagedResource with these objects.
const ManagedResource = "etcd-druid"

const (
	name        = "etcd-druid"
	metricsPort = 8080

	configName = "etcd-druid-operator-config"
	configKey  = "config.yaml"
	configPath = "/operator_config"

	imagesName = "etcd-druid-imagevector-overwrite"
	imagesKey  = "images_overwrite.yaml"
	imagesPath = "/imagevector_overwrite"
)

// Objects returns the objects of the ManagedResource.
func Objects(v values.Values) ([]client.Object, error) {
	owner := shared.Owner{Namespace: v.Namespace, Labels: map[string]string{shared.Role: name}}
	configuration, err := configMap(owner, v)
	if err != nil {
		return nil, err
	}
	overwrite, err := imagesConfigMap(owner, v)
	if err != nil {
		return nil, err
	}
	deployment, err := deployment(owner, v, configuration.Name)
	if err != nil {
		return nil, err
	}
	addImages(deployment, overwrite.Name)
	objects := []client.Object{
		owner.ServiceAccount(name),
		owner.ClusterRole(roleName, rules()...),
		owner.ClusterRoleBinding(roleName, roleName, name),
		configuration,
		service(owner),
		deployment,
		owner.DisruptionBudget(name, owner.Labels, policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr.To(intstr.FromInt32(1)), UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		}),
		shared.Autoscaler{
			Name: name + "-vpa", Target: name, Labels: owner.Labels, Container: name,
			MinAllowed: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100M")},
		}.Object(v, v.Namespace),
		overwrite,
	}
	if err := references.InjectAnnotations(deployment); err != nil {
		return nil, fmt.Errorf("annotate Deployment %s: %w", name, err)
	}
	return objects, nil
}

func configMap(owner shared.Owner, v values.Values) (*corev1.ConfigMap, error) {
	content, err := yaml.Marshal(configuration(v))
	if err != nil {
		return nil, fmt.Errorf("encode configuration of %s: %w", name, err)
	}
	o := &corev1.ConfigMap{
		TypeMeta: shared.Type("v1", "ConfigMap"), ObjectMeta: owner.Meta(configName), Data: map[string]string{configKey: string(content)},
	}
	references.MakeConfigMapUnique(o)
	return o, nil
}

// imagesConfigMap returns the images that etcd-druid uses instead of its own.
func imagesConfigMap(owner shared.Owner, v values.Values) (*corev1.ConfigMap, error) {
	content, err := imageList(v)
	if err != nil {
		return nil, err
	}
	o := &corev1.ConfigMap{
		TypeMeta: shared.Type("v1", "ConfigMap"), ObjectMeta: owner.Meta(imagesName), Data: map[string]string{imagesKey: content},
	}
	references.MakeConfigMapUnique(o)
	return o, nil
}

// imageList returns the list of the user, completed by the images of etcds that it does not name. etcd-druid takes those with the suffix
// -next if its feature gate UpgradeEtcdVersion is on, so that each image is in the list with and without it: the gate does not change the
// version. Entries of the user keep fields that only etcd-druid knows.
func imageList(v values.Values) (string, error) {
	var list struct {
		Images []map[string]any `json:"images"`
	}
	if err := yaml.Unmarshal([]byte(v.ComponentImages[name]), &list); err != nil {
		return "", fmt.Errorf("decode images of %s: %w", name, err)
	}
	for _, each := range []string{"etcd-wrapper", "etcd-backup-restore"} {
		image, err := v.ExternalImage(each)
		if err != nil {
			return "", err
		}
		for _, key := range []string{each, each + "-next"} {
			if !slices.ContainsFunc(list.Images, func(own map[string]any) bool { return own["name"] == key }) {
				list.Images = append(list.Images, map[string]any{"name": key, "ref": image})
			}
		}
	}
	content, err := yaml.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("encode images of %s: %w", name, err)
	}
	return string(content), nil
}

func addImages(d *appsv1.Deployment, configMap string) {
	const volume = "imagevector-overwrite"
	pod := &d.Spec.Template.Spec
	pod.Volumes = append(pod.Volumes, configMapVolume(volume, configMap))
	c := &pod.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: imagesPath, ReadOnly: true})
	c.Env = append(c.Env, corev1.EnvVar{Name: "IMAGEVECTOR_OVERWRITE", Value: imagesPath + "/" + imagesKey})
}

func configMapVolume(volume, configMap string) corev1.Volume {
	return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}},
	}}
}

func service(owner shared.Owner) *corev1.Service {
	meta := owner.WithLabels(map[string]string{shared.AvailabilityType: shared.Controller}).Meta(name)
	meta.Annotations = shared.From(shared.SeedScrapeTargets, metricsPort)
	return &corev1.Service{TypeMeta: shared.Type("v1", "Service"), ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Selector: maps.Clone(owner.Labels),
		Ports: []corev1.ServicePort{shared.ServicePort("metrics", metricsPort, metricsPort)},
	}}
}

func deployment(owner shared.Owner, v values.Values, configMap string) (*appsv1.Deployment, error) {
	image, err := v.ExternalImage(name)
	if err != nil {
		return nil, err
	}
	const volume = "etcd-druid-operator-config"
	return &appsv1.Deployment{
		TypeMeta:   shared.Type(appsv1.SchemeGroupVersion.String(), "Deployment"),
		ObjectMeta: owner.WithLabels(map[string]string{shared.AvailabilityType: shared.Controller}).Meta(name),
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1), RevisionHistoryLimit: ptr.To[int32](1),
			Selector: &metav1.LabelSelector{MatchLabels: maps.Clone(owner.Labels)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: shared.Union(owner.Labels, shared.Clients(),
					// It reads metrics of the compaction of backups, of the garden and of Shoots in a seed that is the runtime cluster.
					shared.ClientsOf("virtual-garden-etcd-main-client-tcp-8080", "all-shoots-etcd-main-client-tcp-8080"))},
				Spec: corev1.PodSpec{
					ServiceAccountName: name, PriorityClassName: system.Class300,
					Tolerations: []corev1.Toleration{{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists}},
					Containers: []corev1.Container{{
						Name: name, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
						Args:            []string{"--config=" + configPath + "/" + configKey},
						Ports:           []corev1.ContainerPort{shared.ContainerPort("metrics", metricsPort)},
						Resources:       shared.Requests("50m", "128Mi"),
						SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false)},
						VolumeMounts:    []corev1.VolumeMount{{Name: volume, MountPath: configPath, ReadOnly: true}},
					}},
					Volumes: []corev1.Volume{configMapVolume(volume, configMap)},
				},
			},
		},
	}, nil
}

// configuration returns the configuration file. Fields that it does not have keep the defaults of etcd-druid.
func configuration(v values.Values) map[string]any {
	c := v.ETCDConfig
	etcd := map[string]any{
		// A webhook of the resource manager mounts the token.
		"disableEtcdServiceAccountAutomount": true,
		// A changed specification waits for the annotation that asks for an operation.
		"enableEtcdSpecAutoReconcile": false,
	}
	if c.ETCDController != nil && c.ETCDController.Workers != nil {
		etcd["concurrentSyncs"] = *c.ETCDController.Workers
	}
	compaction := map[string]any{}
	if own := c.BackupCompactionController; own != nil {
		if own.EnableBackupCompaction != nil {
			compaction["enabled"] = *own.EnableBackupCompaction
		}
		if own.Workers != nil {
			compaction["concurrentSyncs"] = *own.Workers
		}
		if own.EventsThreshold != nil {
			compaction["eventsThreshold"] = *own.EventsThreshold
		}
		if own.MetricsScrapeWaitDuration != nil {
			compaction["metricsScrapeWaitDuration"] = own.MetricsScrapeWaitDuration.Duration.String()
		}
		if own.ActiveDeadlineDuration != nil {
			compaction["activeDeadlineDuration"] = own.ActiveDeadlineDuration.Duration.String()
		}
	}
	file := map[string]any{
		"apiVersion":     "config.druid.gardener.cloud/v1alpha1",
		"kind":           "OperatorConfiguration",
		"leaderElection": map[string]any{"enabled": true},
		"controllers": map[string]any{
			"etcd": etcd, "compaction": compaction,
			"etcdCopyBackupsTask": map[string]any{"enabled": true},
			"etcdOpsTask":         map[string]any{"concurrentSyncs": 3, "requeueInterval": "15s"},
		},
		"webhooks": map[string]any{"etcdComponentProtection": map[string]any{"enabled": false}},
	}
	if len(c.FeatureGates) > 0 {
		file["featureGates"] = c.FeatureGates
	}
	return file
}

// Ready returns why etcd-druid does not run as it was deployed, by its ManagedResource.
func Ready(set *resourcesv1alpha1.ManagedResource) error {
	if err := managedresources.CheckAppliedAndHealthy(set); err != nil {
		return err
	}
	return managedresources.CheckNotProgressing(set)
}

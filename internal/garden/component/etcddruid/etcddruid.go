// Package etcddruid returns the objects of etcd-druid 0.38.1, which runs the etcds of the virtual cluster.
//
// Its webhook that protects the objects of etcds is not registered: it would deny each change of the scale of any StatefulSet of the
// runtime cluster while etcd-druid is not available.
package etcddruid

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
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
	owner := object.Owner{Namespace: v.Namespace, Labels: map[string]string{object.Role: name}}
	image, err := v.ExternalImage(name)
	if err != nil {
		return nil, err
	}
	content, err := yaml.Marshal(configuration(v))
	if err != nil {
		return nil, fmt.Errorf("encode configuration of %s: %w", name, err)
	}
	config := owner.UniqueConfigMap(configName, map[string]string{configKey: string(content)})
	images, err := imageList(v)
	if err != nil {
		return nil, err
	}
	overwrite := owner.UniqueConfigMap(imagesName, map[string]string{imagesKey: images})
	metrics := object.ServicePort("metrics", metricsPort, metricsPort)
	service := owner.Service(name, object.Union(
		network.From(network.GardenScrapeTargets, metricsPort), network.From(network.SeedScrapeTargets, metricsPort),
	), metrics)
	service.Labels[object.AvailabilityType] = object.Controller
	return []client.Object{
		owner.ServiceAccount(name),
		owner.ClusterRole(roleName, rules()...),
		owner.ClusterRoleBinding(roleName, roleName, name),
		config,
		service,
		deployment(owner, image, config.Name, overwrite.Name),
		owner.DisruptionBudget(name),
		object.Autoscaler{
			Name: name + "-vpa", Target: name, Labels: owner.Labels, Container: name, MinAllowed: pods.Memory("100M"),
		}.Object(v, v.Namespace),
		overwrite,
	}, nil
}

// imageList returns the list of images for etcd-druid: the list that a user configured, and the images of etcd-wrapper and
// etcd-backup-restore, as far as the list of the user does not contain them. If the feature gate UpgradeEtcdVersion of etcd-druid is on,
// etcd-druid uses the images whose names end with -next. imageList adds each image with both names, so that the feature gate does not
// change the version. Entries of the user keep all fields, also fields that only etcd-druid knows.
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

// deployment returns the Deployment. config is the name of the ConfigMap with the configuration, and images is the name of the ConfigMap
// with the list of images that etcd-druid uses instead of its own list.
func deployment(owner object.Owner, image, config, images string) *appsv1.Deployment {
	var m pods.Mounts
	m.Add(configName, configPath, true, pods.ConfigMapSource(config))
	m.Add("imagevector-overwrite", imagesPath, true, pods.ConfigMapSource(images))
	clients := object.Union(network.Clients(),
		// etcd-druid reads metrics of the compaction of backups, of the garden and of Shoots in a seed that is the runtime cluster.
		network.ClientsOf("virtual-garden-etcd-main-client-tcp-8080", "all-shoots-etcd-main-client-tcp-8080"))
	d := owner.Deployment(name, 1, owner.Labels, clients, corev1.PodSpec{
		ServiceAccountName: name, PriorityClassName: system.Class300, Volumes: m.Volumes,
		Tolerations: []corev1.Toleration{{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{
			Name: name, Image: image, Args: []string{"--config=" + configPath + "/" + configKey},
			Env:   []corev1.EnvVar{{Name: "IMAGEVECTOR_OVERWRITE", Value: imagesPath + "/" + imagesKey}},
			Ports: []corev1.ContainerPort{pods.ContainerPort("metrics", metricsPort)}, VolumeMounts: m.Paths,
			Resources: pods.Requests("50m", "128Mi"),
		}},
	})
	d.Labels[object.AvailabilityType] = object.Controller
	d.Spec.RevisionHistoryLimit = ptr.To[int32](1)
	object.AnnotateReferences(d)
	return d
}

// configuration returns the configuration file. Fields that it does not have keep the defaults of etcd-druid.
func configuration(v values.Values) map[string]any {
	c := v.ETCDConfig
	etcd := map[string]any{
		// A webhook of the resource manager mounts the token.
		"disableEtcdServiceAccountAutomount": true,
		// A changed specification waits for the annotation that asks for an operation.
		"enableEtcdSpecAutoReconcile": false,
		// The operator waits until etcd-druid reports that an etcd is ready. etcd-druid updates this report once in each period, which is 15
		// seconds by default.
		"etcdStatusSyncPeriod": "5s",
	}
	if c.ETCDController != nil {
		set(etcd, "concurrentSyncs", c.ETCDController.Workers)
	}
	compaction := map[string]any{}
	if own := c.BackupCompactionController; own != nil {
		set(compaction, "enabled", own.EnableBackupCompaction)
		set(compaction, "concurrentSyncs", own.Workers)
		set(compaction, "eventsThreshold", own.EventsThreshold)
		set(compaction, "metricsScrapeWaitDuration", own.MetricsScrapeWaitDuration)
		set(compaction, "activeDeadlineDuration", own.ActiveDeadlineDuration)
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

// set sets a field of a configuration file, unless the value is nil.
func set[T any](section map[string]any, field string, value *T) {
	if value != nil {
		section[field] = *value
	}
}

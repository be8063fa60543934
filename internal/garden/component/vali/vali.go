// Package vali returns the objects of vali 2.2, which stores log lines and answers queries of Plutono.
package vali

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/references"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Name is the name of the component, of its ManagedResource and of its StatefulSet.
const Name = component.Vali

// Claim is the name of the PersistentVolumeClaim, which stays when vali is removed.
const Claim = Name + "-" + Name + "-0"

// Service is the name of the Service.
const Service = observability.ValiService

const (
	port        = observability.ValiPort
	curatorPort = 2718
	// user is the user of the image, which owns the files in existing volumes.
	user = 10001

	configPath    = "/etc/vali"
	valiFile      = "vali.yaml"
	curatorFile   = "curator.yaml"
	initFile      = "vali-init.sh"
	dataPath      = "/data"
	retention     = "360h"
	curator       = "curator"
	configuration = "vali-config"
)

// URL returns the address of the API.
func URL(v values.Values) string {
	return observability.URL(v, Service, port)
}

// Objects returns the objects of the ManagedResource.
func Objects(v values.Values) ([]client.Object, error) {
	owner := object.Owner{Namespace: v.Namespace, Labels: observability.LoggingLabels(Name)}
	files, err := config()
	if err != nil {
		return nil, err
	}
	config := owner.UniqueConfigMap(configuration, files)
	workload, err := statefulSet(v, owner, config.Name)
	if err != nil {
		return nil, err
	}
	return []client.Object{
		config,
		owner.Service(Service, network.From(network.SeedScrapeTargets, port), object.ServicePort("metrics", port, port)),
		workload,
		object.Autoscaler{
			Name: Name + "-vpa", Labels: owner.Labels, Kind: "StatefulSet", Target: Name, Container: Name, MinAllowed: pods.Memory("100M"),
		}.Object(v, v.Namespace),
	}, nil
}

func config() (map[string]string, error) {
	server, err := yaml.Marshal(map[string]any{
		"auth_enabled": false,
		"ingester": map[string]any{
			"chunk_target_size": 1536000, "chunk_idle_period": "3m", "chunk_block_size": 262144, "chunk_retain_period": "3m",
			"max_transfer_retries": 3,
			"lifecycler": map[string]any{
				"ring":        map[string]any{"kvstore": map[string]any{"store": "inmemory"}, "replication_factor": 1},
				"final_sleep": "0s", "min_ready_duration": "1s",
			},
		},
		"limits_config": map[string]any{
			"enforce_metric_name": false, "reject_old_samples": false, "ingestion_rate_mb": 12, "ingestion_burst_size_mb": 16,
		},
		"schema_config": map[string]any{"configs": []any{map[string]any{
			"from": "2018-04-15", "store": "boltdb", "object_store": "filesystem", "schema": "v11",
			"index": map[string]any{"prefix": "index_", "period": "24h"},
		}}},
		"storage_config": map[string]any{
			"boltdb": map[string]any{"directory": dataPath + "/vali/index"}, "filesystem": map[string]any{"directory": dataPath + "/vali/chunks"},
		},
		"chunk_store_config": map[string]any{"max_look_back_period": retention},
		"table_manager":      map[string]any{"retention_deletes_enabled": true, "retention_period": retention},
		"server":             map[string]any{"http_listen_port": port},
	})
	if err != nil {
		return nil, fmt.Errorf("encode configuration of %s: %w", Name, err)
	}
	free := map[string]any{"MinFreePercentages": 10, "TargetFreePercentages": 15, "PageSizeForDeletionPercentages": 1}
	cleaner, err := yaml.Marshal(map[string]any{
		"LogLevel": "info", "DiskPath": dataPath + "/vali/chunks", "TriggerInterval": "1h", "InodeConfig": free, "StorageConfig": free,
	})
	if err != nil {
		return nil, fmt.Errorf("encode configuration of the curator of %s: %w", Name, err)
	}
	return map[string]string{valiFile: string(server), curatorFile: string(cleaner), initFile: initScript}, nil
}

// initScript lets a folder of an ext4 volume have more than ten million files. It has no effect on other volumes.
const initScript = `#!/bin/sh
device=$(mount | awk '$3 == "` + dataPath + `" { print $1 }')
tune2fs -O large_dir "$device" || true
`

func statefulSet(v values.Values, owner object.Owner, config string) (client.Object, error) {
	image, err := v.ExternalImage(Name)
	if err != nil {
		return nil, err
	}
	curatorImage, err := v.ExternalImage("vali-curator")
	if err != nil {
		return nil, err
	}
	initImage, err := v.ExternalImage("tune2fs")
	if err != nil {
		return nil, err
	}
	data := corev1.VolumeMount{Name: Name, MountPath: dataPath}
	mounts := []corev1.VolumeMount{data, {Name: "config", MountPath: configPath, ReadOnly: true}}
	readiness := &corev1.Probe{ProbeHandler: pods.HTTPGet("/ready", port, ""), FailureThreshold: 7}
	pod := corev1.PodSpec{
		PriorityClassName: system.Class100, AutomountServiceAccountToken: ptr.To(false),
		SecurityContext: &corev1.PodSecurityContext{
			FSGroup: ptr.To[int64](user), FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeOnRootMismatch),
		},
		InitContainers: []corev1.Container{{
			Name: "init-large-dir", Image: initImage, Command: []string{"/bin/sh", configPath + "/" + initFile}, VolumeMounts: mounts,
			ImagePullPolicy: corev1.PullIfNotPresent,
			// It changes a setting of the device of the volume.
			SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true), RunAsNonRoot: ptr.To(false), RunAsUser: ptr.To[int64](0)},
		}},
		Containers: []corev1.Container{
			{
				Name: Name, Image: image, Args: []string{"-config.file=" + configPath + "/" + valiFile}, VolumeMounts: mounts,
				Ports: []corev1.ContainerPort{pods.ContainerPort("metrics", port)}, Resources: pods.Requests("10m", "100M"),
				StartupProbe:   pods.StartupProbe(readiness),
				LivenessProbe:  &corev1.Probe{ProbeHandler: readiness.ProbeHandler, FailureThreshold: 5},
				ReadinessProbe: readiness, SecurityContext: asUser(), ImagePullPolicy: corev1.PullIfNotPresent,
			},
			{
				Name: curator, Image: curatorImage, Args: []string{"-config=" + configPath + "/" + curatorFile}, VolumeMounts: mounts,
				Ports:     []corev1.ContainerPort{pods.ContainerPort("curatormetrics", curatorPort)},
				Resources: pods.Requests("5m", "15Mi"), SecurityContext: asUser(), ImagePullPolicy: corev1.PullIfNotPresent,
			},
		},
		Volumes: []corev1.Volume{{Name: "config", VolumeSource: pods.ConfigMapSource(config)}},
	}
	set := &appsv1.StatefulSet{
		TypeMeta: object.Type(appsv1.SchemeGroupVersion.String(), "StatefulSet"), ObjectMeta: owner.Meta(Name),
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](1), RevisionHistoryLimit: ptr.To[int32](2), ServiceName: Service,
			Selector: &metav1.LabelSelector{MatchLabels: owner.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: owner.Labels}, Spec: pod},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: Name},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: observability.LogVolume(v)}},
				},
			}},
		},
	}
	// The size of the volume of an existing StatefulSet cannot change. A new StatefulSet uses the existing volume.
	set.Annotations = map[string]string{resourcesv1alpha1.DeleteOnInvalidUpdate: "true"}
	return set, references.InjectAnnotations(set)
}

func asUser() *corev1.SecurityContext {
	security := pods.ContainerSecurityContext()
	security.RunAsNonRoot, security.RunAsUser, security.RunAsGroup = ptr.To(true), ptr.To[int64](user), ptr.To[int64](user)
	return security
}

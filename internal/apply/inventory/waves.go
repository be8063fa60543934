package inventory

import (
	"cmp"
	"slices"
)

// waveKinds returns the order in which kinds are applied, regardless of their group.
func waveKinds() []string {
	return []string{
		"PriorityClass", "Namespace", "NetworkPolicy", "ResourceQuota", "LimitRange", "PodSecurityPolicy", "PodDisruptionBudget",
		"ServiceAccount", "Secret", "SecretList", "ConfigMap", "StorageClass", "PersistentVolume", "PersistentVolumeClaim",
		"CustomResourceDefinition", "ClusterRole", "ClusterRoleList", "ClusterRoleBinding", "ClusterRoleBindingList", "Role", "RoleList",
		"RoleBinding", "RoleBindingList", "Service", "DaemonSet", "Pod", "ReplicationController", "ReplicaSet", "Deployment",
		"HorizontalPodAutoscaler", "StatefulSet", "Job", "CronJob", "IngressClass", "Ingress", "APIService",
	}
}

// Wave returns the position of a kind in the order in which kinds are applied. All kinds that are not in that order share the
// position after its last one.
func Wave(kind string) int {
	kinds := waveKinds()
	if position := slices.Index(kinds, kind); position >= 0 {
		return position
	}
	return len(kinds)
}

// ApplyWaves groups items by kind in the order in which they are applied: first the kinds that Wave knows, then the others
// by kind name. Inside a group they are sorted by name, then namespace, then input order. The caller may apply the items
// of one group at the same time, except that the last one of several items with the same name and namespace must win.
func ApplyWaves[T any](items []T, kindOf func(T) string, nameOf func(T) (namespace, name string)) [][]T {
	type positionedItem struct {
		wave                  int
		kind, namespace, name string
		item                  T
	}
	positions := make(map[string]int)
	sorted := make([]positionedItem, 0, len(items))
	for _, item := range items {
		kind := kindOf(item)
		wave, known := positions[kind]
		if !known {
			wave = Wave(kind)
			positions[kind] = wave
		}
		namespace, name := nameOf(item)
		sorted = append(sorted, positionedItem{wave: wave, kind: kind, namespace: namespace, name: name, item: item})
	}
	slices.SortStableFunc(sorted, func(a, b positionedItem) int {
		return cmp.Or(cmp.Compare(a.wave, b.wave), cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name),
			cmp.Compare(a.namespace, b.namespace))
	})
	var waves [][]T
	for i, current := range sorted {
		if i == 0 || current.kind != sorted[i-1].kind {
			waves = append(waves, nil)
		}
		waves[len(waves)-1] = append(waves[len(waves)-1], current.item)
	}
	return waves
}

// DeleteWaves groups items as ApplyWaves does, with the group that is applied last first.
func DeleteWaves[T any](items []T, kindOf func(T) string, nameOf func(T) (namespace, name string)) [][]T {
	waves := ApplyWaves(items, kindOf, nameOf)
	slices.Reverse(waves)
	return waves
}

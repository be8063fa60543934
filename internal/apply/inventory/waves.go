package inventory

import (
	"cmp"
	"maps"
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

// Wave returns the position of a kind in the order in which kinds are applied. All kinds that this order does not contain share one
// position, after the last kind of the order.
func Wave(kind string) int {
	kinds := waveKinds()
	if position := slices.Index(kinds, kind); position >= 0 {
		return position
	}
	return len(kinds)
}

// ApplyWaves groups items by kind in the order in which they are applied: first the kinds that Wave knows, then the others by kind name.
// Inside a group they are sorted by name, then namespace, then input order. The caller may apply the items of one group at the same time,
// except that among several items with the same name and namespace the last one must be applied last.
func ApplyWaves[T any](items []T, kindOf func(T) string, nameOf func(T) (namespace, name string)) [][]T {
	if len(items) == 0 {
		return nil
	}
	byKind := map[string][]T{}
	for _, item := range items {
		byKind[kindOf(item)] = append(byKind[kindOf(item)], item)
	}
	waves := make([][]T, 0, len(byKind))
	for _, kind := range slices.SortedFunc(maps.Keys(byKind), compareKinds) {
		slices.SortStableFunc(byKind[kind], func(a, b T) int {
			namespaceOfA, nameOfA := nameOf(a)
			namespaceOfB, nameOfB := nameOf(b)
			return cmp.Or(cmp.Compare(nameOfA, nameOfB), cmp.Compare(namespaceOfA, namespaceOfB))
		})
		waves = append(waves, byKind[kind])
	}
	return waves
}

func compareKinds(a, b string) int {
	return cmp.Or(cmp.Compare(Wave(a), Wave(b)), cmp.Compare(a, b))
}

// DeleteWaves groups items as ApplyWaves does, with the group that is applied last first.
func DeleteWaves[T any](items []T, kindOf func(T) string, nameOf func(T) (namespace, name string)) [][]T {
	waves := ApplyWaves(items, kindOf, nameOf)
	slices.Reverse(waves)
	return waves
}

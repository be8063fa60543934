package kill_test

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// kind is a kind of the sets' objects, with the content of an object except for its metadata.
type kind struct {
	apiVersion, kind string
	content          func(name string, revision int) map[string]any
}

// kinds returns the kinds in the order of the places of a set. Controllers of Kubernetes change only the status of such objects and, for
// Deployments, one annotation.
func kinds() []kind {
	configMap := kind{"v1", "ConfigMap", func(_ string, revision int) map[string]any {
		return map[string]any{"apiVersion": "v1", "data": map[string]any{
			"revision": strconv.Itoa(revision), "at-" + strconv.Itoa(revision): "", "settings.yaml": strings.Repeat("some: setting\n", 20),
		}}
	}}
	return []kind{
		configMap,
		{"v1", "Secret", func(_ string, revision int) map[string]any {
			return map[string]any{"apiVersion": "v1", "type": "Opaque", "data": map[string]any{
				"revision": base64.StdEncoding.EncodeToString([]byte(strconv.Itoa(revision))), "at-" + strconv.Itoa(revision): "",
			}}
		}},
		{"v1", "ServiceAccount", func(_ string, revision int) map[string]any {
			return map[string]any{"apiVersion": "v1", "automountServiceAccountToken": revision%2 == 0}
		}},
		{"v1", "Service", func(name string, revision int) map[string]any {
			return map[string]any{"apiVersion": "v1", "spec": map[string]any{
				"clusterIP": "None", "selector": map[string]any{"app": name, "revision": strconv.Itoa(revision)},
				"ports": []any{map[string]any{"name": "https", "port": int64(1000 + revision%30000), "protocol": "TCP"}},
			}}
		}},
		{"rbac.authorization.k8s.io/v1", "Role", func(_ string, revision int) map[string]any {
			return map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "rules": []any{map[string]any{
				"apiGroups": []any{""}, "resources": []any{"configmaps"}, "resourceNames": []any{"at-" + strconv.Itoa(revision)}, "verbs": []any{"get"},
			}}}
		}},
		{"rbac.authorization.k8s.io/v1", "RoleBinding", func(name string, revision int) map[string]any {
			return map[string]any{
				"apiVersion": "rbac.authorization.k8s.io/v1",
				"roleRef":    map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
				"subjects":   []any{map[string]any{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "at-" + strconv.Itoa(revision)}},
			}
		}},
		{"policy/v1", "PodDisruptionBudget", func(name string, revision int) map[string]any {
			return map[string]any{"apiVersion": "policy/v1", "spec": map[string]any{
				"maxUnavailable": int64(1 + revision), "selector": map[string]any{"matchLabels": map[string]any{"app": name}},
			}}
		}},
		{"apps/v1", "Deployment", deployment},
		configMap,
		configMap,
	}
}

func deployment(name string, revision int) map[string]any {
	selector := map[string]any{"app": name}
	return map[string]any{"apiVersion": "apps/v1", "spec": map[string]any{
		"replicas": int64(0), "revisionHistoryLimit": int64(0), "selector": map[string]any{"matchLabels": selector},
		"template": map[string]any{
			"metadata": map[string]any{"labels": selector},
			"spec": map[string]any{"containers": []any{map[string]any{
				"name": "main", "image": "registry.example.com/part:v" + strconv.Itoa(revision),
			}}},
		},
	}}
}

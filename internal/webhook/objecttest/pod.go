package objecttest

// Pod has what handlers read and change of Pods, with what is beside it.
func Pod() Value {
	return Object(
		Member{"apiVersion", Text("v1")},
		Member{"kind", Text("Pod")},
		Member{"metadata", Object(
			Member{"generateName", Text("web-")},
			Member{"labels", Map(Text("", "123abc"), "pod-template-hash", "app")},
			Member{
				"annotations",
				Map(Text("8998", "", "x", "-1", "99999999999999999999"), "projected-token-mount.resources.gardener.cloud/expiration-seconds", "note"),
			},
			Member{"ownerReferences", List(Object(
				Member{"apiVersion", Text("apps/v1", "apps/v1beta2")},
				Member{"kind", Text("DaemonSet", "ReplicaSet")},
				Member{"controller", Bool},
			))},
		)},
		Member{"spec", Object(podSpec()...)},
	)
}

func podSpec() []Member {
	return []Member{
		{"serviceAccountName", Text("", "default", "robot")},
		{"automountServiceAccountToken", Bool},
		{"schedulerName", Text("", "default-scheduler", "bar-scheduler", "bin-packing-scheduler")},
		{"hostNetwork", Bool},
		{"volumes", List(Object(Member{"name", Text("data", "kube-api-access-2138h", "kube-api-access")}))},
		{"initContainers", List(container())},
		{"containers", List(container())},
		{"ephemeralContainers", List(container())},
		{"nodeSelector", Map(Text("", "selector", "other"), "additional", "example.com/a~b")},
		{"tolerations", List(One( // few, so that a Pod often has one twice
			map[string]any{"key": "k1", "operator": "Exists"},
			map[string]any{"key": "k1", "operator": "Exists", "tolerationSeconds": 0},
			map[string]any{"key": "k1", "operator": "Exists", "tolerationSeconds": 10},
			map[string]any{"key": "k3", "operator": "Exists", "effect": "NoSchedule", "value": ""},
			map[string]any{"key": "configured", "operator": "Equal", "value": "v1", "effect": "NoExecute", "tolerationSeconds": nil},
			map[string]any{},
		))},
		{"securityContext", Object(
			Member{"runAsUser", Integer(0, 3)},
			Member{
				"seccompProfile",
				Object(Member{"type", Text("", "Unconfined", "RuntimeDefault")}, Member{"localhostProfile", Text("profile.json")}),
			},
		)},
		{"topologySpreadConstraints", List(Object(
			Member{"maxSkew", Integer(1, 2)},
			Member{"labelSelector", Object(
				Member{"matchLabels", Map(Text("", "123abc", "789xyz"), "pod-template-hash", "app")},
				Member{"matchExpressions", List(Object(
					Member{"key", Text("pod-template-hash", "app")},
					Member{"operator", Text("In", "NotIn", "Exists")},
					Member{"values", List(Text("123abc"))},
				))},
			)},
			Member{"matchLabelKeys", List(Text("app", "pod-template-hash"))},
		))},
	}
}

func container() Value {
	return Object(
		Member{"name", Text("first", "second")},
		Member{"env", List(Object(
			Member{"name", Text("OTHER", "KUBERNETES_SERVICE_HOST")},
			Member{"value", Text("", "already-set")},
			Member{"valueFrom", Object(Member{"fieldRef", Object(Member{"fieldPath", Text("status.hostIP")})})},
		))},
		Member{"volumeMounts", List(Object(Member{"name", Text("data")}, Member{"mountPath", Text("/data")}))},
		Member{"image", Text("registry.example.com/web:1")},
	)
}

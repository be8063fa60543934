package handlers

import "github.com/espalier-dev/espalier/internal/webhook/objecttest"

// member is a member of a random object.
type member = objecttest.Member

// randomPod has the fields of Pods that handlers read and change, and fields that no handler reads.
func randomPod() objecttest.Value {
	seconds := objecttest.Text("8998", "", "x", "-1", "99999999999999999999")
	return objecttest.Object(
		member{Name: "apiVersion", Value: objecttest.Text("v1")},
		member{Name: "kind", Value: objecttest.Text("Pod")},
		member{Name: "metadata", Value: objecttest.Object(
			member{Name: "generateName", Value: objecttest.Text("web-")},
			member{Name: "labels", Value: objecttest.Map(objecttest.Text("", "123abc"), "pod-template-hash", "app")},
			member{
				Name:  "annotations",
				Value: objecttest.Map(seconds, "projected-token-mount.resources.gardener.cloud/expiration-seconds", "note"),
			},
			member{Name: "ownerReferences", Value: objecttest.List(objecttest.Object(
				member{Name: "apiVersion", Value: objecttest.Text("apps/v1", "apps/v1beta2")},
				member{Name: "kind", Value: objecttest.Text("DaemonSet", "ReplicaSet")},
				member{Name: "controller", Value: objecttest.Bool},
			))},
		)},
		member{Name: "spec", Value: randomPodSpec()},
	)
}

func randomPodSpec() objecttest.Value {
	return objecttest.Object(
		member{Name: "serviceAccountName", Value: objecttest.Text("", "default", "robot")},
		member{Name: "automountServiceAccountToken", Value: objecttest.Bool},
		member{Name: "schedulerName", Value: objecttest.Text("", "default-scheduler", "bar-scheduler", "bin-packing-scheduler")},
		member{Name: "hostNetwork", Value: objecttest.Bool},
		member{Name: "volumes", Value: objecttest.List(objecttest.Object(
			member{Name: "name", Value: objecttest.Text("data", "kube-api-access-2138h", "kube-api-access")},
		))},
		member{Name: "initContainers", Value: objecttest.List(randomContainer())},
		member{Name: "containers", Value: objecttest.List(randomContainer())},
		member{Name: "ephemeralContainers", Value: objecttest.List(randomContainer())},
		member{Name: "nodeSelector", Value: objecttest.Map(objecttest.Text("", "selector", "other"), "additional", "example.com/a~b")},
		member{Name: "tolerations", Value: objecttest.List(objecttest.OneOf( // few values, so that a Pod often has one of them twice
			map[string]any{"key": "k1", "operator": "Exists"},
			map[string]any{"key": "k1", "operator": "Exists", "tolerationSeconds": 0},
			map[string]any{"key": "k1", "operator": "Exists", "tolerationSeconds": 10},
			map[string]any{"key": "k3", "operator": "Exists", "effect": "NoSchedule", "value": ""},
			map[string]any{"key": "configured", "operator": "Equal", "value": "v1", "effect": "NoExecute", "tolerationSeconds": nil},
			map[string]any{},
		))},
		member{Name: "securityContext", Value: objecttest.Object(
			member{Name: "runAsUser", Value: objecttest.Integer(0, 3)},
			member{Name: "seccompProfile", Value: objecttest.Object(
				member{Name: "type", Value: objecttest.Text("", "Unconfined", "RuntimeDefault")},
				member{Name: "localhostProfile", Value: objecttest.Text("profile.json")},
			)},
		)},
		member{Name: "topologySpreadConstraints", Value: objecttest.List(objecttest.Object(
			member{Name: "maxSkew", Value: objecttest.Integer(1, 2)},
			member{Name: "labelSelector", Value: objecttest.Object(
				member{Name: "matchLabels", Value: objecttest.Map(objecttest.Text("", "123abc", "789xyz"), "pod-template-hash", "app")},
				member{Name: "matchExpressions", Value: objecttest.List(objecttest.Object(
					member{Name: "key", Value: objecttest.Text("pod-template-hash", "app")},
					member{Name: "operator", Value: objecttest.Text("In", "NotIn", "Exists")},
					member{Name: "values", Value: objecttest.List(objecttest.Text("123abc"))},
				))},
			)},
			member{Name: "matchLabelKeys", Value: objecttest.List(objecttest.Text("app", "pod-template-hash"))},
		))},
	)
}

func randomContainer() objecttest.Value {
	fieldRef := objecttest.Object(member{Name: "fieldPath", Value: objecttest.Text("status.hostIP")})
	return objecttest.Object(
		member{Name: "name", Value: objecttest.Text("first", "second")},
		member{Name: "env", Value: objecttest.List(objecttest.Object(
			member{Name: "name", Value: objecttest.Text("OTHER", "KUBERNETES_SERVICE_HOST")},
			member{Name: "value", Value: objecttest.Text("", "already-set")},
			member{Name: "valueFrom", Value: objecttest.Object(member{Name: "fieldRef", Value: fieldRef})},
		))},
		member{Name: "volumeMounts", Value: objecttest.List(objecttest.Object(
			member{Name: "name", Value: objecttest.Text("data")},
			member{Name: "mountPath", Value: objecttest.Text("/data")},
		))},
		member{Name: "image", Value: objecttest.Text("registry.example.com/web:1")},
	)
}

// randomSecret has the fields of Secrets that handlers read and change.
func randomSecret() objecttest.Value {
	consider := objecttest.Text("", "true", "false")
	return objecttest.Object(
		member{Name: "apiVersion", Value: objecttest.Text("v1")},
		member{Name: "kind", Value: objecttest.Text("Secret")},
		member{Name: "metadata", Value: objecttest.Object(
			member{Name: "name", Value: objecttest.Text("robot-token")},
			member{
				Name:  "labels",
				Value: objecttest.Map(consider, "token-invalidator.resources.gardener.cloud/consider", "resources.gardener.cloud/purpose"),
			},
		)},
		member{Name: "data", Value: objecttest.Map(objecttest.Text("", "AAAA", "AAA=", "c2VjcmV0"), "token", "ca.crt")},
		member{Name: "type", Value: objecttest.Text("Opaque", "kubernetes.io/service-account-token")},
	)
}

// randomEndpointSlice has the fields of EndpointSlices that handlers read and change.
func randomEndpointSlice() objecttest.Value {
	zone := objecttest.OneOf(map[string]any{"name": "europe-1a"}, map[string]any{"name": "europe-1b"}, map[string]any{})
	return objecttest.Object(
		member{Name: "apiVersion", Value: objecttest.Text("discovery.k8s.io/v1")},
		member{Name: "kind", Value: objecttest.Text("EndpointSlice")},
		member{Name: "addressType", Value: objecttest.Text("IPv4")},
		member{Name: "endpoints", Value: objecttest.List(objecttest.Object(
			member{Name: "addresses", Value: objecttest.List(objecttest.Text("192.0.2.1", "192.0.2.2"))},
			member{Name: "zone", Value: objecttest.Text("europe-1a", "europe-1b", "")},
			member{Name: "hints", Value: objecttest.Object(
				member{Name: "forZones", Value: objecttest.List(zone)},
				member{Name: "forNodes", Value: objecttest.List(objecttest.Object(member{Name: "name", Value: objecttest.Text("node-1")}))},
			)},
		))},
	)
}

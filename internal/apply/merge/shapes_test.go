package merge

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// oddValues returns the values that the function variants puts, one after the other, in the place of each value of an object.
func oddValues() []any {
	return []any{
		nil, "x", int64(1),
		[]any{},
		[]any{nil},
		[]any{map[string]any{"name": "a"}, map[string]any{"name": "a"}},
		map[string]any{},
		map[string]any{"name": map[string]any{}, "cpu": []any{}},
		map[string]any{"a": "b"},
	}
}

// variants calls visit once for every place in root and every odd value. During the call, root has that value at that place.
func variants(root map[string]any, visit func()) {
	var descend func(value any)
	try := func(old any, set func(any)) {
		for _, odd := range oddValues() {
			set(runtime.DeepCopyJSONValue(odd))
			visit()
		}
		set(old)
		descend(old)
	}
	descend = func(value any) {
		switch typed := value.(type) {
		case map[string]any:
			for _, name := range sortedKeys(typed) {
				try(typed[name], func(v any) { typed[name] = v })
			}
		case []any:
			for i := range typed {
				try(typed[i], func(v any) { typed[i] = v })
			}
		}
	}
	descend(root)
}

const podTemplate = `{metadata: {labels: {a: b}, annotations: {kubectl.kubernetes.io/restartedAt: x}}, spec: {volumes: [{name: v, ` +
	`emptyDir: {}}], containers: [{name: a, image: i, ports: [{containerPort: 80, protocol: TCP}], resources: {requests: {cpu: 1, ` +
	`memory: 1Gi}, limits: {cpu: 1000m}}}]}}`

func TestMergeAcceptsObjectsOfAnyShape(t *testing.T) {
	const metadata = `metadata: {name: a, namespace: ns, uid: u, creationTimestamp: "2024-01-02T03:04:05Z", labels: {a: b}, annotations: ` +
		`{a: b, resources.gardener.cloud/preserve-replicas: "true", resources.gardener.cloud/preserve-resources: "true", ` +
		`reference.resources.gardener.cloud/x: x}}`
	for name, text := range map[string]string{
		"ConfigMap":      `{apiVersion: v1, kind: ConfigMap, ` + metadata + `, data: {a: b}, status: {}}`,
		"Secret":         `{apiVersion: v1, kind: Secret, ` + metadata + `, data: {a: aGVsbG8=}, stringData: {b: c}}`,
		"ServiceAccount": `{apiVersion: v1, kind: ServiceAccount, ` + metadata + `, secrets: [{name: a}], imagePullSecrets: [{name: a}]}`,
		"Service": `{apiVersion: v1, kind: Service, ` + metadata +
			`, spec: {type: LoadBalancer, clusterIP: 10.0.0.1, loadBalancerIP: 1.2.3.4, externalTrafficPolicy: Local, healthCheckNodePort: ` +
			`31000, ports: [{name: a, port: 80, nodePort: 30080}, {name: b, port: 81}]}}`,
		"Deployment": `{apiVersion: apps/v1, kind: Deployment, ` + metadata +
			`, spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: ` + podTemplate + `}, status: {replicas: 1}}`,
		"StatefulSet": `{apiVersion: apps/v1, kind: StatefulSet, ` + metadata +
			`, spec: {replicas: 1, volumeClaimTemplates: [{metadata: {name: c, labels: {a: b}}}], template: {}}}`,
		"DaemonSet": `{apiVersion: apps/v1, kind: DaemonSet, ` + metadata +
			`, spec: {template: {metadata: {annotations: {kubectl.kubernetes.io/restartedAt: x}}}}}`,
		"Job": `{apiVersion: batch/v1, kind: Job, ` + metadata +
			`, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}}}}`,
		"CronJob": `{apiVersion: batch/v1, kind: CronJob, ` + metadata +
			`, spec: {jobTemplate: {spec: {template: {metadata: {annotations: {a: b}}, spec: {containers: [{name: a}]}}}}}}`,
		"Pod": `{apiVersion: v1, kind: Pod, ` + metadata + `, spec: {activeDeadlineSeconds: 1, tolerations: [{key: a}], ` +
			`initContainers: [{name: a}], containers: [{name: a, image: i}]}}`,
		"replaceable Pod": `{apiVersion: v1, kind: Pod, metadata: {annotations: {resources.gardener.cloud/delete-on-invalid-update: "1"}}, ` +
			`spec: {tolerations: [{key: a}], containers: [{name: a, image: i}]}}`,
		"token Secret":     `{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, ` + metadata + `, data: {token: eA==}}`,
		"claim":            `{apiVersion: v1, kind: PersistentVolumeClaim, ` + metadata + `, spec: {resources: {requests: {storage: 1Gi}}}}`,
		"PersistentVolume": `{apiVersion: v1, kind: PersistentVolume, ` + metadata + `, spec: {claimRef: {namespace: a, name: b}}}`,
		"ClusterRole": `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, ` + metadata +
			`, aggregationRule: {}, rules: [{verbs: [get]}]}`,
		"webhooks": `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, ` + metadata +
			`, webhooks: [{name: a, clientConfig: {caBundle: eA==}}]}`,
		"APIService": `{apiVersion: apiregistration.k8s.io/v1, kind: APIService, ` + metadata + `, spec: {caBundle: eA==}}`,
		"kept fields": `{apiVersion: example.com/v1, kind: Widget, metadata: {annotations: {espalier.dev/keep-fields: ` +
			`"spec.a.b, spec.list[name=a].v, spec.list[0], spec['x']"}}, spec: {a: {b: c}, list: [{name: a, v: w}], x: u}}`,
		"Widget": `{apiVersion: example.com/v1, kind: Widget, ` + metadata + `, spec: {template: {metadata: {labels: {a: b}}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			live, manifest := object(t, text), object(t, text)
			o := options(previous(map[string]string{"a": "b"}, map[string]string{"a": "b"}))
			check := func() { checkShapes(t, live, manifest, o) }
			variants(live.Object, check)
			variants(manifest.Object, check)
		})
	}
}

// checkShapes proves that nothing panics, and that a second merge does not change a merged object.
func checkShapes(t *testing.T, live, manifest *unstructured.Unstructured, o Options) {
	t.Helper()
	g := NewWithT(t)
	_, _ = ForCreate(manifest, o)
	_, _ = MergeIgnored(live)
	merged, err := Merge(live, manifest, o)
	if err != nil {
		g.Expect(merged).To(BeNil())
		return
	}
	_ = Differences(live, merged)
	again, err := Merge(merged, manifest, o)
	if err != nil {
		return // A rule now reads as live a value of the manifest that no rule read before.
	}
	if differences := Differences(merged, again); len(differences) > 0 {
		t.Errorf("merging again changes %v of %v", differences, merged.Object)
	}
}
